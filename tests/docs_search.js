// Runs the search of the docs' theme, its own worker with lunr, on phrases: one JSON list of pages each.
// node docs_search.js WORKER.js INDEX.json, with a JSON list of phrases on standard input.
const fs = require("fs");
const [worker, index] = process.argv.slice(2);
const { config, docs } = JSON.parse(fs.readFileSync(index, "utf-8"));
let listener;
const waiting = [];
globalThis.self = globalThis;
globalThis.addEventListener = (_, called) => (listener = called);
globalThis.postMessage = (message) => waiting.shift()(message);
(0, eval)(fs.readFileSync(worker, "utf-8"));
const told = (type, data) =>
  new Promise((resolve) => {
    waiting.push(resolve);
    listener({ data: { type, data } });
  });
(async () => {
  await told(0, { config, docs, options: {} });
  const phrases = JSON.parse(fs.readFileSync(0, "utf-8"));
  const found = [];
  for (const phrase of phrases) {
    const { data } = await told(2, phrase);
    found.push(data.items.slice(0, 5).map((item) => item[0].location.split("#")[0]));
  }
  console.log(JSON.stringify(found));
})();
