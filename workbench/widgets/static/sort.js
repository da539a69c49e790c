// @ts-check
// Sorts tables by a click on a column header: numbers descending first, then reversed, then Python's order.

import { h } from "./dom.js";
import { termLabel } from "./terms.js";
/** @import { Block, Cell, Column, Row } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** @type {Record<string, number>} */
const SCALES = { "": 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4, P: 1024 ** 5, E: 1024 ** 6 };
/** @type {Record<string, number>} */
const DECIMAL = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
/** @type {Record<string, number>} */
const SECONDS = { s: 1, ms: 1e-3, "µs": 1e-6 };

/**
 * @param {Cell} cell
 * @returns {string}
 */
function cellText(cell) {
  if (typeof cell === "string") return cell;
  if ("text" in cell && cell.text !== undefined) return cell.text;
  if ("path" in cell) return cell.path;
  if ("axes" in cell) return cell.axes.map((axis) => axis.name).join(" ");
  if ("dims" in cell) return cell.dims.map((dim) => dim.name).join(" ");
  return "terms" in cell ? cell.terms.join(" ") : "";
}

/**
 * The sort key of a cell: a number scaled by its unit (`12.3 MiB`, `4.20 µs`, `8.59 GFLOP`, `38%`), else its text.
 * @param {Cell} cell
 * @returns {number | string}
 */
function sortValue(cell) {
  if (typeof cell === "object" && "stack" in cell) return sortValue(cell.stack[0]);
  if (typeof cell === "object" && "share" in cell) return cell.share;
  const text = cellText(cell);
  const match = /^([−-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*(\S*)/.exec(text);
  if (!match) return text === "–" ? 0 : text;
  const number = Number(match[1].replace("−", "-").replaceAll(",", ""));
  const unit = match[2];
  if (unit in SECONDS) return number * SECONDS[unit];
  if (/^[KMGTPE]?i?B(\/s)?$/.test(unit) && (unit.includes("i") || unit === "B")) return number * SCALES[unit[0] === "B" ? "" : unit[0]];
  return number * (DECIMAL[/^[kMGTPE](?=FLOP|B|$)/.exec(unit)?.[0] ?? ""]);
}

/**
 * @param {Cell} a
 * @param {Cell} b
 * @returns {number}
 */
function compareCells(a, b) {
  const one = sortValue(a), other = sortValue(b);
  if (typeof one === "number" && typeof other === "number") return one - other;
  return `${one}`.localeCompare(`${other}`, undefined, { numeric: true });
}

/**
 * @param {Block} block
 * @returns {boolean}
 */
export const canSort = (block) => block.rows.length > 1 && !block.rows.some((row) => row.section || "fold" in row);

/**
 * @param {Pick<Wb, "sorts">} wb
 * @param {Block} block
 * @param {string} head
 * @returns {Row[]}
 */
export function sortedRows(wb, block, head) {
  const by = wb.sorts.get(head);
  if (!by || !canSort(block)) return block.rows;
  return [...block.rows].sort((a, b) => by.sign * compareCells(a.cells[by.column] ?? "", b.cells[by.column] ?? ""));
}

/**
 * @param {Pick<Wb, "sorts">} wb
 * @param {string} head
 * @param {number} column
 * @param {number} first
 */
function nextSort(wb, head, column, first) {
  const now = wb.sorts.get(head);
  if (now?.column !== column) wb.sorts.set(head, { column, sign: first });
  else if (now.sign === first) wb.sorts.set(head, { column, sign: -first });
  else wb.sorts.delete(head);
}

/**
 * A column header. If its name opens a glossary entry, a separate arrow sorts.
 * @param {Wb} wb
 * @param {Block} block
 * @param {Column} column
 * @param {number} place
 * @param {string} head
 * @param {() => void} again
 * @returns {HTMLElement}
 */
export function drawColumn(wb, block, column, place, head, again) {
  const label = termLabel(wb, column.label);
  /**
   * @param {string | null} name
   * @param {string} text
   */
  const sorter = (name, text) =>
    h("button", {
      class: "sorter",
      type: "button",
      ariaLabel: name,
      onclick: () => {
        nextSort(wb, head, place, column.number ? -1 : 1);
        again();
      },
      data: { focus: `sort ${block.title} ${place}` },
    }, text);
  const shown = !column.label || !canSort(block)
    ? [label]
    : typeof label === "string"
    ? [sorter(null, label)]
    : [label, sorter(`Sort by ${column.label}`, "")];
  return h("th", { class: column.number ? "n" : "", scope: "col", title: column.title }, ...shown);
}

/**
 * Sets the sort arrows of the headers.
 * @param {Pick<Wb, "sorts">} wb
 * @param {Element} table
 * @param {string} head
 */
export function markSorted(wb, table, head) {
  const by = wb.sorts.get(head);
  table.querySelectorAll("thead th").forEach((th, i) => {
    const way = by?.column === i ? (by.sign > 0 ? "ascending" : "descending") : null;
    if (way) th.setAttribute("aria-sort", way);
    else th.removeAttribute("aria-sort");
  });
}
