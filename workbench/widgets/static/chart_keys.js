// @ts-check
// Keyboard and button control of charts: zoom, pan and moving between marks; in a timeline, left and right follow a lane.

import { marksOf } from "./chart_look.js";
import { laneOf, placeAfter, unitOf } from "./chart_spans.js";
import { blockOf, dimOthers, drawSpansNow } from "./chart_timeline.js";
import { titleOf } from "./chart_titles.js";
import { h } from "./dom.js";
/** @import { Blocks, BokehModel, ShownChart, Spans } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * Moves to the next mark, announces it, scrolls it into view and outlines it.
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {number} by steps along the marks
 * @param {number} [down] steps across lanes
 */
export function walk(wb, shown, by, down = 0) {
  const marks = marksOf(shown);
  if (!marks?.data.title?.length) return;
  disableHover(shown);
  const at = shown.spans?.starts.length ? walkSpans(wb, shown, by, down) : walkMarks(shown, marks.data.title.length, by || down);
  const title = shown.spans?.starts.length && shown.blocks ? titleOf(shown.spans, shown.blocks, at) : marks.data.title[at]; // during a pan the data source lacks the mark
  const text = `${title}`.replaceAll("\n", " · ");
  const line = shown.element.querySelector(".tasktold");
  if (line) line.textContent = text;
  marks.inspected.indices = [at];
  dimOthers(wb, shown, at);
  marks.change.emit(); // redraw with the keyboard mark styled as hovered
  wb.say(text);
}

/**
 * Hides Bokeh's hover while the keyboard moves between marks.
 * @param {ShownChart} shown
 */
function disableHover(shown) {
  const hover = shown.doc?.get_model_by_name("hover");
  shown.keyed = true;
  if (hover) hover.active = false;
}

/**
 * Restores Bokeh's hover when the pointer moves again.
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
export function leaveKeys(wb, shown) {
  if (!shown.keyed) return;
  const hover = shown.doc?.get_model_by_name("hover");
  shown.keyed = false;
  if (hover) hover.active = true;
  leaveMarks(wb, shown);
}

/**
 * Removes the keyboard outline and undims all marks.
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
export function leaveMarks(wb, shown) {
  const marks = marksOf(shown), line = shown.element.querySelector(".tasktold");
  shown.at = -1;
  if (line) line.textContent = "";
  dimOthers(wb, shown, -1);
  if (!marks) return;
  marks.inspected.indices = [];
  marks.change.emit();
}

/**
 * The mark at the keyboard position, or -1.
 * @param {ShownChart} shown
 * @returns {number}
 */
export const markAt = ({ at, spans, blocks }) => (spans?.starts.length && blocks && at >= 0 ? blockOf(spans, blocks, at) : at);

/**
 * The next mark in reading order, wrapping around at both ends.
 * @param {ShownChart} shown
 * @param {number} count
 * @param {number} by
 * @returns {number}
 */
