// @ts-check
// A timeline's blocks and names, drawn anew for each range that is seen: the data source holds what can be seen and no more.

import { colourOf, isDark } from "./chart_look.js";
import { isOwn } from "./chart_scale.js";
import { groupOf, laneOf, sameSpan, unitOf, unpackSpans, visibleBlocks, visibleNames } from "./chart_spans.js";
import { titleOf } from "./chart_titles.js";
import { isChosen } from "./select.js";
/** @import { Blocks, BokehModel, ShownChart, Spans, Window } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const MARGIN = 0.2; // of the range, drawn on both sides: what comes into sight while it is dragged
const GAP = 4; // pixels from which on a numbered block has one of ground behind it
const NEARLY = 1.6; // by how much the scale may change before it is drawn anew
const STILL = 120; // milliseconds after which nothing moves
const NAMES = 60; // milliseconds between two times that names are placed anew while it moves: in between they move along

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
export function fillSpans(wb, shown) {
  const before = shown.spans, spans = shown.spans = unpackSpans(shown.state.spans);
  shown.drawn = shown.blocks = null;
  if (!spans) return;
  spans.own = isOwn(shown);
  shown.at = before && shown.at >= 0 ? sameSpan(before, shown.at, spans) : -1;
  if (shown.group && !spans.starts.some((_, span) => groupOf(spans, span) === shown.group)) shown.group = "";
  if (shown.doc) drawSpansNow(wb, shown);
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
export function drawSpansNow(wb, shown) {
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
    drawSpansNow(wb, shown);
    if (hover) hover.active = !shown.keyed;
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
  const source = /** @type {BokehModel} */ (doc.get_model_by_name("blocks"));
  shown.marking = true;
  source.data = columnsOf(spans, blocks, shown.drawn, named, isDark(wb));
  source.selected.indices = selectedBlocks(wb, shown);
  const at = shown.at < 0 ? -1 : blockOf(spans, blocks, shown.at);
  if (at >= 0) source.inspected.indices = [at];
  shown.marking = false;
}

/**
 * What stands out: blocks of the group that is pointed at, else what is chosen on the board.
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @returns {number[]}
 */
function selectedBlocks(wb, { spans, blocks, group }) {
  if (!spans || !blocks) return [];
  if (group) return blocks.span.flatMap((span, i) => (standsBack({ spans, group }, span) ? [] : [i]));
  const chosen = chosenStyles(wb, spans);
  return chosen.size ? blocks.span.flatMap((span, i) => (chosen.has(spans.kinds[span]) ? [i] : [])) : [];
}

/**
 * Whether a span is of another group than the one that is pointed at.
 * @param {Pick<ShownChart, "spans" | "group">} shown
 * @param {number} span
 * @returns {boolean}
 */
const standsBack = ({ spans, group }, span) => group !== "" && spans !== null && groupOf(spans, span) !== group;

/**
 * Blocks of another group than that of `block` stand back; with none (-1) all are as they were.
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {number} block
 */
export function dimOthers(wb, shown, block) {
  const { spans, blocks, doc } = shown;
  const group = spans && blocks && block >= 0 && block < blocks.span.length ? groupOf(spans, blocks.span[block]) : "";
  if (group === shown.group || !doc) return;
  shown.group = group;
  shown.marking = true;
  /** @type {BokehModel} */ (doc.get_model_by_name("blocks")).selected.indices = selectedBlocks(wb, shown);
  shown.marking = false;
  drawNames(wb, shown);
}

/**
 * The block that a span is drawn in, or the one nearest to it in its lane; -1 where none of that lane is.
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {number} span
 * @returns {number}
 */
export function blockOf(spans, blocks, span) {
  const lane = laneOf(spans, span), x = spans.starts[span] / unitOf(spans, lane);
  let best = -1;
  for (let i = 0; i < blocks.lane.length; i++) {
    if (blocks.lane[i] === lane && (best < 0 || blocks.left[i] <= x + 1e-9 * Math.abs(x))) best = i;
  }
  return best;
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 */
function drawNames(wb, shown) {
  const { doc, spans, blocks } = shown;
  if (doc && spans && blocks) {
    const names = visibleNames(spans, blocks, seenOf(shown)).filter(({ block }) => !standsBack(shown, blocks.span[block]));
    /** @type {BokehModel} */ (doc.get_model_by_name("names")).data = namesOf(spans, blocks, names, isDark(wb));
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
 * @param {Window} drawn
 * @param {boolean} named
 * @param {boolean} dark
 */
function columnsOf(spans, blocks, drawn, named, dark) {
  const { lanes, styles, kinds, shares } = spans, pixel = spans.numbers ? (drawn.to - drawn.from) / drawn.width : 0;
  return {
    left: Float64Array.from(blocks.left),
    right: Float64Array.from(blocks.right, (right, i) => right - (right - blocks.left[i] > GAP * pixel ? pixel : 0)),
    shared: Float64Array.from(blocks.left, (left, i) => left + (shares?.[blocks.span[i]] ?? 0) * (blocks.right[i] - left)),
    bottom: Float64Array.from(blocks.lane, (lane) => lanes[lane].bottom),
    top: Float64Array.from(blocks.lane, (lane) => lanes[lane].top),
    color: blocks.span.map((_, i) => blockColour(spans, blocks, i, dark)),
    alpha: Float32Array.from(blocks.weight),
    title: named ? blocks.span.map((_, i) => titleOf(spans, blocks, i)) : new Array(blocks.span.length).fill(""),
    subject: blocks.span.map((span) => styles[kinds[span]][2]),
  };
}

/**
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {number} i
 * @param {boolean} dark
 * @returns {string}
 */
const blockColour = ({ lanes, styles, kinds }, blocks, i, dark) =>
  colourOf(styles[kinds[blocks.span[i]]][4] || lanes[blocks.lane[i]].colour, dark);

/**
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {ReturnType<typeof visibleNames>} names
 * @param {boolean} dark
 */
function namesOf(spans, blocks, names, dark) {
  return {
    x: names.map(({ x }) => x),
    y: names.map(({ block }) => (spans.lanes[blocks.lane[block]].bottom + spans.lanes[blocks.lane[block]].top) / 2),
    text: names.map(({ text }) => text),
    color: names.map(({ block }) => inkOn(blockColour(spans, blocks, block, dark), blocks.weight[block], dark)),
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
