// @ts-check
// The mark of a key: a colour, or what is drawn over one.

import { svg } from "./dom.js";

/**
 * @param {string} fill
 * @param {string} [ground]
 * @returns {SVGElement}
 */
export function svgSwatch(fill, ground) {
  /** @param {string} colour */
  const box = (colour) => svg("rect", { width: 10, height: 10, rx: 2, fill: colour });
  return svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, ...(ground ? [box(ground)] : []), box(fill));
}