function walkMarks(shown, count, by) {
  shown.at = shown.at < 0 ? (by > 0 ? 0 : count - 1) : (shown.at + by + count) % count;
  return shown.at;
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {number} by
 * @param {number} down
 * @returns {number} the block index
 */
function walkSpans(wb, shown, by, down) {
  const spans = /** @type {Spans} */ (shown.spans), next = nextSpan(spans, /** @type {Blocks} */ (shown.blocks), shown.at, by, down);
  if (follow(shown, spans, next)) drawSpansNow(wb, shown);
  const block = Math.max(blockOf(spans, /** @type {Blocks} */ (shown.blocks), next), 0);
  shown.at = /** @type {Blocks} */ (shown.blocks).span[block];
  return block;
}

/**
 * The next span by keyboard: the next block in the lane, a span beyond the drawn range, or the nearest start in the next nonempty lane.
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {number} at the current span, or -1
 * @param {number} by
 * @param {number} down
 * @returns {number}
 */
export function nextSpan(spans, blocks, at, by, down) {
  if (at < 0 || !spans.starts.length) return blocks.span[0] ?? 0;
  const lane = laneOf(spans, at);
  if (down) return nearestSpan(spans, spans.starts[at] / unitOf(spans, lane), nextLane(spans, lane, down));
  const block = blockOf(spans, blocks, at), beside = block + by;
  if (block < 0) return at; // scroll the current span into view first
  if (blocks.lane[beside] === lane) return blocks.span[beside];
  const unit = unitOf(spans, lane), first = spans.firsts[lane], last = spans.firsts[lane + 1];
  const edge = (by > 0 ? blocks.right[block] : blocks.left[block]) * unit;
  const neighbour = by > 0
    ? Math.max(placeAfter(spans.starts, edge * (1 - 1e-9), first, last), at + 1)
    : Math.min(placeAfter(spans.starts, edge, first, last), at) - 1;
  return Math.min(Math.max(neighbour, first), last - 1);
}

/**
 * @param {Spans} spans
 * @param {number} lane
 * @param {number} down
 * @returns {number}
 */
function nextLane({ firsts, lanes }, lane, down) {
  let next = lane;
  do next = (next + down + lanes.length) % lanes.length; while (firsts[next] === firsts[next + 1]);
  return next;
}

/**
 * @param {Spans} spans
 * @param {number} x
 * @param {number} lane
 * @returns {number}
 */
function nearestSpan(spans, x, lane) {
  const time = x * unitOf(spans, lane), { starts, firsts } = spans, after = placeAfter(starts, time, firsts[lane], firsts[lane + 1]);
  const before = Math.max(after - 1, firsts[lane]);
  return after < firsts[lane + 1] && starts[after] - time < time - starts[before] ? after : before;
}

/**
 * Centres a span unless it is fully visible; returns whether the range moved.
 * @param {ShownChart} shown
 * @param {Spans} spans
 * @param {number} span
 * @returns {boolean}
 */
function follow({ doc, state }, spans, span) {
  const range = /** @type {BokehModel} */ (doc?.get_model_by_name("x")), unit = unitOf(spans, laneOf(spans, span));
  const start = spans.starts[span] / unit, end = start + spans.seconds[span] / unit, wide = range.end - range.start;
  if (start >= range.start && (end <= range.end + 1e-6 * wide || start < range.start + wide / 2)) return false;
  const [low, high] = state.ranges.x, from = Math.min(Math.max((start + end - wide) / 2, low), high - wide);
  range.setv({ start: from, end: from + wide });
  return true;
}

const ZOOM_IN = 0.625, ZOOM_OUT = 1.6; // zoom factors of keys and buttons
const PAN = 0.2; // fraction of the visible range that a key pans

/**
 * A range scaled about its middle, shifted by a fraction of its width and clamped to its bounds; in log space for a logarithmic axis.
 * @param {[number, number]} range
 * @param {[number, number]} bounds
 * @param {{ factor?: number; by?: number; log?: boolean }} how
 * @returns {[number, number]}
 */
export function movedRange(range, bounds, { factor = 1, by = 0, log = false }) {
  const to = log ? Math.log : (/** @type {number} */ value) => value, from = log ? Math.exp : (/** @type {number} */ value) => value;
  const [start, end] = range.map(to), [low, high] = bounds.map(to), width = Math.min((end - start) * factor, high - low);
  const begin = Math.min(Math.max((start + end) / 2 - width / 2 + by * width, low), high - width);
  return [from(begin), from(begin + width)];
}

/**
 * @param {ShownChart} shown
 * @param {{ factor?: number; by?: number }} how
 */
function zoomBy(shown, how) {
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
  const zoomIn = () => zoomBy(shown, { factor: ZOOM_IN }), zoomOut = () => zoomBy(shown, { factor: ZOOM_OUT });
  /** @type {Record<string, () => void>} */
  const acts = {
    "+": zoomIn,
    "=": zoomIn,
    w: zoomIn,
    "-": zoomOut,
    s: zoomOut,
    0: () => showAll(shown),
    a: () => zoomBy(shown, { by: -PAN }),
    d: () => zoomBy(shown, { by: PAN }),
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
  shown.element.addEventListener("pointerdown", (event) => { // shift-drag is box zoom
    shown.doc?.get_model_by_name("box")?.setv({ active: event.shiftKey });
    shown.doc?.get_model_by_name("pan")?.setv({ active: !event.shiftKey });
  }, true);
  return h(
    "span",
    { class: "zooms" },
    zoom("−", "Zoom out", zoomOut),
    zoom("+", "Zoom in", zoomIn),
    zoom("↔", "Reset zoom", () => showAll(shown)),
  );
}
