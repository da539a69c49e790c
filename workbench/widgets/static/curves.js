// @ts-check
// Line plots of a run and of several models' losses, read by pointer or arrow keys.

import { h, keepKids, painter, svg } from "./dom.js";
/** @import { CurveState } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */
/** @import { LossLine, Losses } from "./types/fleet.d.ts" */

/**
 * The index of the point nearest to `x`.
 * @param {[number, number][]} points
 * @param {number} x
 * @returns {number}
 */
export const nearest = (points, x) =>
  points.reduce((best, point, i) => (Math.abs(point[0] - x) < Math.abs(points[best][0] - x) ? i : best), 0);

/**
 * @param {Wb} wb
 * @param {CurveState} curve
 */
function curveOf(wb, curve) {
  const { label } = curve;
  const last = h("b"), reading = h("span", { class: "muted atstep" });
  const across = svg("line", { class: "across", x1: 0, x2: 100 }), line = svg("polyline", {});
  const grid = [0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: 100, y1: y, y2: y }));
  const drawing = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...grid, across, line);
  const dot = h("i", { class: "dot", hidden: true });
  const plot = h("div", { class: "plot", tabIndex: 0, role: "img" }, drawing, dot);
  const high = h("span"), low = h("span"), first = h("span"), end = h("span");
  const element = h(
    "div",
    { class: "curve", data: { curve: label } },
    h("div", { class: "caption" }, h("span", {}, label), reading, last),
    h("div", { class: "scale" }, high, low),
    plot,
    h("div", { class: "steps" }, first, end),
  );
  let state = curve;
  /** @type {number | null} */
  let at = null; // index of the point being read
  const show = () => {
    const place = at === null ? null : Math.min(at, state.points.length - 1);
    const point = place === null ? undefined : state.points[place];
    dot.hidden = !point;
    if (point) {
      dot.style.left = `${point[0]}%`;
      dot.style.top = `${point[1]}%`;
    }
    reading.textContent = point && place !== null ? state.told[place] : state.across?.text ?? "";
  };
  /** @param {PointerEvent} event */
  const point = (event) => {
    const box = plot.getBoundingClientRect(), x = (100 * (event.clientX - box.left)) / box.width;
    at = nearest(state.points, x);
    show();
  };
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerleave", () => {
    at = null;
    show();
  });
  plot.addEventListener("blur", () => {
    at = null;
    show();
  });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    at = Math.max(0, Math.min(state.points.length - 1, (at ?? (step > 0 ? -1 : state.points.length)) + step));
    show();
    wb.say(reading.textContent);
  });
  /** @type {Paint<CurveState>} */
  const paint = painter((now) => {
    state = now;
    line.setAttribute("points", now.points.map(([x, y]) => `${x},${y}`).join(" "));
    across.setAttribute("visibility", now.across ? "visible" : "hidden");
    if (now.across) {
      across.setAttribute("y1", `${now.across.y}`);
      across.setAttribute("y2", `${now.across.y}`);
    }
    last.textContent = now.last;
    setScales({ high, low, first, end }, now);
    plot.ariaLabel =
      `${now.label} from ${now.first} to ${now.end}: between ${now.low} and ${now.high}, last ${now.last}. Arrow keys read each step.`;
    show();
  });
  return { element, paint };
}

/**
 * Labels of a plot's axes.
 * @param {Record<"high" | "low" | "first" | "end", HTMLElement>} places
 * @param {Record<"high" | "low" | "first" | "end", string>} texts
 */
export function setScales(places, { high, low, first, end }) {
  places.high.textContent = high;
  places.low.textContent = low;
  places.first.textContent = first;
  places.end.textContent = end;
}

/**
 * One element per curve, kept across updates because the pointer may be on it.
 * @param {Wb} wb
 */
export function curvesOf(wb) {
  const place = h("div", { class: "curves" });
  /** @type {Map<string, ReturnType<typeof curveOf>>} */
  const drawn = new Map();
  /** @param {CurveState[]} states */
  const paint = (states) => {
    keepKids(
      place,
      states.map((state) => {
        const curve = drawn.get(state.label) ?? curveOf(wb, state);
        drawn.set(state.label, curve);
        curve.paint(state);
        return curve.element;
      }),
    );
  };
  return { place, paint };
}

/**
 * The mini-batch nearest to `at`, the latest among all lines.
 * @param {LossLine[]} lines
 * @param {number} at
 * @returns {number}
 */
