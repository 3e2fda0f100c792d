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
  const svg = chart.querySelector("svg");
  const cursor = chart.querySelector(".cursor"), tip = chart.querySelector(".tip");
  const units = svg.viewBox.baseVal.width;
  let now = -1;
  function show(k) {
    now = Math.max(0, Math.min(x.length - 1, k));
    cursor.setAttribute("x1", x[now]);
    cursor.setAttribute("x2", x[now]);
    const head = document.createElement("b");
    head.textContent = rows[now][0];
    tip.replaceChildren(head, ...names.map((name, j) => {
      const line = document.createElement("div");
      for (const text of [name, rows[now][j + 1]]) {
        line.appendChild(document.createElement("span")).textContent = text;
      }
      return line;
    }));
    const at = x[now] / units * svg.clientWidth, right = at > svg.clientWidth / 2;
    tip.style.left = `${Math.max(0, right ? at - tip.offsetWidth - 12 : at + 12)}px`;
    tip.style.visibility = cursor.style.visibility = "visible";
  }
  function hide() { tip.style.visibility = cursor.style.visibility = "hidden"; }
  function nearest(event) {
    const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * units;
    return x.reduce((best, _, k) => Math.abs(x[k] - at) < Math.abs(x[best] - at) ? k : best, 0);
  }
  for (const kind of ["pointermove", "pointerdown"]) {
    svg.addEventListener(kind, event => show(nearest(event)));
  }
  for (const kind of ["pointerleave", "blur"]) svg.addEventListener(kind, hide);
  svg.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -7, PageDown: 7 }[event.key];
    if (step) { show(now + step); event.preventDefault(); }
  });
}
