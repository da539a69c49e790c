// @ts-check
// Many spans of time at any zoom: which blocks are seen, and which of them are wide enough for a name. Arithmetic alone.

/** @import { Blocks, SentSpans, Spans, Window } from "./types/chart.d.ts" */

const NARROW = 2; // pixels: narrower spans are drawn with their neighbours
const COLUMN = 3; // pixels that spans are gathered over, at most
const NAMED = 38; // pixels that a name needs
const CHARACTER = 6.65, PADDING = 8, CLOSE = 3; // pixels: of a letter, beside a name, beside a number

/**
 * @param {string} text
 * @returns {ArrayBuffer}
 */
function bytesOf(text) {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0)).buffer;
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
 * All parts as one, with the styles of the first.
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
    firsts: sent.reduce((/** @type {number[]} */ all, { firsts }) => [...all, ...firsts.slice(1).map((each) => each + (all.at(-1) ?? 0))], [
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
 * The seconds that are 1 on the x axis.
 * @param {Pick<Spans, "lanes" | "own" | "unit">} spans
 * @param {number} lane
 * @returns {number}
 */
export const unitOf = ({ lanes, own, unit }, lane) => (own && lanes[lane].own) || unit;

/**
 * The lane that a span is in.
 * @param {Pick<Spans, "firsts">} spans
 * @param {number} span
 * @returns {number}
 */
export const laneOf = ({ firsts }, span) => firsts.findIndex((first) => first > span) - 1;

/**
 * What stands out together with a span, if anything.
 * @param {Pick<Spans, "styles" | "kinds" | "numbers">} spans
 * @param {number} span
 * @returns {string}
 */
export function groupOf({ styles, kinds, numbers }, span) {
  const number = numbers?.[span] ?? -1;
  return styles[kinds[span]][5] || (number < 0 ? "" : `${number}`);
}

/**
 * A label or a title of a span's style, with its number.
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
 * The span of other spans that says the same in the same lane, or -1: their places move with each edit and each unit of a run.
 * @param {Spans} before
 * @param {number} at
 * @param {Spans} after
 * @returns {number}
 */
export function sameSpan(before, at, after) {
  const { name, tier, top } = before.lanes[laneOf(before, at)], text = textOf(before, at, 1);
  const lane = after.lanes.findIndex((each) => each.name === name && each.tier === tier && each.top === top);
  for (let span = after.firsts[lane]; span < after.firsts[lane + 1]; span++) {
    if (textOf(after, span, 1) === text) return span;
  }
  return -1;
}

/**
 * The first place from `low` on, before `high`, where a sorted array is greater than `value`.
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
 * What is seen of each lane. Spans narrower than `NARROW` are gathered with their neighbours, a few pixels at most, so that the number of blocks
 * depends on the pixels alone; their weight is the mean over their time.
 * @param {Spans} spans
 * @param {Window} seen
 * @returns {Blocks}
 */
export function visibleBlocks(spans, { from, to, width }) {
  const { lanes, starts, seconds, kinds, styles, firsts } = spans;
  /** @type {Blocks} */
  const blocks = { left: [], right: [], lane: [], span: [], count: [], seconds: [], weight: [] };
  for (let lane = 0; lane < lanes.length; lane++) {
    const unit = unitOf(spans, lane), pixel = (to - from) / Math.max(width, 1) * unit, narrow = NARROW * pixel, column = COLUMN * pixel;
    const last = placeAfter(starts, to * unit, firsts[lane], firsts[lane + 1]);
    let i = Math.max(firsts[lane], placeAfter(starts, from * unit, firsts[lane], last) - 1);
    if (i < last && starts[i] + seconds[i] < from * unit) i++; // it has ended before
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
 * The names of blocks that are wide enough for one, cut to what has room: where it begins in what is seen, and the text; by the block's place.
 * A number stands in the middle of what is not hatched, if all of it has room.
 * @param {Spans} spans
 * @param {Blocks} blocks
 * @param {Window} seen
 * @returns {{ block: number; x: number; text: string }[]}
 */
export function visibleNames(spans, blocks, { from, to, width }) {
  const pixels = width / (to - from), found = [];
  for (let i = 0; i < blocks.left.length; i++) {
    if (blocks.count[i] > 1) continue;
    const span = blocks.span[i], share = spans.shares?.[span] ?? 0;
    const begin = blocks.left[i] + share * (blocks.right[i] - blocks.left[i]),
      left = Math.max(begin, from),
      right = Math.min(blocks.right[i], to);
    const wide = (right - left) * pixels, label = textOf(spans, span, 0);
    if (spans.numbers) {
      if (label && wide > label.length * CHARACTER + 2 * CLOSE) found.push({ block: i, x: (left + right) / 2, text: label });
    } else if (wide >= NAMED) {
      const room = Math.floor((wide - PADDING) / CHARACTER);
      found.push({ block: i, x: left, text: label.length > room ? `${label.slice(0, room - 1)}…` : label });
    }
  }
  return found;
}
