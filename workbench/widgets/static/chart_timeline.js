// @ts-check
// Redraws a timeline's blocks and names for each visible range, so that the data source holds only what is visible.

import { colourOf, isDark } from "./chart_look.js";
import { isOwn } from "./chart_scale.js";
import { groupOf, laneOf, sameSpan, unitOf, unpackSpans, visibleBlocks, visibleNames } from "./chart_spans.js";
import { titleOf } from "./chart_titles.js";
import { isChosen } from "./select.js";
/** @import { Blocks, BokehModel, ShownChart, Spans, Window } from "./types/chart.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

const MARGIN = 0.2; // fraction of the range drawn beyond each side, for dragging
const GAP_PX = 4; // wider numbered blocks end in a one-pixel gap
const SCALE_TOLERANCE = 1.6; // scale ratio beyond which blocks are redrawn
const SETTLE_MS = 120; // the range has settled after this time without a change
const LABELS_MS = 60; // minimum time between label layouts during a pan; labels move along in between

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
 * Redraws in the next animation frame; tooltips return once the range has settled.
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
    if (now - (shown.named ?? 0) < LABELS_MS) return;
    shown.named = now;
    drawNames(wb, shown);
  });
  if (hover?.active) hover.active = false;
  clearTimeout(shown.timer);
  shown.timer = setTimeout(() => {
    if (!shown.doc) return;
    drawSpansNow(wb, shown);
    if (hover) hover.active = !shown.keyed;
  }, SETTLE_MS);
}

/**
 * Whether the visible range lies within the drawn one at nearly the same scale.
 * @param {ShownChart} shown
 * @returns {boolean}
 */
function isDrawn(shown) {
  const drawn = shown.drawn, seen = visibleRange(shown);
  if (!drawn || seen.from < drawn.from || seen.to > drawn.to) return false;
  const finer = (seen.to - seen.from) / seen.width * drawn.width / (drawn.to - drawn.from);
  return finer > 1 / SCALE_TOLERANCE && finer < SCALE_TOLERANCE;
}

/**
 * @param {ShownChart} shown
 * @returns {Window}
 */
function visibleRange({ doc, view, element }) {
  const range = /** @type {BokehModel} */ (doc?.get_model_by_name("x"));
  return { from: range.start, to: range.end, width: view?.model.inner_width || element.clientWidth || 800 };
}

/**
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @param {boolean} named whether blocks have tooltips
 */
function drawBlocks(wb, shown, named) {
  const { doc, spans } = shown;
  if (!doc || !spans) return;
  const { from, to, width } = visibleRange(shown), more = MARGIN * (to - from);
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
 * Highlighted blocks: the hovered group, or else the board's selection.
 * @param {Wb} wb
 * @param {ShownChart} shown
 * @returns {number[]}
 */
function selectedBlocks(wb, { spans, blocks, group }) {
  if (!spans || !blocks) return [];
  if (group) return blocks.span.flatMap((span, i) => (isDimmed({ spans, group }, span) ? [] : [i]));
  const chosen = chosenStyles(wb, spans);
  return chosen.size ? blocks.span.flatMap((span, i) => (chosen.has(spans.kinds[span]) ? [i] : [])) : [];
}

/**
 * Whether a span lies outside the hovered group.
 * @param {Pick<ShownChart, "spans" | "group">} shown
 * @param {number} span
 * @returns {boolean}
 */
const isDimmed = ({ spans, group }, span) => group !== "" && spans !== null && groupOf(spans, span) !== group;

/**
 * Dims all blocks outside the group of `block`; -1 restores them.
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
 * The block that draws a span, or the nearest in its lane; -1 if the lane has none.
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
    const names = visibleNames(spans, blocks, visibleRange(shown)).filter(({ block }) => !isDimmed(shown, blocks.span[block]));
    /** @type {BokehModel} */ (doc.get_model_by_name("names")).data = namesOf(spans, blocks, names, isDark(wb));
  }
}

/**
 * The indices of the selected styles.
 * @param {Wb} wb
 * @param {Spans} spans
 * @returns {Set<number>}
 */
function chosenStyles(wb, spans) {
  const chosen = new Set();
  if (wb.selected) spans.styles.forEach(([, , subject], place) => isChosen(wb, subject) && chosen.add(place));
  return chosen;
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
    right: Float64Array.from(blocks.right, (right, i) => right - (right - blocks.left[i] > GAP_PX * pixel ? pixel : 0)),
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
 * Black or white, whichever contrasts more with a translucent colour on its background.
 * @param {string} colour
 * @param {number} weight
 * @param {boolean} dark
 * @returns {string}
 */
export function inkOn(colour, weight, dark) {
  const ground = dark ? 0.06 : 1;
  const mixed = [1, 3, 5].map((at) => weight * Number.parseInt(colour.slice(at, at + 2), 16) / 255 + (1 - weight) * ground);
  const [red, green, blue] = mixed.map((channel) => channel ** 2.2);
  return 0.21 * red + 0.72 * green + 0.07 * blue > 0.2 ? "#1B1F24" : "#FFFFFF";
}
