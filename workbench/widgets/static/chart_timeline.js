// @ts-check
// A timeline's blocks and names, drawn anew for each range that is seen: the data source holds what can be seen and no more.

import { colourOf, isDark } from "./chart_look.js";
import { unpackSpans, visibleBlocks, visibleNames } from "./chart_spans.js";
import { clock } from "./gantt_text.js";
import { isChosen } from "./select.js";
/** @import { Blocks, BokehModel, ShownChart, Spans, Window } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const MARGIN = 0.2; // of the range, drawn on both sides: what comes into sight while it is dragged
const NEARLY = 1.6; // by how much the scale may change before it is drawn anew
const STILL = 120; // milliseconds after which nothing moves
const NAMES = 60; // milliseconds between two times that names are placed anew while it moves: in between they move along

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
export function fillSpans(wb, shown) {
  shown.spans = shown.state.spans && unpackSpans(shown.state.spans);
  shown.drawn = shown.blocks = null;
  if (!shown.spans || !shown.doc) return;
  drawBlocks(wb, shown, true);
  drawNames(wb, shown);
}

/**
 * With the next frame; under the pointer nothing is named until it is still.
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
export function drawSpansSoon(wb, shown) {
  if (!shown.spans) return;
  const { doc } = shown, hover = doc?.get_model_by_name("hover");
  shown.frame ||= requestAnimationFrame((now) => {
    shown.frame = 0;
    if (!shown.doc) return;
    if (!isDrawn(shown)) drawBlocks(wb, shown, false);
    if (now - (shown.named ?? 0) < NAMES) return;
    shown.named = now;
    drawNames(wb, shown);
  });
  if (hover?.active) hover.active = false;
  clearTimeout(shown.timer);
  shown.timer = setTimeout(() => {
    if (!shown.doc) return;
    drawBlocks(wb, shown, true);
    drawNames(wb, shown);
    if (hover) hover.active = true;
  }, STILL);
}

/**
 * Whether what is seen lies within what was drawn, at nearly the same scale.
 * @param {ShownChart} shown
 * @returns {boolean}
 */
function isDrawn(shown) {
  const drawn = shown.drawn, seen = seenOf(shown);
  if (!drawn || seen.from < drawn.from || seen.to > drawn.to) return false;
  const finer = (seen.to - seen.from) / seen.width * drawn.width / (drawn.to - drawn.from);
  return finer > 1 / NEARLY && finer < NEARLY;
}

/**
 * @param {ShownChart} shown
 * @returns {Window}
 */
function seenOf({ doc, view, element }) {
  const range = /** @type {BokehModel} */ (doc?.get_model_by_name("x"));
  return { from: range.start, to: range.end, width: view?.model.inner_width || element.clientWidth || 800 };
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {boolean} named whether they say what they are under the pointer
 */
function drawBlocks(wb, shown, named) {
  const { doc, spans } = shown;
  if (!doc || !spans) return;
  const { from, to, width } = seenOf(shown), more = MARGIN * (to - from);
  shown.drawn = { from: from - more, to: to + more, width: width * (1 + 2 * MARGIN) };
  const blocks = shown.blocks = visibleBlocks(spans, shown.drawn);
  const source = /** @type {BokehModel} */ (doc.get_model_by_name("blocks")), chosen = chosenStyles(wb, spans);
  shown.marking = true;
  source.data = columnsOf(spans, blocks, named, isDark(wb));
  source.selected.indices = chosen.size ? blocks.span.flatMap((span, i) => (chosen.has(spans.kinds[span]) ? [i] : [])) : [];
  shown.marking = false;
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
function drawNames(wb, shown) {
  const { doc, spans, blocks } = shown;
  if (doc && spans && blocks) {
    /** @type {BokehModel} */ (doc.get_model_by_name("names")).data = namesOf(spans, blocks, seenOf(shown), isDark(wb));
  }
}

/**
 * The styles of what is chosen.
 * @param {Wb} wb
 * @param {Spans} spans
 * @returns {Set<number>}
 */
function chosenStyles(wb, spans) {
  const found = new Set();
  if (wb.selected) spans.styles.forEach(([, , subject], place) => isChosen(wb, subject) && found.add(place));
  return found;
}

/**
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {boolean} named
 * @param {boolean} dark
 */
function columnsOf(spans, blocks, named, dark) {
  const { lanes, styles, kinds } = spans;
  const colours = lanes.map((lane) => colourOf(lane.colour, dark));
  return {
    left: Float64Array.from(blocks.left),
    right: Float64Array.from(blocks.right),
    bottom: Float64Array.from(blocks.lane, (lane) => lanes[lane].bottom),
    top: Float64Array.from(blocks.lane, (lane) => lanes[lane].top),
    color: blocks.lane.map((lane) => colours[lane]),
    alpha: Float32Array.from(blocks.weight),
    title: named ? blocks.span.map((_, i) => titleOf(spans, blocks, i)) : new Array(blocks.span.length).fill(""),
    subject: blocks.span.map((span) => styles[kinds[span]][2]),
  };
}

/**
 * `3 in 120 µs, the longest 80.0 µs: dot · mlp/up/dot_general · gpt.py:181`, as Python writes it in its picture.
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {number} i
 * @returns {string}
 */
export function titleOf(spans, blocks, i) {
  const span = blocks.span[i], one = `${clock(spans.seconds[span])}: ${spans.styles[spans.kinds[span]][1]}`;
  const text = blocks.count[i] === 1 ? one : `${blocks.count[i]} in ${clock(blocks.seconds[i])}, the longest ${one}`;
  return `${spans.lanes[blocks.lane[i]].name} · ${text}\nfrom ${clock(spans.starts[span])}`;
}

/**
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {Window} seen
 * @param {boolean} dark
 */
function namesOf(spans, blocks, seen, dark) {
  const names = visibleNames(spans, blocks, seen);
  return {
    x: names.map(({ x }) => x),
    y: names.map(({ block }) => (spans.lanes[blocks.lane[block]].bottom + spans.lanes[blocks.lane[block]].top) / 2),
    text: names.map(({ text }) => text),
    color: names.map(({ block }) => inkOn(colourOf(spans.lanes[blocks.lane[block]].colour, dark), blocks.weight[block], dark)),
  };
}

/**
 * Black or white, whichever stands out from a colour that shows its ground.
 * @param {string} colour
 * @param {number} weight
 * @param {boolean} dark
 * @returns {string}
 */
export function inkOn(colour, weight, dark) {
  const ground = dark ? 0.06 : 1;
  const mixed = [1, 3, 5].map((at) => weight * Number.parseInt(colour.slice(at, at + 2), 16) / 255 + (1 - weight) * ground);
  const [red, green, blue] = mixed.map((each) => each ** 2.2);
  return 0.21 * red + 0.72 * green + 0.07 * blue > 0.2 ? "#1B1F24" : "#FFFFFF";
}
