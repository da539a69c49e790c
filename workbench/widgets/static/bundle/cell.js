// workbench/widgets/static/notebook_cell.js
var page = (
  /** @type {Record<symbol, Map<string, Promise<BoardModule>>>} */
  /** @type {unknown} */
  globalThis
);
var modules = page[Symbol.for("sharding-workbench")] ??= /* @__PURE__ */ new Map();
function importing(version, text) {
  const known = modules.get(version);
  if (known) return known;
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const imported = import(address).finally(() => URL.revokeObjectURL(address));
  modules.set(version, imported);
  return imported;
}
function withParts(model) {
  const parts = {};
  const byEvent = {};
  const isPart = (event) => PARTS.includes(event.replace("change:", ""));
  const listeners = (event) => byEvent[event] ??= /* @__PURE__ */ new Set();
  const waiting = [];
  return {
    parts,
    take(received) {
      Object.assign(parts, received);
      for (const name of Object.keys(received)) for (const listener of [...listeners(`change:${name}`)]) listener();
    },
    get: (name) => PARTS.includes(name) ? parts[name] : model.get(name),
    set: (name, value) => model.set(name, value),
    save_changes: () => model.save_changes(),
    on: (event, listener) => isPart(event) ? listeners(event).add(listener) : model.on(event, listener),
    off: (event, listener) => isPart(event) ? listeners(event).delete(listener) : model.off(event, listener),
    library: () => new Promise((done) => {
      waiting.push(done);
      model.send({ want: "library" });
    }),
    bring: (text) => waiting.splice(0).forEach((done) => done(text))
  };
}
var edits = (count) => `${count} edit${count === 1 ? "" : "s"}`;
function connectStorage(model, el, place) {
  const line = document.createElement("div");
  line.className = "wb-kept";
  line.setAttribute("role", "status");
  line.setAttribute("style", "display:flex;flex-wrap:wrap;align-items:center;gap:4px 8px;font:12px/20px system-ui,sans-serif;padding:2px");
  let replace = null;
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
      }
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
          }
        });
      }
      if (code !== void 0 && replace) {
        replace(code);
        show("Written to the cell.");
      }
      if (problem) show(problem);
    },
    /** The notebook may hold saved edits of the cell. */
    drawn() {
      tell("drawn", { offer: (record) => model.send({ want: "offer", record }) });
    },
    close() {
      model.off("comm_live_update", onKernelLost);
    }
  };
}
function render({ model, el }) {
  const place = document.createElement("div");
  place.innerHTML = String(model.get("picture"));
  el.append(place);
  const shown = withParts(model), notice = connectStorage(model, el, place);
  let closed = false, drawn = false, close = () => {
  };
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
var notebook_cell_default = { render };
export {
  notebook_cell_default as default
};
