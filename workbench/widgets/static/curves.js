// The curve of a run: a line with its scales, and the value under the pointer or the arrow keys.

function curveOf(wb, label) {
  const last = h("b"), told = h("span", { class: "muted atstep" });
  const across = svg("line", { class: "across", x1: 0, x2: 100 }), line = svg("polyline", {});
  const grid = [0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: 100, y1: y, y2: y }));
  const drawing = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...grid, across, line);
  const dot = h("i", { class: "dot", hidden: true });
  const plot = h("div", { class: "plot", tabIndex: 0, role: "img" }, drawing, dot);
  const high = h("span"), low = h("span"), first = h("span"), end = h("span");
  const element = h("div", { class: "curve", data: { curve: label } },
    h("div", { class: "caption" }, h("span", {}, label), told, last),
    h("div", { class: "scale" }, high, low), plot, h("div", { class: "steps" }, first, end));
  let state = null, at = null;
  const show = () => {
    const point = at !== null && state.points[Math.min(at, state.points.length - 1)];
    dot.hidden = !point;
    if (point) { dot.style.left = `${point[0]}%`; dot.style.top = `${point[1]}%`; }
    told.textContent = point ? state.told[Math.min(at, state.points.length - 1)] : state.across?.text ?? "";
  };
  const point = (event) => {
    const box = plot.getBoundingClientRect(), x = (100 * (event.clientX - box.left)) / box.width;
    at = state.points.reduce((best, each, i) => (Math.abs(each[0] - x) < Math.abs(state.points[best][0] - x) ? i : best), 0);
    show();
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerleave", () => { at = null; show(); });
  plot.addEventListener("blur", () => { at = null; show(); });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    at = Math.max(0, Math.min(state.points.length - 1, (at ?? (step > 0 ? -1 : state.points.length)) + step));
    show();
    wb.say(told.textContent);
  });
  const paint = painter((now) => {
    state = now;
    line.setAttribute("points", now.points.map(([x, y]) => `${x},${y}`).join(" "));
    across.setAttribute("visibility", now.across ? "visible" : "hidden");
    if (now.across) { across.setAttribute("y1", now.across.y); across.setAttribute("y2", now.across.y); }
    for (const [place, text] of [[last, now.last], [high, now.high], [low, now.low], [first, now.first], [end, now.end]]) place.textContent = text;
    plot.ariaLabel = `${now.label} from ${now.first} to ${now.end}: between ${now.low} and ${now.high}, last ${now.last}. Arrow keys read each step.`;
    show();
  });
  return { element, paint };
}

// One element for each curve, kept while its values change: the pointer may be on it.
function curvesOf(wb) {
  const place = h("div", { class: "curves" }), drawn = new Map();
  const paint = (states) => {
    for (const state of states) if (!drawn.has(state.label)) drawn.set(state.label, curveOf(wb, state.label));
    states.forEach((state) => drawn.get(state.label).paint(state));
    const shown = states.map((state) => drawn.get(state.label).element);
    if (shown.length !== place.childElementCount || shown.some((each, i) => place.children[i] !== each)) place.replaceChildren(...shown);
  };
  return { place, paint };
}
