// @ts-check
// Draws predicted and measured tiers on one axis, or rescales the measured tier to the predicted length to compare their order.

import { h } from "./dom.js";
/** @import { ChartState, ShownChart } from "./types/chart.d.ts" */

const RESCALE_RATIO = 4; // ratio beyond which measured times default to their own scale

/**
 * The ratio of measured to predicted time; 0 if either is missing.
 * @param {ChartState} state
 * @returns {number}
 */
function ratioOf({ spans }) {
  const lane = spans.flatMap(({ lanes }) => lanes).find(({ own }) => own);
  return lane ? lane.own / spans[0].unit : 0;
}

/**
 * The chart state to draw, rescaled if the measured tier has its own scale.
 * @param {ShownChart} shown
 * @returns {ChartState}
 */
export function scaledState(shown) {
  const { sent } = shown, ratio = ratioOf(sent);
  if (!ratio) shown.own = null;
  if (!ratio || !isOwn(shown)) return sent;
  const [start, end] = sent.ranges.x, axis = sent.properties["x axis"];
  const properties = { ...sent.properties, "x axis": { ...axis, axis_label: `${axis?.axis_label}, as predicted` } };
  const { idle } = sent.sources, sources = idle?.own ? { ...sent.sources, idle: { ...idle, right: idle.own } } : sent.sources;
  return {
    ...sent,
    properties,
    sources,
    across: `${sent.across}, own`,
    ranges: { ...sent.ranges, x: [start, ratio > 1 ? end / ratio : end] },
  };
}

/**
 * @param {Pick<ShownChart, "own" | "sent">} shown
 * @returns {boolean}
 */
export function isOwn({ own, sent }) {
  const ratio = ratioOf(sent);
  return Boolean(ratio) && (own ?? (sent.rescales && (ratio > RESCALE_RATIO || ratio < 1 / RESCALE_RATIO)));
}

/**
 * The checkbox that toggles the scale; `again` redraws the chart.
 * @param {ShownChart} shown
 * @param {() => void} again
 * @returns {HTMLElement}
 */
export function scaleTool(shown, again) {
  const box = h("input", {
    type: "checkbox",
    data: { focus: "own-scale" },
    onchange: () => {
      shown.own = box.checked;
      again();
    },
  });
  const title = "Scale the measurement to the length of the prediction, to compare order";
  return h("label", { class: "scaling", title, hidden: true }, box, " measured to its own scale");
}

/** @param {ShownChart} shown */
export function paintScale(shown) {
  const label = /** @type {HTMLElement} */ (shown.element.querySelector(".scaling")), box = label.querySelector("input");
  label.hidden = !ratioOf(shown.sent);
  if (box) box.checked = isOwn(shown);
}
