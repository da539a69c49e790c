// @ts-check
// What a notebook stores of the boards in its cells: their edits in the cell's metadata, which outlive a run of the cell, and the present
// picture in the output. Saving is left to JupyterLab: an edit makes the notebook unsaved.

/** @import { Cell, NotebookPanel, Notebooks } from "../../../types/lab.d.ts" */

const KEY = "sharding-workbench";
const WIDGET = "application/vnd.jupyter.widget-view+json";

/** @typedef {{ record: object | null; picture?: string; text?: string }} Kept */
/** @typedef {{ offer(record: object): void }} Drawn */
/** @typedef {{ code(source: string, put: (source: string) => void): void }} Written */

/** @param {Notebooks} notebooks */
export function keptEdits(notebooks) {
  notebooks.forEach(attend);
  notebooks.widgetAdded.connect((_, panel) => attend(panel));
}

/** @param {NotebookPanel} panel */
function attend(panel) {
  /**
   * @param {string} name
   * @param {(cell: Cell, detail: any, place: number) => void} act
   */
  const on = (name, act) =>
    panel.node.addEventListener(`${KEY}:${name}`, (event) => {
      const target = /** @type {Node} */ (event.target);
      const cell = panel.content.widgets.find((each) => each.node.contains(target));
      if (!cell?.outputArea) return;
      const place = cell.outputArea.widgets.findIndex((each) => each.node.contains(target));
      act(cell, /** @type {CustomEvent} */ (event).detail, place);
    });
  on("kept", keep);
  on("drawn", (cell, /** @type {Drawn} */ { offer }) => {
    const record = cell.model.getMetadata(KEY);
    if (record) offer(record);
  });
  on("write", (cell, /** @type {Written} */ { code }) => {
    code(cell.model.sharedModel.getSource(), (source) => cell.model.sharedModel.setSource(source));
  });
}

/**
 * @param {Cell} cell
 * @param {Kept} kept
 * @param {number} place
 */
function keep(cell, { record, picture, text }, place) {
  if (record) cell.model.setMetadata(KEY, record);
  else cell.model.deleteMetadata(KEY);
  const outputs = cell.outputArea.model, output = outputs.get(place)?.toJSON();
  if (!picture || !output?.data?.[WIDGET]) return;
  outputs.set(place, { ...output, data: { ...output.data, "text/html": picture, "text/plain": text ?? output.data["text/plain"] } });
}
