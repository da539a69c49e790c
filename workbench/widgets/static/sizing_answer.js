// @ts-check
// The answer of the start panel: whether the model fits, and a row per layout that opens on the board.

import { h, withCode } from "./dom.js";
/** @import { LayoutRow, SizingAnswer } from "./types/start.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {SizingAnswer} answer
 */
export function drawSizing(wb, answer) {
  const labels = answer.rows[0]?.cells.map((cell) => cell.label) ?? [];
  /** @param {LayoutRow} row */
  const open = (row) => wb.send({ verb: "open_layout", goal: row.goal });
  const rows = answer.rows.map((row) =>
    h(
      "tr",
      { onclick: () => open(row) },
      h(
        "th",
        { scope: "row" },
        h("button", {
          class: "btn small",
          type: "button",
          title: "Open this layout on the board",
          data: { focus: `layout ${row.goal}` },
          onclick: (event) => {
            event.stopPropagation();
            open(row);
          },
        }, row.label),
      ),
      ...row.cells.map((cell) => h("td", { data: { label: cell.label } }, cell.text || "–")),
    )
  );
  return [
    h("p", { class: `headline ${answer.tone}`, role: "status" }, answer.headline),
    rows.length
      ? h(
        "div",
        { class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Layouts" },
        h(
          "table",
          {},
          h("caption", { class: "sr" }, "Layouts; a row opens on the board"),
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Open"), ...labels.map((label) => h("th", { scope: "col" }, label)))),
          h("tbody", {}, ...rows),
        ),
      )
      : null,
    answer.notes.length
      ? h(
        "details",
        { class: "notes" },
        h("summary", {}, answer.notes.length === 1 ? "1 note" : `${answer.notes.length} assumptions and notes`),
        h("ul", {}, ...answer.notes.map((note) => h("li", {}, ...withCode(note)))),
      )
      : null,
  ].filter((node) => node !== null);
}
