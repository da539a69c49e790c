// @ts-check
// Tables sorted by a column.

import { made, seen } from "./page.js";
import { deepEqual, equal } from "./assert.js";
import { canSort, drawColumn, markSorted, sortedRows } from "../../workbench/widgets/static/sort.js";
/** @import { Block, Cell, Row } from "../../workbench/widgets/static/types/table_cells.d.ts" */
/** @import { Sorting, Wb } from "../../workbench/widgets/static/types/board_context.d.ts" */

/**
 * @param {Cell} cell
 * @param {number} i
 * @returns {Row}
 */
const row = (cell, i) => ({ key: `${i}`, cells: [cell], subject: "", tone: "" });

/**
 * @param {Cell[]} cells
 * @returns {Block}
 */
const block = (cells) => ({
  title: "t",
  columns: [{ label: "size", number: true, title: "" }],
  rows: cells.map(row),
  note: "",
  picture: null,
});

/** @returns {Wb & { sorts: Map<string, Sorting> }} */
const board = () => /** @type {Wb} */ (/** @type {unknown} */ ({ sorts: new Map() }));

/**
 * The cells of a table in the order of its first column.
 * @param {Cell[]} cells
 * @param {number} sign
 */
function sorted(cells, sign) {
  const wb = board();
  wb.sorts.set("h", { column: 0, sign });
  return sortedRows(wb, block(cells), "h").map((each) => each.cells[0]);
}

Deno.test("sizes are sorted by their bytes, whatever their unit", () => {
  deepEqual(sorted(["2.00 GiB", "1,536 MiB", "900 B", "3.0 KiB"], 1), ["900 B", "3.0 KiB", "1,536 MiB", "2.00 GiB"]);
});

Deno.test("times are sorted by their seconds", () => {
  deepEqual(sorted(["1.20 s", "3.4 ms", "900 µs", "–"], -1), ["1.20 s", "3.4 ms", "900 µs", "–"]);
});

Deno.test("operations, rates, shares and negative numbers are numbers", () => {
  deepEqual(sorted(["8.59 GFLOP", "1.2 TFLOP", "900 MFLOP"], -1), ["1.2 TFLOP", "8.59 GFLOP", "900 MFLOP"]);
  deepEqual(sorted(["45 GiB/s", "0.9 TiB/s"], -1), ["0.9 TiB/s", "45 GiB/s"]);
  deepEqual(sorted(["9%", "38%", "100%"], -1), ["100%", "38%", "9%"]);
  deepEqual(sorted(["3", "−20", "1e-3"], 1), ["−20", "1e-3", "3"]);
});

Deno.test("words are sorted as one reads them, numbers within them by their value", () => {
  deepEqual(sorted(["layers/10", "layers/9", "embed"], 1), ["embed", "layers/9", "layers/10"]);
});

Deno.test("a cell is sorted by what stands in it: its text, path, axes, dimensions, share, or the top of its stack", () => {
  const path = { path: "b" }, axes = { axes: [{ name: "a", colour: 0 }] }, dims = { dims: [{ name: "c", title: "", colours: [] }] };
  deepEqual(sorted([dims, path, axes, { text: "0x" }], 1)[0], { text: "0x" });
  deepEqual(sorted([dims, path, axes], 1), [axes, path, dims]);
  const [low, high] = [{ share: 0.1, shade: 0, text: "9 MiB" }, { share: 0.5, shade: 0, text: "1 MiB" }];
  deepEqual(sorted([high, low], 1), [low, high]);
  deepEqual(sorted([{ stack: ["2 GiB", "x"] }, { stack: ["3 MiB"] }], 1), [{ stack: ["3 MiB"] }, { stack: ["2 GiB", "x"] }]);
});

Deno.test("tables of one row, of sections or of folded rows keep Python's order", () => {
  const rows = block(["1", "2"]).rows;
  equal(canSort(block(["1", "2"])), true);
  equal(canSort(block(["1"])), false);
  equal(canSort({ ...block([]), rows: [rows[0], { ...rows[1], section: { title: "", note: "" } }] }), false);
  const folded = { ...block([]), rows: [rows[0], { ...rows[1], fold: null }] };
  equal(canSort(folded), false);
  const wb = board();
  wb.sorts.set("h", { column: 0, sign: -1 });
  equal(sortedRows(wb, folded, "h"), folded.rows);
});

Deno.test("a column is clicked to its largest first, then its smallest, then Python's order again", () => {
  const wb = board(), table = block(["1", "3", "2"]), orders = [];
  let drawn = 0;
  const head = drawColumn(wb, table, table.columns[0], 0, "h", () => drawn++);
  const place = made("table", "", {}, made("thead", "", {}, head));
  for (let click = 0; click < 3; click++) {
    seen(head).querySelectorAll("button")[0].listeners.click[0]({});
    markSorted(wb, place, "h");
    orders.push([seen(head).attributes["aria-sort"] ?? "", sortedRows(wb, table, "h").map((each) => each.cells[0])]);
  }
  deepEqual(orders, [["descending", ["3", "2", "1"]], ["ascending", ["1", "2", "3"]], ["", ["1", "3", "2"]]]);
  equal(drawn, 3);
});
