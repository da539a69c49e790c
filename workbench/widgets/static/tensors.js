// @ts-check
// The tables of tensors and values: dimensions as chips that can be dropped on a mesh axis, folded layers, and the row of targets above.
// Such a chip is `lazy`: where it may go and what its menu offers is asked of Python when it is taken (`chip_menu.js`).

import { around, h, targetOf } from "./dom.js";
import { makeDraggable } from "./chip_input.js";
import { askMenu } from "./chip_menu.js";
/** @import { ChipsCell, Column, Dimension, Fold, Mark, Row, Tag } from "./types/table_cells.d.ts" */
/** @import { LazyChip, Wb } from "./types/board_context.d.ts" */

/** @type {Record<string, [label: string, placeholder: string]>} */
export const SEARCHES = {
  tensors: ["Search tensors", "Search tensors: path, dimension, axis, role"],
  values: ["Search intermediate values", "Search values: scope, operation, dimension, line"],
};

const NAMELESS = ["", "_"];

/**
 * What a table's chip is to the hand. `source` is the axis that was gripped, or `*` for the dimension with all its axes.
 * @param {ChipsCell} cell
 * @param {Dimension} dim
 * @param {string} [source]
 * @returns {LazyChip}
 */
function lazyChip(cell, dim, source = "*") {
  const { of, path } = cell;
  return {
    lazy: true,
    key: `${of} ${path} ${dim.place} ${source}`,
    of,
    path,
    rank: cell.chips.length,
    place: dim.place,
    source,
    dim: dim.label,
    rule: dim.dim,
    nameless: NAMELESS.includes(dim.dim),
    illegal: { rule: {}, only: {} },
  };
}

/**
 * @param {Wb} wb
 * @param {ChipsCell} cell
 * @returns {HTMLElement}
 */
export function drawChips(wb, cell) {
  return h(
    "span",
    { class: "dims" },
    ...cell.chips.map((dim) => drawDim(wb, cell, dim)),
    cell.own ? drawOwn(wb, cell) : null,
    ...(cell.tags ?? []).map((tag) => drawTag(wb, tag)),
  );
}

/**
 * @param {Wb} wb
 * @param {ChipsCell} cell
 * @param {Dimension} dim
 * @returns {HTMLElement}
 */
function drawDim(wb, cell, dim) {
  const chip = lazyChip(cell, dim);
  const axes = dim.axes.map((axis, i) =>
    h("span", {
      class: "on",
      title: `Why on ${axis.name}?`,
      data: {
        c: axis.colour,
        source: axis.name,
        asks: `axis ${cell.of} ${dim.place} ${axis.name} ${cell.path}`,
        c0: axis.colour === null ? "" : null,
      },
    }, dim.axes.length > 1 ? `${i + 1} ${axis.name}` : axis.name)
  );
  const grip = h(
    "button",
    {
      class: "grip",
      type: "button",
      tabIndex: -1,
      ariaPressed: "false",
      ariaLabel: `${dim.title}. Of ${cell.path}`,
      title: dim.title,
      ariaHasPopup: "menu",
      "aria-roledescription": "draggable dimension",
      data: { focus: chip.key, dim: dim.dim, place: dim.place },
    },
    h("b", {}, dim.label),
    ...axes,
    ...drawMarks(dim.marks),
  );
  const element = h("span", { class: "dim", data: { chip: chip.key, c: dim.axes[0]?.colour ?? null } }, grip);
  element.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    askMenu(wb, chip, grip);
  });
  makeDraggable(wb, element, grip, grip, (event) => {
    const axis = dim.axes.length > 1 && event && around(targetOf(event), ".on")?.dataset.source;
    return axis ? lazyChip(cell, dim, axis) : chip;
  });
  return element;
}

/**
 * It lies in its own way: said by which override or constraint, and taken back with a click.
 * @param {Wb} wb
 * @param {ChipsCell} cell
 * @returns {HTMLElement}
 */
function drawOwn(wb, cell) {
  const [what, pattern] = [cell.own.split(" ")[0], cell.own.slice(cell.own.indexOf(" ") + 1)];
  const back = cell.of === "value" ? "Free it again" : "By the rules again";
  return h(
    "button",
    {
      class: "own",
      type: "button",
      tabIndex: -1,
      title: `${what} ${pattern}. ${back}`,
      ariaLabel: `${what} ${pattern}. ${back}`,
      data: { focus: `own ${cell.path}` },
      onclick: () => wb.send({ verb: "by_rules", of: cell.of, path: cell.path, rank: cell.chips.length, zone: "tables" }),
    },
    cell.of === "value" ? `constrained ${cell.given}` : `own way ${cell.given}`.trim(),
    h("span", { ariaHidden: "true" }, " ×"),
  );
}

/**
 * What is set by hand besides: open, late, tied, barred.
 * @param {Mark[] | undefined} marks
 * @returns {HTMLElement[]}
 */
export const drawMarks = (marks) => (marks ?? []).map((mark) => h("i", { class: "set", title: mark.title }, mark.text));

/**
 * @param {Wb} wb
 * @param {Tag} tag
 * @returns {HTMLElement}
 */
function drawTag(wb, tag) {
  return h(
    "button",
    {
      class: "own",
      type: "button",
      tabIndex: -1,
      title: tag.title,
      ariaLabel: tag.title,
      data: { focus: `tag ${tag.title}` },
      onclick: () => wb.send(tag.gesture),
    },
    tag.label,
    h("span", { ariaHidden: "true" }, " ×"),
  );
}

/**
 * @param {Wb} wb
 * @param {Fold} fold
 * @param {string} what
 * @returns {HTMLElement}
 */
export function drawFold(wb, fold, what) {
  return h("button", {
    class: "fold",
    type: "button",
    ariaExpanded: String(fold.open),
    ariaLabel: `${fold.open ? "Fold" : "Unfold"} ${what}`,
    tabIndex: -1,
    data: { focus: `fold ${fold.key}` },
    onclick: () => wb.send({ verb: "fold", key: fold.key }),
  }, fold.open ? "▾" : "▸");
}

/**
 * @param {Wb} wb
 * @param {Column[]} columns
 * @param {Row} row
 * @param {{ title: string; note: string }} given
 * @returns {HTMLElement}
 */
export function drawSection(wb, columns, row, { title, note }) {
  const fold = drawFold(wb, row.fold ?? { key: row.key, open: true }, title);
  fold.tabIndex = 0;
  return h(
    "tr",
    { class: "section" },
    h("th", { colSpan: columns.length, scope: "rowgroup" }, fold, h("span", {}, title), h("span", { class: "muted" }, note)),
  );
}
