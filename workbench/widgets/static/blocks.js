// @ts-check
// Draws blocks (a title, a table, a picture and controls) without knowing the sections of the board, which supply `wb.drawers`.

import { all, h, patch, the } from "./dom.js";
import { canSort, drawColumn, markSorted, sortedRows } from "./sort.js";
import { drawRow } from "./table_cells.js";
import { termLabel } from "./terms.js";
/** @import { Block } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** The blocks drawn in each element, with a key of their headers. @type {WeakMap<Element, { blocks: Block[]; heads: string[] }>} */
const blocksIn = new WeakMap();

/**
 * The block's content outside its table.
 * @param {Wb} wb
 * @param {Block} block
 */
const partsOf = (wb, block) => (wb.drawers?.parts ?? []).filter((part) => block[part.field]);

/**
 * A key of everything but the rows: blocks with equal keys only need new rows.
 * @param {Wb} wb
 * @param {Block} block
 * @returns {string}
 */
const headOf = (wb, block) => JSON.stringify([block.title, block.columns, partsOf(wb, block).map((part) => part.field), canSort(block)]);

/**
 * Picture elements by name, reused so that a chart keeps its zoom when its block is redrawn.
 * @param {Element} parent
 * @returns {Map<string, HTMLElement>}
 */
const picturesIn = (parent) => new Map(all(parent, ".picture").map((place) => [place.dataset.picture ?? "", place]));

/**
 * Draws `blocks`, and reuses unchanged rows of tables with the same title and columns.
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {Block[]} blocks
 */
export function patchBlocks(wb, parent, blocks) {
  const heads = blocks.map((block) => headOf(wb, block));
  const before = blocksIn.get(parent);
  blocksIn.set(parent, { blocks, heads });
  if (JSON.stringify(before?.heads) !== JSON.stringify(heads)) {
    const kept = picturesIn(parent);
    const again = () => patchBlocks(wb, parent, blocksIn.get(parent)?.blocks ?? []);
    parent.replaceChildren(...blocks.map((block, i) => drawBlock(wb, block, heads[i], kept, again)));
    for (const place of kept.values()) wb.drawers?.removePicture(place);
  }
  blocks.forEach((block, i) => paintBlock(wb, parent.children[i], block, heads[i]));
}

/**
 * @param {Wb} wb
 * @param {Block} block
 * @param {string} head
 * @param {Map<string, HTMLElement>} kept - pictures of the previous blocks; those reused are removed
 * @param {() => void} again - called after the user sorts the table
 * @returns {HTMLElement}
 */
function drawBlock(wb, block, head, kept, again) {
  return h(
    "div",
    { class: "block" },
    block.title && h("h3", {}, termLabel(wb, block.title)),
    ...partsOf(wb, block).map((part) =>
      (block.picture && part.field === "picture" && takePicture(kept, block.picture.name)) ||
      h("div", { class: part.place })
    ),
    block.columns.length ? drawTable(wb, block, head, again) : null,
    h("div", { class: "note" }),
  );
}

/**
 * @param {Map<string, HTMLElement>} kept
 * @param {string} name
 * @returns {HTMLElement | undefined}
 */
function takePicture(kept, name) {
  const place = kept.get(name);
  kept.delete(name);
  return place;
}

/**
 * @param {Wb} wb
 * @param {Block} block
 * @param {string} head
 * @param {() => void} again
 * @returns {HTMLElement}
 */
function drawTable(wb, block, head, again) {
  const columns = block.columns.map((column, i) => drawColumn(wb, block, column, i, head, again));
  return h("table", {}, h("thead", {}, h("tr", {}, ...columns)), h("tbody"));
}

/**
 * @param {Wb} wb
 * @param {Element} place
 * @param {Block} block
 * @param {string} head
 */
function paintBlock(wb, place, block, head) {
  const body = place.querySelector("tbody");
  if (body) {
    patch(body, sortedRows(wb, block, head), (row) => drawRow(wb, block.columns, row));
    markSorted(wb, place, head);
  }
  for (const part of partsOf(wb, block)) part.paint(wb, the(place, `.${part.place}`), block);
  const note = the(place, ".note");
  note.replaceChildren(block.note, ...(block.controls ?? []).flatMap((control) => drawControl(wb, control)));
  note.hidden = !block.note;
}

/**
 * A button that clicks a control of the board or focuses a field; nothing if the board has no such control.
 * @param {Wb} wb
 * @param {{ label: string; name: string }} control
 * @returns {(HTMLElement | string)[]}
 */
function drawControl(wb, { label, name }) {
  const find = () => /** @type {HTMLElement | null} */ (wb.root.querySelector(`[data-focus="${name}"]:not([hidden])`));
  if (!find()) return [];
  const act = () => {
    const control = find();
    control?.scrollIntoView({ block: "nearest" });
    control?.focus();
    if (control?.matches("button")) control.click();
  };
  return [" ", h("button", { class: "btn small", type: "button", onclick: act }, label)];
}
