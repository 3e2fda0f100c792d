for (const figure of document.querySelectorAll("figure")) {
  for (const box of figure.querySelectorAll(".legend input")) {
    const hideOrShow = () => figure.classList.toggle(`no-${box.name}`, !box.checked);
    box.addEventListener("change", hideOrShow);
    hideOrShow();
  }
  figure.querySelectorAll(".chart").forEach(read);
}
function read(chart) {
  const { x, names, rows } = JSON.parse(chart.querySelector(".data").textContent);
  const tip = chart.querySelector(".tip");
  const named = chart.classList.contains("names");
  const { area, place, hide, found, steps } = named ? lines(chart, tip) : drawn(chart, tip, x);
  let now = -1;
  function show(k) {
    now = Math.max(0, Math.min(rows.length - 1, k));
    const head = document.createElement("b");
    head.textContent = rows[now][0];
    tip.replaceChildren(head, ...names.map((name, j) => {
      const line = document.createElement("div");
      for (const text of [name, rows[now][j + 1]]) {
        line.appendChild(document.createElement("span")).textContent = text;
      }
      return line;
    }));
    place(now);
    tip.style.visibility = "visible";
  }
  function gone() { tip.style.visibility = "hidden"; hide(); }
  for (const kind of ["pointermove", "pointerdown"]) {
    area.addEventListener(kind, event => { const k = found(event); if (k >= 0) show(k); });
  }
  for (const kind of ["pointerleave", "blur"]) area.addEventListener(kind, gone);
  area.addEventListener("keydown", event => {
    const step = steps[event.key];
    if (step) { show(now + step); event.preventDefault(); }
  });
}
function drawn(chart, tip, x) {
  const area = chart.querySelector("svg"), cursor = chart.querySelector(".cursor");
  const units = area.viewBox.baseVal.width;
  function place(k) {
    cursor.setAttribute("x1", x[k]);
    cursor.setAttribute("x2", x[k]);
    const at = x[k] / units * area.clientWidth, right = at > area.clientWidth / 2;
    tip.style.left = `${Math.max(0, right ? at - tip.offsetWidth - 12 : at + 12)}px`;
    cursor.style.visibility = "visible";
  }
  function found(event) {
    const box = area.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * units;
    return x.reduce((best, _, k) => Math.abs(x[k] - at) < Math.abs(x[best] - at) ? k : best, 0);
  }
  const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -7, PageDown: 7 };
  return { area, place, found, steps, hide() { cursor.style.visibility = "hidden"; } };
}
function lines(chart, tip) {
  const rows = [...chart.querySelectorAll(".of-name")];
  function hide() { rows.forEach(row => row.classList.remove("now")); }
  function place(k) {
    hide();
    rows[k].classList.add("now");
    const below = rows[k].offsetTop + rows[k].offsetHeight + 4;
    const last = chart.offsetHeight - tip.offsetHeight;
    tip.style.top = `${below <= last ? below : rows[k].offsetTop - tip.offsetHeight - 4}px`;
    tip.style.left = `${rows[k].querySelector(".set").offsetLeft + 12}px`;
  }
  const found = event => rows.indexOf(event.target.closest(".of-name"));
  return { area: chart, place, hide, found, steps: { ArrowUp: -1, ArrowDown: 1, PageUp: -7, PageDown: 7 } };
}
