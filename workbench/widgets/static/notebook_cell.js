// @ts-check
/// <reference path="./types/globals.d.ts" />
// What a notebook keeps of the board: a few lines and a still picture, so that its file stays small. The picture stands until a kernel
// answers; then the module comes from there, once for all boards of a page, and the board's parts with it, as messages that no notebook saves.

/** @import { CellModel, Listener, Model } from "./types/board_context.d.ts" */

/** @typedef {{ default: { render(given: { model: Model; el: HTMLElement }): () => void } }} BoardModule */
/** @typedef {Record<string, object>} Parts */
/** @typedef {{ module?: string; parts?: Parts; failure?: string; library?: string }} Answer */

const page = /** @type {Record<symbol, Map<string, Promise<BoardModule>>>} */ (/** @type {unknown} */ (globalThis));
const modules = (page[Symbol.for("sharding-workbench")] ??= new Map()); // by version

/**
 * @param {string} version
 * @param {string} text
 * @returns {Promise<BoardModule>}
 */
function importing(version, text) {
  const known = modules.get(version);
  if (known) return known;
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const imported = import(address).finally(() => URL.revokeObjectURL(address));
  modules.set(version, imported);
  return imported;
}

/**
 * The model as the board's module knows it: its parts live here, everything else in the notebook's own model.
 * @param {CellModel} model
 * @returns {Model & { parts: Parts; take(found: Parts): void; bring(text: string): void }}
 */
function withParts(model) {
  /** @type {Parts} */
  const parts = {};
  /** @type {Record<string, Set<Listener>>} */
  const heard = {};
  /** @param {string} event */
  const own = (event) => PARTS.includes(event.replace("change:", ""));
  /** @param {string} event */
  const listeners = (event) => (heard[event] ??= new Set());
  /** @type {((text: string) => void)[]} */
  const waiting = [];
  return {
    parts,
    take(found) {
      Object.assign(parts, found);
      for (const name of Object.keys(found)) for (const listener of [...listeners(`change:${name}`)]) listener();
    },
    get: (name) => (PARTS.includes(name) ? parts[name] : model.get(name)),
    set: (name, value) => model.set(name, value),
    save_changes: () => model.save_changes(),
    on: (event, listener) => (own(event) ? listeners(event).add(listener) : model.on(event, listener)),
    off: (event, listener) => (own(event) ? listeners(event).delete(listener) : model.off(event, listener)),
    library: () =>
      new Promise((done) => {
        waiting.push(done);
        model.send({ want: "library" });
      }),
    bring: (text) => waiting.splice(0).forEach((done) => done(text)),
  };
}

/**
 * @param {{ model: CellModel; el: HTMLElement }} given
 * @returns {() => void}
 */
function render({ model, el }) {
  const place = document.createElement("div");
  place.innerHTML = String(model.get("picture"));
  el.append(place);
  const shown = withParts(model);
  let closed = false, drawn = false, close = () => {};
  /** @param {Answer} answer */
  const hear = async ({ module, parts, failure, library }) => {
    if (library) return shown.bring(library);
    if (failure) return place.replaceChildren(`The board could not be drawn: ${failure}`);
    if (parts) shown.take(parts);
    if (drawn || closed || !PARTS.every((name) => shown.parts[name]) || !(module || modules.has(VERSION))) return;
    drawn = true;
    const { default: board } = await importing(VERSION, module ?? "");
    if (closed) return;
    place.replaceChildren();
    close = board.render({ model: shown, el: place });
  };
  model.on("msg:custom", hear);
  model.send({ want: modules.has(VERSION) ? "parts" : "module" });
  return () => {
    closed = true;
    model.off("msg:custom", hear);
    close();
  };
}

export default { render };
