// Losses of several models over their mini-batches: a line each, to one scale; the pointer and the arrow keys read all of them at one place.

function lossesOf(wb) {
  const across = svg("line", { class: "at", y1: 0, y2: 100, visibility: "hidden" });
  const grid = [0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: 100, y1: y, y2: y }));
  const drawing = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...grid, across);
  const plot = h("div", { class: "plot", tabIndex: 0, role: "img", data: { focus: "losses" } }, drawing);
  const high = h("span"), low = h("span"), first = h("span"), end = h("span"), told = h("span", { class: "muted atstep" });
  const legend = h("ul", { class: "losslegend" });
  const element = h("div", { class: "curve losses", hidden: true }, h("div", { class: "caption" }, h("span", {}, "loss"), told), h("div", { class: "scale" }, high, low), plot, h("div", { class: "steps" }, first, end), legend);
  const lines = new Map();
  let state = null, at = null; // at: a share of the axis

  const near = (line) => line.points.reduce((best, each, i) => (Math.abs(each[0] - at) < Math.abs((line.points[best]?.[0] ?? Infinity) - at) ? i : best), 0);
  const show = () => {
    const batch = Math.max(0, ...state.lines.filter((line) => line.points.length && at !== null).map((line) => line.at[near(line)]));
    across.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) { across.setAttribute("x1", at); across.setAttribute("x2", at); }
    told.textContent = at === null ? "" : `mini-batch ${batch.toLocaleString("en")}`;
    for (const line of state.lines) {
      const there = at === null || !line.points.length || line.points.at(-1)[0] >= at - 1;
      lines.get(line.key).value.textContent = at === null ? line.last : there && line.points.length ? line.told[near(line)] : "–";
    }
  };
  const read = (event) => { const box = plot.getBoundingClientRect(); at = Math.min(100, Math.max(0, (100 * (event.clientX - box.left)) / box.width)); show(); };
  const leave = () => { at = null; show(); };
  plot.addEventListener("pointermove", read);
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("keydown", (event) => {
    const to = { ArrowRight: (at ?? -2) + 2, ArrowLeft: (at ?? 102) - 2, Home: 0, End: 100 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    at = Math.min(100, Math.max(0, to));
    show();
    wb.say(`${told.textContent}: ${state.lines.map((line) => `${line.key} ${lines.get(line.key).value.textContent}`).join(", ")}`);
  });
  const lineOf = (line) => {
    const path = svg("polyline", { class: line.again ? "lossline again" : "lossline", "data-c": line.colour }), value = h("b");
    const entry = h("li", { data: { c: line.colour } }, h("i", { class: "modelmark" }, line.number), h("span", { class: "path", title: line.key }, h("bdi", {}, line.key)), value);
    const emphasise = (on) => { element.classList.toggle("one", on); path.classList.toggle("on", on); };
    entry.addEventListener("pointerenter", () => emphasise(true));
    entry.addEventListener("pointerleave", () => emphasise(false));
    drawing.append(path);
    legend.append(entry);
    return { path, value, entry };
  };
  const paint = painter((now) => {
    state = now;
    element.hidden = !now;
    if (!now) return;
    for (const [key, each] of lines) if (!now.lines.some((line) => line.key === key)) { each.path.remove(); each.entry.remove(); lines.delete(key); }
    for (const line of now.lines) {
      if (!lines.has(line.key)) lines.set(line.key, lineOf(line));
      lines.get(line.key).path.setAttribute("points", line.points.map(([x, y]) => `${x},${y}`).join(" "));
    }
    for (const [place, text] of [[high, now.high], [low, now.low], [first, now.first], [end, now.end]]) place.textContent = text;
    plot.ariaLabel = `Losses of ${now.lines.length} models from ${now.first} to ${now.end}, between ${now.low} and ${now.high}. Arrow keys read them.`;
    show();
  });
  return { element, paint };
}
