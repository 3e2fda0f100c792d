"use strict";
// Comforts alone: what a question would be while it is typed, Ctrl+Enter, news of answers.
const sql = document.getElementById("sql"), price = document.getElementById("price");
const said = document.getElementById("said"), news = document.getElementById("news");
if (sql && said && price) {
  let timer = 0, last = "", turn = 0;
  const look = async () => {
    const query = new URLSearchParams({ part: "1", sql: sql.value, price: price.value });
    if (query.toString() === last) return;
    last = query.toString();
    const mine = ++turn;
    if (!sql.value.trim()) { said.textContent = ""; return; }
    try {
      const found = await fetch("/ask?" + query, { credentials: "same-origin" });
      const text = await found.text();
      if (mine === turn && found.ok && !text.startsWith("<!DOCTYPE")) said.innerHTML = text;
    } catch { /* the button does the same */ }
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(look, 500); };
  sql.addEventListener("input", soon);
  price.addEventListener("change", soon);
  sql.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sql.form.requestSubmit(
      sql.form.querySelector("button.main"));
  });
}
if (news) {
  let more = 0;
  const stream = new EventSource("/events");
  stream.addEventListener("release", () => {
    more += 1;
    const link = document.createElement("a");
    link.href = location.pathname;
    link.textContent = more === 1 ? "1 new answer: show it" : `${more} new answers: show them`;
    news.replaceChildren(link);
  });
}
