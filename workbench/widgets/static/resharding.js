// @ts-check
// Cells that stand one under the other, words of the glossary within them, and edits that were tried with what each saves.

import { drawCell } from "./table_cells.js";
import { h } from "./dom.js";
import { termLabel } from "./help.js";
/** @import { RemediesCell, Remedy, StackCell, TermsCell } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {StackCell} cell
 * @returns {HTMLElement}
 */
export function drawStack(wb, cell) {
  return h(
    "div",
    { class: "stack", title: cell.title ?? "" },
    ...cell.stack.map((each) => {
      const { lead, beside } = typeof each === "string" ? {} : each;
      return h(
        "div",
        {},
        lead ? h("span", { class: "lead muted" }, lead, " ") : null,
        drawCell(wb, each),
        beside ? h("span", { class: "beside" }, beside) : null,
      );
    }),
  );
}

/**
 * @param {Wb} wb
 * @param {TermsCell} cell
 * @returns {HTMLElement}
 */
export function drawTerms(wb, cell) {
  return h(
    "span",
    { class: `terms ${cell.tone ?? ""}` },
    ...cell.terms.flatMap((term, i) => [i ? ", then " : null, termLabel(wb, term)]).filter(Boolean),
  );
}

/**
 * @param {Wb} wb
 * @param {Remedy} remedy
 * @returns {HTMLElement}
 */
function drawRemedy(wb, remedy) {
  return h(
    "div",
    { class: "remedy" },
    h("button", {
      class: "btn small",
      type: "button",
      title: remedy.title,
      data: { focus: `mend ${remedy.edit}` },
      onclick: () => wb.send({ verb: "mend", edit: remedy.edit, zone: "tools" }),
    }, remedy.edit),
    h("span", { class: remedy.tone }, remedy.note),
    remedy.held ? h("span", { class: remedy.held_tone }, remedy.held) : null,
  );
}

/**
 * @param {Wb} wb
 * @param {RemediesCell} cell
 * @returns {HTMLElement}
 */
export function drawRemedies(wb, cell) {
  const find = !cell.find ? null : h("button", {
    class: "btn small find",
    type: "button",
    ariaLabel: `${cell.find} for ${cell.about}`,
    title: "Each is planned and kept only if it saves",
    data: { focus: `find ${cell.key}` },
    onclick: () => {
      if (!find || find.ariaBusy === "true") return;
      find.ariaBusy = "true";
      find.textContent = "Trying…";
      wb.send({ verb: "try_edits", key: cell.key, zone: "tools" });
    },
  }, cell.find);
  const none = cell.remedies.length || find ? null : h("span", {
    class: "muted",
    tabIndex: -1,
    title: "Every edit that was tried sends more in all, or as much here",
    data: { focus: `find ${cell.key}` },
  }, "none is known");
  return h("div", { class: "remedies" }, ...cell.remedies.map((remedy) => drawRemedy(wb, remedy)), find, none);
}
