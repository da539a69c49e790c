// @ts-check
// The curve of a run: a line with its scales, and the value under the pointer or the arrow keys.

import { h, keepKids, painter, svg } from "./dom.js";
/** @import { CurveState } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * The place of the point that is nearest to `x`.
 * @param {[number, number][]} points
 * @param {number} x
 * @returns {number}
 */
export const nearest = (points, x) =>
  points.reduce((best, each, i) => (Math.abs(each[0] - x) < Math.abs(points[best][0] - x) ? i : best), 0);

/**
 * @param {Wb} wb
 * @param {CurveState} given
 */
function curveOf(wb, given) {
  const { label } = given;
  const last = h("b"), told = h("span", { class: "muted atstep" });
  const across = svg("line", { class: "across", x1: 0, x2: 100 }), line = svg("polyline", {});
  const grid = [0, 50, 100].map((y) => svg("line", { class: "grid", x1: 0, x2: 100, y1: y, y2: y }));
  const drawing = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, ...grid, across, line);
  const dot = h("i", { class: "dot", hidden: true });
  const plot = h("div", { class: "plot", tabIndex: 0, role: "img" }, drawing, dot);
  const high = h("span"), low = h("span"), first = h("span"), end = h("span");
  const element = h(
    "div",
    { class: "curve", data: { curve: label } },
    h("div", { class: "caption" }, h("span", {}, label), told, last),
    h("div", { class: "scale" }, high, low),
    plot,
    h("div", { class: "steps" }, first, end),
  );
  let state = given;
  /** @type {number | null} */
  let at = null; // the point that is read
  const show = () => {
    const place = at === null ? null : Math.min(at, state.points.length - 1);
    const point = place === null ? undefined : state.points[place];
    dot.hidden = !point;
    if (point) {
      dot.style.left = `${point[0]}%`;
      dot.style.top = `${point[1]}%`;
    }
    told.textContent = point && place !== null ? state.told[place] : state.across?.text ?? "";
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
    wb.say(told.textContent);
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
 * What the axes of a plot say.
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
 * One element for each curve, kept while its values change: the pointer may be on it.
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
