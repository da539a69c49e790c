// @ts-check
// Tooltip text of timeline blocks: what ran, its duration and start, and its duration in the other tier.

import { textOf } from "./chart_spans.js";
/** @import { Blocks, Spans } from "./types/chart.d.ts" */

/** Span indices by tier, style and number. @type {WeakMap<Spans, Map<string, number>>} */
const spanIndexes = new WeakMap();

/**
 * The same format as in Python's pictures: `compute · 3 in 120 µs, the longest 80.0 µs: dot · mlp/up/dot_general · gpt.py:181`.
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {number} i
 * @returns {string}
 */
export function titleOf(spans, blocks, i) {
  const span = blocks.span[i], lane = spans.lanes[blocks.lane[i]], share = spans.shares?.[span] ?? 0;
  const one = `${clock(spans.seconds[span])}: ${textOf(spans, span, 1)}`;
  const text = blocks.count[i] === 1 ? one : `${blocks.count[i]} in ${clock(blocks.seconds[i])}, the longest ${one}`;
  const repeated = share ? `, ${clock(spans.seconds[span] * share)} of it ${spans.hatched}` : "";
  return `${lane.name} · ${text}\n${lane.tier && `${lane.tier} `}from ${clock(spans.starts[span])}${repeated}${
    otherTierText(spans, blocks.lane[i], span)
  }`;
}

/**
 * The duration of the same span in the other tier, with the ratio of measured to predicted.
 * @param {Spans} spans
 * @param {number} lane
 * @param {number} span
 * @returns {string}
 */
function otherTierText(spans, lane, span) {
  const { lanes, starts, seconds } = spans, { tier, other: of } = lanes[lane];
  const other = of && !isLost(spans, span) ? spanIndex(spans).get(keyOf(spans, of, span)) : undefined;
  if (other === undefined) return "";
  const ratio = tier === "measured" ? seconds[span] / seconds[other] : seconds[other] / seconds[span];
  const times = Number.isFinite(ratio) && [tier, of].includes("measured") ? `: measured is ${ratio.toFixed(2)}× of the prediction` : "";
  return `\n${of} ${clock(seconds[other])} from ${clock(starts[other])}${times}`;
}

/**
 * The span was lost entirely, and another span repeats its work.
 * @param {Spans} spans
 * @param {number} span
 */
const isLost = ({ shares }, span) => shares?.[span] === 1;

/**
 * @param {Spans} spans
 * @returns {Map<string, number>}
 */
function spanIndex(spans) {
  const known = spanIndexes.get(spans);
  if (known) return known;
  /** @type {Map<string, number>} */
  const places = new Map();
  for (let lane = 0; lane < spans.lanes.length; lane++) {
    const { tier, other } = spans.lanes[lane];
    for (let span = spans.firsts[lane]; other && span < spans.firsts[lane + 1]; span++) {
      if (!isLost(spans, span)) places.set(keyOf(spans, tier, span), span);
    }
  }
  spanIndexes.set(spans, places);
  return places;
}

/**
 * @param {Spans} spans
 * @param {string} tier
 * @param {number} span
 */
const keyOf = ({ kinds, numbers }, tier, span) => `${tier} ${kinds[span]} ${numbers?.[span] ?? -1}`;

/**
 * Formats a duration as Python's `format_seconds` does.
 * @param {number} seconds
 * @returns {string}
 */
export function clock(seconds) {
  for (const [unit, scale] of /** @type {[string, number][]} */ ([["s", 1], ["ms", 1e3], ["µs", 1e6]])) {
    const value = seconds * scale;
    if (value >= 1 || unit === "µs") return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  }
  return "";
}
