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
  const heard = {};
  const own = (event) => PARTS.includes(event.replace("change:", ""));
  const listeners = (event) => heard[event] ??= /* @__PURE__ */ new Set();
  const waiting = [];
  return {
    parts,
    take(found) {
      Object.assign(parts, found);
      for (const name of Object.keys(found)) for (const listener of [...listeners(`change:${name}`)]) listener();
    },
    get: (name) => PARTS.includes(name) ? parts[name] : model.get(name),
    set: (name, value) => model.set(name, value),
    save_changes: () => model.save_changes(),
    on: (event, listener) => own(event) ? listeners(event).add(listener) : model.on(event, listener),
    off: (event, listener) => own(event) ? listeners(event).delete(listener) : model.off(event, listener),
    library: () => new Promise((done) => {
      waiting.push(done);
      model.send({ want: "library" });
    }),
    bring: (text) => waiting.splice(0).forEach((done) => done(text))
  };
}
function render({ model, el }) {
  const place = document.createElement("div");
  place.innerHTML = String(model.get("picture"));
  el.append(place);
  const shown = withParts(model);
  let closed = false, drawn = false, close = () => {
  };
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
var notebook_cell_default = { render };
export {
  notebook_cell_default as default
};
