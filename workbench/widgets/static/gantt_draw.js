// @ts-check
// What is drawn of any chart over time, as SVG text: its ticks, its hatches, its scale.

import { clock } from "./clock.js";
/** @import { Scale } from "./types/pipeline.d.ts" */

export const GUTTER = 84; // pixels of the names before the bars
export const NARROW_TEXT = 6.2; // of a letter
/**
 * @param {string} text
 * @returns {string}
 */
export const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
/**
 * @param {number} value
 * @returns {string}
 */
export const px = (value) => value.toFixed(1);

/**
 * The place on the screen of a time, where `from` to `to` are in sight.
 * @param {number} from
 * @param {number} to
 * @param {number} width
 * @returns {Scale}
 */
export function scaleOf(from, to, width) {
  const scale = (width - GUTTER - 2) / (to - from || 1);
  return (time) => GUTTER + (time - from) * scale;
}

/**
 * What was done in vain is hatched; idle time is hatched lightly.
 * @returns {string}
 */
export function hatches() {
  return '<defs><pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#8B949E" fill-opacity="0.08"/><path d="M0 0V6" stroke="#8B949E" stroke-opacity="0.35"/></pattern>' +
    '<pattern id="again" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><path d="M0 0V4" stroke="#FFFFFF" stroke-opacity="0.65" stroke-width="2.4"/></pattern></defs>';
}

/**
 * @param {{ from: number; to: number; x: Scale; width: number; bottom: number }} given
 * @returns {string[]}
 */
export function drawTicks({ from, to, x, width, bottom }) {
  const wide = (to - from) / Math.max(2, (width - GUTTER) / 110), power = 10 ** Math.floor(Math.log10(wide || 1));
  const step = [1, 2, 5, 10].map((factor) => power * factor).find((each) => each >= wide) ?? power * 10;
  const marks = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) {
    const at = x(i * step);
    marks.push(`<path d="M${px(at)} 12V${bottom}" stroke="#8B949E" stroke-opacity="0.25"/>`);
    if (at < width - 40) marks.push(`<text x="${px(at + 3)}" y="10" font-size="10">${i ? escaped(clock(i * step)) : "0"}</text>`);
  }
  return marks;
}
