// A pipelined step over time: a row a stage, predicted tasks above measured ones, memory beneath on the same axis. Zoomed and panned here.

const GUTTER = 84, MEASURED_PX = 9, LEAST_BAR = 0.7, NARROW_TEXT = 6.2;

// What a chart over time is of; the drawing, the words and the key are its own, zooming and walking are the same.
const PIPELINE_CHART = { title: "The step over time", name: "pipeline timeline", draw: (...given) => drawGantt(...given), tell: (...given) => tellTask(...given), key: (...given) => drawKey(...given), again: () => null };

function ganttChart(wb, chart = PIPELINE_CHART) {
  const hint = "Gantt chart. Plus and minus zoom, A and D pan, 0 shows all; arrows walk over the tasks.";
  const image = h("div", { class: "image gantt", tabIndex: 0, role: "application", ariaLabel: hint, data: { focus: "gantt" } });
  const told = h("div", { class: "tasktold", role: "status" }), key = h("div", { class: "key" }), note = h("div", { class: "muted difference" });
  const scaled = h("input", { type: "checkbox", data: { focus: "gantt-scaled" } });
  const scaling = h("label", { class: "scaling", title: "Draw what was measured as long as what was predicted, to compare their order" }, scaled, " measured to its own scale");
  const twin = h("pre", { tabIndex: 0 });
  const zoom = (sign, name, act) => h("button", { class: "btn icon", type: "button", ariaLabel: name, title: name, data: { focus: `gantt${sign}` }, onclick: act }, sign);
  const tools = h("div", { class: "gantttools" }, key, scaling, h("span", { class: "zooms" }, zoom("−", "Zoom out", () => zoomBy(1.6)), zoom("+", "Zoom in", () => zoomBy(0.625)), zoom("↔", "Show the whole step", () => show(0, 1))));
  const saves = h("span", { class: "saves" }, "Save as ", ...Object.keys(SAVES).map((kind) => h("button", { class: "btn small", type: "button", ariaLabel: `Save the timeline as ${kind}`, data: { save: kind }, onclick: () => { element.picture = { svg: standalone(image), text: state.text, name: chart.name }; savePicture(wb, element, kind); } }, kind)));
  const element = h("div", { class: "ganttbox" }, h("h3", {}, termLabel(wb, chart.title)), tools, image, told, note,
    h("div", { class: "under" }, h("details", {}, h("summary", {}, "As text"), twin), saves));
  let state = null, from = 0, to = 1, chosen = null, frame = 0;

  const length = () => Math.max(state.seconds, scaled.checked ? 0 : state.lasted) || 1;
  const draw = () => { frame = 0; if (state && image.clientWidth) image.innerHTML = chart.draw(state, { from: from * length(), to: to * length(), width: Math.max(image.clientWidth, 420), own: scaled.checked, chosen }); };
  const soon = () => { frame ||= requestAnimationFrame(draw); };
  const show = (a, b) => { const wide = Math.min(1, Math.max(1e-4, b - a)); from = Math.min(Math.max(0, a), 1 - wide); to = from + wide; image.dataset.from = from.toFixed(4); image.dataset.to = to.toFixed(4); soon(); };
  const zoomBy = (factor, at = 0.5) => { const middle = from + (to - from) * at, wide = (to - from) * factor; show(middle - wide * at, middle + wide * (1 - at)); };
  const share = (event) => { const box = image.getBoundingClientRect(); return Math.min(1, Math.max(0, (event.clientX - box.left - GUTTER) / (box.width - GUTTER))); };
  const choose = (task) => { if (task === chosen) return; chosen = task; told.textContent = task ? chart.tell(state, task) : ""; soon(); };

  image.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoomBy(event.deltaY > 0 ? 1.25 : 0.8, share(event)); }
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); const by = ((event.deltaX || event.deltaY) / image.clientWidth) * (to - from); show(from + by, to + by); }
  }, { passive: false });
  image.addEventListener("pointermove", (event) => { if (!wb.dragging) choose(taskAt(state, event.target)); });
  image.addEventListener("pointerleave", () => choose(null));
  image.addEventListener("dblclick", (event) => zoomBy(0.5, share(event)));
  image.addEventListener("pointerdown", (event) => { if (!event.button && to - from < 1) panBy(wb, image, event, () => [from, to], show); });
  image.addEventListener("keydown", (event) => {
    const act = { "+": () => zoomBy(0.625), "=": () => zoomBy(0.625), w: () => zoomBy(0.625), "-": () => zoomBy(1.6), s: () => zoomBy(1.6), 0: () => show(0, 1),
      a: () => show(from - (to - from) / 5, to - (to - from) / 5), d: () => show(from + (to - from) / 5, to + (to - from) / 5), Escape: () => choose(null),
      ArrowRight: () => walk(1, 0), ArrowLeft: () => walk(-1, 0), ArrowDown: () => walk(0, 1), ArrowUp: () => walk(0, -1) }[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  const walk = (by, down) => {
    const now = chosen ?? state.tasks[0];
    if (!now) return;
    const device = chosen ? (now[0] + down + state.devices) % state.devices : 0;
    const row = state.tasks.filter((task) => task[0] === device);
    const near = down || !chosen ? row.reduce((best, task) => (Math.abs(task[1] - now[1]) < Math.abs(best[1] - now[1]) ? task : best), row[0]) : row[Math.min(row.length - 1, Math.max(0, row.indexOf(now) + by))];
    choose(near);
    const whole = length();
    if (near[1] / whole < from || near[2] / whole > to) show((near[1] + near[2]) / 2 / whole - (to - from) / 2, (near[1] + near[2]) / 2 / whole + (to - from) / 2);
  };
  scaled.addEventListener("change", soon);
  new ResizeObserver(soon).observe(image);
  const paint = (next) => {
    const other = !state || state.devices !== next.devices || state.far !== next.far || Boolean(state.lasted) !== Boolean(next.lasted);
    chosen = chart.again(chosen, state, next); // what the pointer is on stays chosen while a run goes on
    state = next;
    told.textContent = chosen ? chart.tell(state, chosen) : "";
    if (other) { scaled.checked = next.far; show(0, 1); }
    scaling.hidden = !next.lasted;
    image.hidden = Boolean(next.note);
    image.ariaLabel = `${next.about} ${hint}`;
    note.textContent = next.note || next.difference;
    note.hidden = !note.textContent;
    twin.textContent = next.text;
    key.replaceChildren(...chart.key(next));
    draw();
  };
  return { element, paint };
}

// With the pointer; the chart holds it.
function panBy(wb, image, start, seen, show) {
  const [from, to] = seen();
  wb.dragging = true;
  image.setPointerCapture(start.pointerId);
  const stop = new AbortController();
  const end = () => { stop.abort(); wb.dragging = false; wb.paint(); };
  image.addEventListener("pointermove", (event) => { const by = ((start.clientX - event.clientX) / (image.clientWidth - GUTTER)) * (to - from); show(from + by, to + by); }, { signal: stop.signal });
  image.addEventListener("pointerup", end, { signal: stop.signal });
  image.addEventListener("pointercancel", end, { signal: stop.signal });
}

function drawKey(state) {
  const swatch = (fill, name, more = "") => h("span", {}, svgSwatch(fill, more), name);
  const shown = state.kinds.filter((kind) => kind.shown).map((kind) => swatch(kind.fill, kind.name));
  return [...shown, state.recomputes ? swatch("url(#again)", "computed again", state.kinds[1].fill) : null, swatch("url(#idle)", "bubble"), state.lasted ? h("span", {}, "thin: measured") : null].filter(Boolean);
}

function svgSwatch(fill, ground) {
  const box = (colour) => svg("rect", { width: 10, height: 10, rx: 2, fill: colour });
  return svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, ...(ground ? [box(ground)] : []), box(fill));
}

function taskAt(state, mark) {
  const [which, place] = (mark.dataset?.task ?? "").split(" ");
  return which ? state[which][Number(place)] : null;
}

// As `format_seconds` of Python writes them.
function clock(seconds) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e3], ["µs", 1e6]]) {
    const value = seconds * scale;
    if (value >= 1 || unit === "µs") return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  }
  return "";
}

