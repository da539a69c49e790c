// @ts-check
// Zooming a chart by buttons and keys. The pointer and the wheel are Bokeh's own tools.

import { leaveMarks, markAt, walk } from "./chart_walk.js";
import { h } from "./dom.js";
/** @import { BokehModel, ShownChart } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const IN = 0.625, OUT = 1.6; // by how much a key or a button zooms
const BY = 0.2; // of what is seen, by which a key pans

/**
 * A range made narrower or wider about its middle, moved by a share of itself, and kept within its bounds. On a logarithmic scale alike.
 * @param {[number, number]} range
 * @param {[number, number]} whole
 * @param {{ factor?: number; by?: number; log?: boolean }} how
 * @returns {[number, number]}
 */
export function movedRange(range, whole, { factor = 1, by = 0, log = false }) {
  const to = log ? Math.log : (/** @type {number} */ each) => each, from = log ? Math.exp : (/** @type {number} */ each) => each;
  const [start, end] = range.map(to), [low, high] = whole.map(to), wide = Math.min((end - start) * factor, high - low);
  const begin = Math.min(Math.max((start + end) / 2 - wide / 2 + by * wide, low), high - wide);
  return [from(begin), from(begin + wide)];
}

/**
 * @param {ShownChart} shown
 * @param {{ factor?: number; by?: number }} how
 */
function move(shown, how) {
  const { doc, state, view } = shown;
  if (!doc || !view) return;
  const both = view.model.toolbar.tools.some((/** @type {BokehModel} */ tool) => tool.name === "pan" && tool.dimensions === "both");
  for (const name of /** @type {("x" | "y")[]} */ (both && how.factor ? ["x", "y"] : ["x"])) {
    const range = /** @type {BokehModel} */ (doc.get_model_by_name(name));
    const log = /log/i.test(view.model[`${name}_scale`]?.type ?? "");
    const [start, end] = movedRange([range.start, range.end], state.ranges[name], { ...how, log });
    range.setv({ start, end });
  }
}

/** @param {ShownChart} shown */
function showAll({ doc, state }) {
  for (const name of /** @type {const} */ (["x", "y"])) {
    const [start, end] = state.ranges[name];
    doc?.get_model_by_name(name)?.setv({ start, end });
  }
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @returns {HTMLElement}
 */
export function zoomTools(wb, shown) {
  /**
   * @param {string} sign
   * @param {string} name
   * @param {() => void} act
   */
  const zoom = (sign, name, act) =>
    h("button", { class: "btn icon", type: "button", ariaLabel: name, title: name, data: { focus: `chart${sign}` }, onclick: act }, sign);
  const zoomIn = () => move(shown, { factor: IN }), zoomOut = () => move(shown, { factor: OUT });
  /** @type {Record<string, () => void>} */
  const acts = {
    "+": zoomIn,
    "=": zoomIn,
    w: zoomIn,
    "-": zoomOut,
    s: zoomOut,
    0: () => showAll(shown),
    a: () => move(shown, { by: -BY }),
    d: () => move(shown, { by: BY }),
    ArrowRight: () => walk(wb, shown, 1),
    ArrowDown: () => walk(wb, shown, 0, 1),
    ArrowLeft: () => walk(wb, shown, -1),
    ArrowUp: () => walk(wb, shown, 0, -1),
    Escape: () => leaveMarks(wb, shown),
    Enter: () => shown.act(markAt(shown)),
  };
  shown.element.addEventListener("keydown", (event) => {
    const act = acts[event.key.length > 1 ? event.key : event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !(event.target instanceof Element && event.target.matches(".plot"))) {
      return;
    }
    event.preventDefault();
    act();
  });
  shown.element.addEventListener("pointerdown", (event) => { // with shift held, dragging zooms to a box
    shown.doc?.get_model_by_name("box")?.setv({ active: event.shiftKey });
    shown.doc?.get_model_by_name("pan")?.setv({ active: !event.shiftKey });
  }, true);
  return h(
    "span",
    { class: "zooms" },
    zoom("−", "Zoom out", zoomOut),
    zoom("+", "Zoom in", zoomIn),
    zoom("↔", "Show all of it", () => showAll(shown)),
  );
}
