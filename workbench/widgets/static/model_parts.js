// @ts-check
// The model with its parts as objects. A served page is told them as texts, each of which is read once.

/** @import { AnyModel, Model } from "./types/board_context.d.ts" */

/**
 * @param {Model} model
 * @returns {AnyModel}
 */
export function withParts(model) {
  /** @type {Record<string, { text: string; state: any }>} */
  const known = {};
  /** @param {string} name */
  const part = (name) => {
    const text = model.get(name);
    if (typeof text !== "string") return text;
    if (known[name]?.text !== text) known[name] = { text, state: JSON.parse(text) };
    return known[name].state;
  };
  return {
    get: (name) => (["board", "table", "live"].includes(name) ? part(name) : model.get(name)),
    set: (name, value) => model.set(name, value),
    save_changes: () => model.save_changes(),
    on: (event, listener) => model.on(event, listener),
    off: (event, listener) => model.off(event, listener),
    library: model.library,
  };
}