function tellTask(state, task) {
  const [device, start, end, kind, stage, micro] = task;
  const same = (each) => each[3] === kind && each[4] === stage && each[5] === micro;
  const real = state.measured.includes(task), other = (real ? state.tasks : state.measured).find((each) => (kind === 4 ? each[0] === device && each[3] === 4 : same(each)));
  const turn = Math.floor(stage / state.devices);
  const name = `${state.kinds[kind].name}${micro < 0 ? "" : ` of micro-batch ${micro}`} · stage ${device}${state.chunks > 1 && micro >= 0 ? ` chunk ${turn}` : ""}`;
  const words = (each, label) => `${label} ${clock(each[1])} to ${clock(each[2])}, ${clock(each[2] - each[1])}`;
  const again = !real && task[6] ? `, ${clock((end - start) * task[6])} of it computed again` : "";
  const ratio = other && other[2] > other[1] ? ` · measured is ${(real ? (end - start) / (other[2] - other[1]) : (other[2] - other[1]) / (end - start)).toFixed(2)}× of it` : "";
  return `${name} · ${words(task, real ? "measured" : "predicted")}${again}${other ? ` · ${words(other, real ? "predicted" : "measured")}` : ""}${ratio}`;
}

// SVG that stands alone once it is taken out.
function standalone(image) {
  const copy = image.querySelector("svg").cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  return copy.outerHTML;
}
