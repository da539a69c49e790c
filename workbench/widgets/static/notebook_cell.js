// @ts-check
/// <reference path="./types/globals.d.ts" />
// The module saved in a notebook: a still picture, replaced by the board when a kernel answers with the module and its state; neither is
// saved, to keep the file small.

/** @import { CellModel, Listener, Model } from "./types/board_context.d.ts" */

/** @typedef {{ default: { render(context: { model: Model; el: HTMLElement }): () => void } }} BoardModule */
/** @typedef {Record<string, object>} Parts */
/** @typedef {{ edits: object[]; to: string }} Kept */
/** @typedef {{ module?: string; parts?: Parts; failure?: string; library?: string }} Drawing */
/** @typedef {{ kept?: { record: Kept | null; picture?: string }; offer?: Kept; code?: string; problem?: string }} Keeping */
/** @typedef {Drawing & Keeping} Answer */

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
 * The model given to the board's module: board parts are kept in this object, all other traits in the notebook's model.
 * @param {CellModel} model
 * @returns {Model & { parts: Parts; take(found: Parts): void; bring(text: string): void }}
 */
function withParts(model) {
  /** @type {Parts} */
  const parts = {};
  /** @type {Record<string, Set<Listener>>} */
  const byEvent = {};
  /** @param {string} event */
  const isPart = (event) => PARTS.includes(event.replace("change:", ""));
  /** @param {string} event */
  const listeners = (event) => (byEvent[event] ??= new Set());
  /** @type {((text: string) => void)[]} */
  const waiting = [];
  return {
    parts,
    take(received) {
      Object.assign(parts, received);
      for (const name of Object.keys(received)) for (const listener of [...listeners(`change:${name}`)]) listener();
    },
    get: (name) => (PARTS.includes(name) ? parts[name] : model.get(name)),
    set: (name, value) => model.set(name, value),
    save_changes: () => model.save_changes(),
    on: (event, listener) => (isPart(event) ? listeners(event).add(listener) : model.on(event, listener)),
    off: (event, listener) => (isPart(event) ? listeners(event).delete(listener) : model.off(event, listener)),
    library: () =>
      new Promise((done) => {
        waiting.push(done);
        model.send({ want: "library" });
      }),
    bring: (text) => waiting.splice(0).forEach((done) => done(text)),
  };
}

/** @param {number} count */
const edits = (count) => `${count} edit${count === 1 ? "" : "s"}`;

/**
 * Connects the saved state and the status line to the notebook. The JupyterLab extension handles events prefixed with `sharding-workbench:`;
 * without it, only the picture of the first run is saved.
 * @param {CellModel} model
 * @param {HTMLElement} el
 * @param {HTMLElement} place
 */
function connectStorage(model, el, place) {
  const line = document.createElement("div");
  line.className = "wb-kept";
  line.setAttribute("role", "status");
  line.setAttribute("style", "display:flex;flex-wrap:wrap;align-items:center;gap:4px 8px;font:12px/20px system-ui,sans-serif;padding:2px");
  /** @type {((source: string) => void) | null} */
  let replace = null;
  /**
   * @param {string} words
   * @param {Record<string, () => void>} [buttons]
   */
  const show = (words, buttons = {}) => {
    const elements = Object.entries(buttons).map(([label, act]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.setAttribute("style", "font:inherit;cursor:pointer");
      button.addEventListener("click", act);
      return button;
    });
    el.prepend(line);
    line.replaceChildren(words, ...elements);
  };
  /**
   * @param {string} name
   * @param {object} detail
   */
  const tell = (name, detail) => el.dispatchEvent(new CustomEvent(`sharding-workbench:${name}`, { detail, bubbles: true, composed: true }));
  const write = () => {
    tell("write", {
      /**
       * @param {string} source
       * @param {(source: string) => void} put
       */
      code: (source, put) => {
        replace = put;
        model.send({ want: "code", source });
      },
    });
    if (!replace) show("Only JupyterLab with the workbench's extension can write to the cell: bench.plan has the edits.");
  };
  const onKernelLost = () => {
    place.inert = true;
    place.setAttribute("style", "opacity:.45;filter:grayscale(1)");
    line.setAttribute("role", "alert");
    show("The kernel of this board is gone. Run the cell again: its edits are kept in the notebook.");
  };
  model.on("comm_live_update", onKernelLost);
  return {
    /** @param {Keeping} said */
    hear({ kept, offer, code, problem }) {
      if (kept) {
        tell("kept", kept);
        const count = kept.record?.edits.length ?? 0;
        if (!kept.picture) show(count ? `${edits(count)} not in the code of this cell` : "", count ? { "Write to cell": write } : {});
      }
      if (offer) {
        show(`This cell stored ${edits(offer.edits.length)}: ${offer.to}`, {
          Continue: () => model.send({ want: "continue", record: offer }),
          Discard: () => {
            tell("kept", { record: null });
            show("");
          },
        });
      }
      if (code !== undefined && replace) {
        replace(code);
        show("Written to the cell.");
      }
      if (problem) show(problem);
    },
    /** The notebook may hold saved edits of the cell. */
    drawn() {
      tell("drawn", { offer: (/** @type {object} */ record) => model.send({ want: "offer", record }) });
    },
    close() {
      model.off("comm_live_update", onKernelLost);
    },
  };
}

/**
 * @param {{ model: CellModel; el: HTMLElement }} context
 * @returns {() => void}
 */
function render({ model, el }) {
  const place = document.createElement("div");
  place.innerHTML = String(model.get("picture"));
  el.append(place);
  const shown = withParts(model), notice = connectStorage(model, el, place);
  let closed = false, drawn = false, close = () => {};
  /** @param {Answer} answer */
  const hear = async ({ module, parts, failure, library, ...kept }) => {
    notice.hear(kept);
    if (library) return shown.bring(library);
    if (failure) return place.replaceChildren(`The board could not be drawn: ${failure}`);
    if (parts) shown.take(parts);
    if (drawn || closed || !PARTS.every((name) => shown.parts[name]) || !(module || modules.has(VERSION))) return;
    drawn = true;
    const { default: board } = await importing(VERSION, module ?? "");
    if (closed) return;
    place.replaceChildren();
    close = board.render({ model: shown, el: place });
    notice.drawn();
  };
  model.on("msg:custom", hear);
  model.send({ want: modules.has(VERSION) ? "parts" : "module" });
  return () => {
    closed = true;
    notice.close();
    model.off("msg:custom", hear);
    close();
  };
}

export default { render };