const batchAt = (lines, at) => Math.max(0, ...lines.filter((line) => line.points.length).map((line) => line.at[nearest(line.points, at)]));

/**
 * The value of a line at an axis position; a dash outside its range.
 * @param {LossLine} line
 * @param {number} at
 * @returns {string}
 */
function lossAt(line, at) {
  const last = line.points.at(-1);
  return last && last[0] >= at - 1 ? line.told[nearest(line.points, at)] : "–";
}

/** @param {Wb} wb */
export function lossesOf(wb) {
  const across = svg("line", { class: "at", y1: 0, y2: 100, visibility: "hidden" });
  const grid = [0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: 100, y1: y, y2: y }));
  const drawing = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...grid, across);
  const plot = h("div", { class: "plot", tabIndex: 0, role: "img", data: { focus: "losses" } }, drawing);
  const high = h("span"), low = h("span"), first = h("span"), end = h("span"), reading = h("span", { class: "muted atstep" });
  const legend = h("ul", { class: "losslegend" });
  const element = h(
    "div",
    { class: "curve losses", hidden: true },
    h("div", { class: "caption" }, h("span", {}, "loss"), reading),
    h("div", { class: "scale" }, high, low),
    plot,
    h("div", { class: "steps" }, first, end),
    legend,
  );
  /** @type {Map<string, ReturnType<typeof lineOf>>} */
  const lines = new Map();
  /** @type {LossLine[]} */
  let shown = [];
  /** @type {number | null} */
  let at = null; // axis position as a fraction

  const show = () => {
    across.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at !== null) {
      across.setAttribute("x1", `${at}`);
      across.setAttribute("x2", `${at}`);
    }
    reading.textContent = at === null ? "" : `mini-batch ${batchAt(shown, at).toLocaleString("en")}`;
    for (const line of shown) {
      const drawn = lines.get(line.key);
      if (drawn) drawn.value.textContent = at === null ? line.last : lossAt(line, at);
    }
  };
  /** @param {PointerEvent} event */
  const read = (event) => {
    const box = plot.getBoundingClientRect();
    at = Math.min(100, Math.max(0, (100 * (event.clientX - box.left)) / box.width));
    show();
  };
  const leave = () => {
    at = null;
    show();
  };
  plot.addEventListener("pointermove", read);
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("keydown", (event) => {
    const to = { ArrowRight: (at ?? -2) + 2, ArrowLeft: (at ?? 102) - 2, Home: 0, End: 100 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    at = Math.min(100, Math.max(0, to));
    show();
    wb.say(`${reading.textContent}: ${shown.map((line) => `${line.key} ${lines.get(line.key)?.value.textContent}`).join(", ")}`);
  });
  /** @param {LossLine} line */
  const lineOf = (line) => {
    const path = svg("polyline", { class: line.again ? "lossline again" : "lossline", "data-c": line.colour }), value = h("b");
    const entry = h(
      "li",
      { data: { c: line.colour } },
      h("i", { class: "modelmark" }, line.number),
      h("span", { class: "path", title: line.key }, h("bdi", {}, line.key)),
      value,
    );
    /** @param {boolean} on */
    const emphasise = (on) => {
      element.classList.toggle("one", on);
      path.classList.toggle("on", on);
    };
    entry.addEventListener("pointerenter", () => emphasise(true));
    entry.addEventListener("pointerleave", () => emphasise(false));
    drawing.append(path);
    legend.append(entry);
    return { path, value, entry };
  };
  /** @type {Paint<Losses | null>} */
  const paint = painter((now) => {
    shown = now?.lines ?? [];
    element.hidden = !now;
    if (!now) return;
    for (const [key, line] of lines) {
      if (!now.lines.some((line) => line.key === key)) {
        line.path.remove();
        line.entry.remove();
        lines.delete(key);
      }
    }
    for (const line of now.lines) {
      const drawn = lines.get(line.key) ?? lineOf(line);
      lines.set(line.key, drawn);
      drawn.path.setAttribute("points", line.points.map(([x, y]) => `${x},${y}`).join(" "));
    }
    setScales({ high, low, first, end }, now);
    plot.ariaLabel =
      `Losses of ${now.lines.length} models from ${now.first} to ${now.end}, between ${now.low} and ${now.high}. Arrow keys read them.`;
    show();
  });
  return { element, paint };
}
