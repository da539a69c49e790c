// @ts-check
// Cells and rows of tables: each kind of cell by what it carries.

import { h, withCode } from "./dom.js";
import { drawPair } from "./history.js";
import { drawLine } from "./picking.js";
import { drawActs } from "./replay.js";
import { drawRemedies, drawStack, drawTerms } from "./resharding.js";
import { drawChips, drawFold, drawSection } from "./tensors.js";
import { drawAsked } from "./why.js";
/** @import { Cell, Column, Row } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {Cell} cell
 * @returns {Node | string}
 */
export function drawCell(wb, cell) {
  if (typeof cell === "string") return cell;
  if ("why" in cell && cell.why) return drawAsked(wb, cell);
  if ("line" in cell) return drawLine(wb, cell);
  if ("chips" in cell) return drawChips(wb, cell);
  if ("dims" in cell) {
    return h(
      "span",
      {},
      ...cell.dims.map((dim) =>
        h(
          "span",
          { class: "tag", title: dim.title, data: { c: dim.colours[0] } },
          dim.name,
          ...dim.colours.slice(1).map((colour) => h("i", { class: "second", data: { c: colour } })),
        )
      ),
    );
  }
  if ("acts" in cell) return drawActs(wb, cell);
  if ("stack" in cell) return drawStack(wb, cell);
  if ("terms" in cell) return drawTerms(wb, cell);
  if ("remedies" in cell) return drawRemedies(wb, cell);
  if ("pair" in cell) return drawPair(cell);
  if ("axes" in cell) return h("span", {}, ...cell.axes.map((axis) => h("span", { class: "tag", data: { c: axis.colour } }, axis.name)));
  if ("edits" in cell) {
    return h(
      "span",
      {},
      ...cell.edits.map((edit) => h("button", { class: "btn", type: "button", onclick: () => wb.send({ verb: "mend", edit }) }, edit)),
    );
  }
  if ("share" in cell) {
    const bar = h("i", { data: { shade: cell.shade } });
    bar.style.width = `${Math.max(1, cell.share * 110)}px`;
    return h("span", { class: "share" }, bar, cell.text);
  }
  if ("path" in cell && cell.path) {
    return h(
      "span",
      { class: "path", title: cell.title ?? cell.path },
      h("bdi", {}, cell.path, cell.count ? h("span", { class: "count" }, cell.count) : null),
    );
  }
  const text = "text" in cell ? cell.text : "";
  return h("span", { class: cell.tone ?? "", title: cell.title ?? "" }, ...(cell.wrap ? withCode(text) : [text]));
}

/**
 * @param {Wb} wb
 * @param {Column[]} columns
 * @param {Row} row
 * @returns {HTMLElement}
 */
export function drawRow(wb, columns, row) {
  if (row.section) return drawSection(wb, columns, row, row.section);
  return h(
    "tr",
    { class: row.tone ? `marked ${row.tone}-row` : "", data: { subject: row.subject || null } },
    ...row.cells.map((cell, i) =>
      h(
        "td",
        {
          class: [
            columns[i]?.number ? "n" : "",
            typeof cell === "object" && cell.wrap ? "wrap" : "",
            typeof cell === "object" && "chips" in cell ? "chipped" : "",
            i || !("fold" in row) ? "" : row.level ? `level${row.level}` : row.fold ? "" : "foldless",
          ].join(" ").trim(),
          data: { label: i ? columns[i]?.label : null },
        },
        i || !row.fold ? null : drawFold(wb, row.fold, typeof cell === "object" && "path" in cell ? cell.path : ""),
        drawCell(wb, cell),
      )
    ),
  );
}
