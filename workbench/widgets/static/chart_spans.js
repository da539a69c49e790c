// @ts-check
// Level of detail for timelines: which blocks are visible at a zoom, and which are wide enough for a label.

/** @import { Blocks, SentSpans, Spans, Window } from "./types/chart.d.ts" */

const MIN_PX = 2; // narrower spans are merged with their neighbours
const MAX_PX = 3; // maximum width of a merged block
const LABEL_PX = 38; // minimum width of a labelled block
const CHARACTER = 6.65, PADDING = 8, CLOSE = 3; // pixels: character width, padding of a label, padding of a number

/**
 * @param {string} text
 * @returns {ArrayBuffer}
 */
function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer;
}

/**
 * @template {Float64Array | Float32Array | Uint32Array | Int32Array} T
 * @param {new (length: number) => T} kind
 * @param {T[]} parts
 * @returns {T}
 */
function join(kind, parts) {
  if (parts.length === 1) return parts[0];
  const all = new kind(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/**
 * Concatenates all parts, with the styles of the first.
 * @param {SentSpans[]} sent
 * @returns {Spans | null}
 */
export function unpackSpans(sent) {
  if (!sent.length) return null;
  const [first] = sent, starts = join(Float64Array, sent.map((part) => new Float64Array(bytesOf(part.starts))));
  const numbered = sent.some(({ numbers }) => numbers);
  const lengthOf = (/** @type {SentSpans} */ part) => part.firsts.at(-1) ?? 0;
  return {
    ...first,
    lanes: sent.flatMap(({ lanes }) => lanes),
    firsts: sent.reduce((/** @type {number[]} */ all, { firsts }) => [...all, ...firsts.slice(1).map((i) => i + (all.at(-1) ?? 0))], [
      0,
    ]),
    starts,
    seconds: join(Float32Array, sent.map((part) => new Float32Array(bytesOf(part.seconds)))),
    kinds: join(Uint32Array, sent.map((part) => new Uint32Array(bytesOf(part.kinds)))),
    numbers: numbered
      ? join(Int32Array, sent.map((part) => part.numbers ? new Int32Array(bytesOf(part.numbers)) : new Int32Array(lengthOf(part)).fill(-1)))
      : null,
    shares: numbered
      ? join(Float32Array, sent.map((part) => part.shares ? new Float32Array(bytesOf(part.shares)) : new Float32Array(lengthOf(part))))
      : null,
    own: false,
  };
}

/**
 * The seconds per unit of the x axis.
 * @param {Pick<Spans, "lanes" | "own" | "unit">} spans
 * @param {number} lane
 * @returns {number}
 */
export const unitOf = ({ lanes, own, unit }, lane) => (own && lanes[lane].own) || unit;

/**
 * The lane of a span.
 * @param {Pick<Spans, "firsts">} spans
 * @param {number} span
 * @returns {number}
 */
export const laneOf = ({ firsts }, span) => firsts.findIndex((first) => first > span) - 1;

/**
 * The highlight group of a span, or "".
 * @param {Pick<Spans, "styles" | "kinds" | "numbers">} spans
 * @param {number} span
 * @returns {string}
 */
export function groupOf({ styles, kinds, numbers }, span) {
  const number = numbers?.[span] ?? -1;
  return styles[kinds[span]][5] || (number < 0 ? "" : `${number}`);
}

/**
 * The label or title of a span's style, with its number.
 * @param {Pick<Spans, "styles" | "kinds" | "numbers">} spans
 * @param {number} span
 * @param {0 | 1} part
 * @returns {string}
 */
export function textOf({ styles, kinds, numbers }, span, part) {
  const text = styles[kinds[span]][part], number = numbers?.[span] ?? -1;
  return number < 0 ? text : text.replaceAll("{number}", `${number}`);
}

/**
 * The index in `after` of the span with the same lane, style and number, or -1: indices change with each edit and each unit of a run.
 * @param {Spans} before
 * @param {number} at
 * @param {Spans} after
 * @returns {number}
 */
export function sameSpan(before, at, after) {
  const { name, tier, top } = before.lanes[laneOf(before, at)], text = textOf(before, at, 1);
  const lane = after.lanes.findIndex((candidate) => candidate.name === name && candidate.tier === tier && candidate.top === top);
  for (let span = after.firsts[lane]; span < after.firsts[lane + 1]; span++) {
    if (textOf(after, span, 1) === text) return span;
  }
  return -1;
}

/**
 * Binary search: the first index in [low, high) whose value is greater than `value`.
 * @param {Float64Array} values
 * @param {number} value
 * @param {number} low
 * @param {number} high
 * @returns {number}
 */
export function placeAfter(values, value, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * The visible blocks of each lane. Spans narrower than `MIN_PX` are merged, so that the number of blocks depends only on the width in pixels; the
 * weight of a block is its mean over time.
 * @param {Spans} spans
 * @param {Window} seen
 * @returns {Blocks}
 */
export function visibleBlocks(spans, { from, to, width }) {
  const { lanes, starts, seconds, kinds, styles, firsts } = spans;
  /** @type {Blocks} */
  const blocks = { left: [], right: [], lane: [], span: [], count: [], seconds: [], weight: [] };
  for (let lane = 0; lane < lanes.length; lane++) {
    const unit = unitOf(spans, lane), pixel = (to - from) / Math.max(width, 1) * unit, narrow = MIN_PX * pixel, column = MAX_PX * pixel;
    const last = placeAfter(starts, to * unit, firsts[lane], firsts[lane + 1]);
    let i = Math.max(firsts[lane], placeAfter(starts, from * unit, firsts[lane], last) - 1);
    if (i < last && starts[i] + seconds[i] < from * unit) i++; // skip a span that ended before the range
    let now = -1, left = 0, right = 0, busy = 0, weighed = 0, longest = 0, count = 0;
    const end = () => {
      if (now < 0) return;
      blocks.left.push(left / unit);
      blocks.right.push(Math.max(right, left + pixel) / unit);
      blocks.lane.push(lane);
      blocks.span.push(longest);
      blocks.count.push(count);
      blocks.seconds.push(busy);
      blocks.weight.push(busy ? weighed / busy : lanes[lane].weight);
    };
    for (; i < last; i++) {
      const start = starts[i], length = seconds[i], stop = start + length;
      const joins = now >= 0 && start - right < narrow && Math.min(length, right - left) < narrow && right - left < column &&
        length < column;
      if (!joins) {
        end();
        now = longest = i;
        left = start;
        right = stop;
        busy = weighed = count = 0;
      } else {
        right = Math.max(right, stop);
        if (length > seconds[longest]) longest = i;
      }
      busy += length;
      weighed += length * styles[kinds[i]][3] * lanes[lane].weight;
      count++;
    }
    end();
  }
  return blocks;
}

/**
 * Labels of the blocks that are wide enough, truncated to fit, with their position. A number is centred in the part without hatching, if it
 * fits entirely.
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {Window} seen
 * @returns {{ block: number; x: number; text: string }[]}
 */
export function visibleNames(spans, blocks, { from, to, width }) {
  const pixels = width / (to - from), names = [];
  for (let i = 0; i < blocks.left.length; i++) {
    if (blocks.count[i] > 1) continue;
    const span = blocks.span[i], share = spans.shares?.[span] ?? 0;
    const begin = blocks.left[i] + share * (blocks.right[i] - blocks.left[i]),
      left = Math.max(begin, from),
      right = Math.min(blocks.right[i], to);
    const wide = (right - left) * pixels, label = textOf(spans, span, 0);
    if (spans.numbers) {
      if (label && wide > label.length * CHARACTER + 2 * CLOSE) names.push({ block: i, x: (left + right) / 2, text: label });
    } else if (wide >= LABEL_PX) {
      const room = Math.floor((wide - PADDING) / CHARACTER);
      names.push({ block: i, x: left, text: label.length > room ? `${label.slice(0, room - 1)}…` : label });
    }
  }
  return names;
}
