// @ts-check
// The figures of a plan: components, tier, status and warnings.

import { h, withCode } from "./dom.js";
import { drawAsk, termLabel } from "./terms.js";
/** @import { Alarm, Figure, Share, Standing, TierMark } from "./types/states.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Share} part
 * @returns {HTMLElement}
 */
function drawShare(part) {
  const slice = h("i", { title: part.title, data: { shade: part.shade } });
  slice.style.width = `${part.share * 100}%`;
  return slice;
}

/**
 * The mark of the device memory limit, when the bar exceeds it.
 * @param {{ share: number; text: string }} limit
 * @returns {HTMLElement}
 */
function drawLimit({ share, text }) {
  const line = h("i", { class: "limit", title: text });
  line.style.left = `${share * 100}%`;
  return line;
}

/**
 * @param {Figure} figure
 * @returns {HTMLElement[]}
 */
function drawBar(figure) {
  const limit = figure.limit && drawLimit(figure.limit);
  const all = figure.apart ? [...figure.parts, figure.apart] : figure.parts;
  return [
    h(
      "div",
      { class: "bars", role: "img", ariaLabel: all.map((part) => part.title).join("; ") },
      h("div", { class: `bar ${figure.tone}` }, ...figure.parts.map(drawShare)),
      limit,
      figure.apart ? h("div", { class: "bar apart" }, drawShare(figure.apart)) : null,
    ),
    h(
      "div",
      { class: "legend" },
      ...all.map((part) =>
        h("span", { title: part.title }, h("i", { data: { shade: part.shade } }), `${part.role} `, h("b", {}, part.text))
      ),
    ),
  ];
}

/**
 * The tier of a figure: an icon with a text for screen readers and tooltips.
 * @param {TierMark | undefined} mark
 * @returns {HTMLElement | null}
 */
export function drawMark(mark) {
  return mark?.key
    ? h("span", {
      class: "origin",
      role: "img",
      ariaLabel: mark.label,
      title: mark.title,
      data: { tier: mark.key, settles: mark.settles || null },
    })
    : null;
}

/**
 * The status of the figures: planned, compiling, compiled, or why compilation failed.
 * @param {Wb} wb
 * @param {Standing} standing
 * @returns {HTMLElement[]}
 */
export function drawStanding(wb, standing) {
  const sign = drawMark(standing.mark) ?? h("span");
  sign.ariaHidden = "true"; // the text beside it says the same
  return [
    sign,
    h("span", { title: standing.mark.title }, termLabel(wb, standing.mark.label ?? "")),
    h("span", { class: "how" }, standing.text),
  ];
}

/**
 * The change by the last edit, with its uncertainty.
 * @param {NonNullable<Figure["delta"]>} delta
 * @returns {HTMLElement}
 */
const drawDelta = ({ text, tone, note, title }) =>
  h("span", { class: "change", title }, h("span", { class: `delta ${tone}` }, text), note && h("span", { class: "doubt" }, ` ${note}`));

/**
 * @param {Wb} wb
 * @param {Figure} figure
 * @returns {HTMLElement}
 */
export function drawFigure(wb, figure) {
  const delta = figure.delta && drawDelta(figure.delta);
  const wide = figure.parts.length > 0;
  const range = figure.range &&
    h("span", { class: "range", title: "90 % prediction interval, measured on third-party programs." }, figure.range);
  return h(
    "div",
    { class: wide ? "figure wide" : "figure", title: wide ? "" : figure.title, data: { figure: figure.key } },
    h(
      "div",
      { class: "label", title: figure.title },
      termLabel(wb, figure.label, figure.key),
      drawAsk(wb, `figure ${figure.key}`, figure.label),
    ),
    h(
      "div",
      { class: `value ${figure.tone}`, title: figure.title },
      h("span", { class: "marked" }, figure.text, drawMark(figure.tier)),
      wide ? range : null,
      wide ? delta : null,
      wide && figure.note ? h("span", { class: `beside ${figure.tone}` }, figure.note) : null,
    ),
    wide ? null : h("div", { class: "sub" }, range, range && h("br"), delta, delta && " ", figure.note),
    figure.counted
      ? h("div", { class: "changes" }, ...figure.changes.map((change) => h("span", { class: change.tone }, change.text)))
      : null,
    ...(wide ? drawBar(figure) : []),
    ...figure.tiers.map((tier) =>
      h(
        "div",
        { class: tier.stale ? "tier stale" : "tier", title: tier.stale },
        drawMark(tier.mark),
        `${tier.label} `,
        h("b", {}, tier.text),
        tier.note ? h("span", {}, ` ${tier.note}`) : null,
      )
    ),
  );
}

/**
 * @param {Wb} wb
 * @param {Alarm} alarm
 * @returns {HTMLElement}
 */
export function drawAlarm(wb, alarm) {
  return h(
    "div",
    { class: "alarm", role: "alert" },
    h("b", { class: "bad" }, `${alarm.kind} `),
    h("span", {}, ...withCode(alarm.message)),
    " ",
    ...alarm.edits.map((edit) => h("button", { class: "btn small", type: "button", onclick: () => wb.send({ verb: "mend", edit }) }, edit)),
  );
}
