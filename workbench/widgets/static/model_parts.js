// @ts-check
// The model with its parts as objects. A served page is told them as texts, each of which is read once, and then what changed of them.

/** @import { AnyModel, Listener, Model } from "./types/board_context.d.ts" */

const PARTS = ["board", "table", "live", "colleagues"];

/**
 * A value with a change made (`part_changes.py`); what did not change stays the same object.
 * @param {any} before
 * @param {any} change
 * @returns {any}
 */
export function withChange(before, change) {
  if (Array.isArray(change)) return change[0];
  const after = Array.isArray(before) ? [...before] : { ...before };
  for (const [key, each] of Object.entries(change)) after[key] = withChange(before[key], each);
  return after;
}

/**
 * @param {Model} model
 * @returns {AnyModel}
 */
export function withParts(model) {
  /** @type {Record<string, { text: string; state: any }>} */
  const known = {};
  /** @type {Record<string, Set<Listener>>} */
  const heard = {};
  /** @param {string} name */
  const part = (name) => {
    const text = model.get(name);
    if (typeof text !== "string") return text;
    if (known[name]?.text !== text) known[name] = { text, state: JSON.parse(text) };
    return known[name].state;
  };
  const take = () => {
    const text = model.get("changes");
    if (typeof text !== "string" || !text) return;
    const { part: name, of, by } = JSON.parse(text);
    const before = part(name);
    if (before.edition === of) {
      known[name].state = withChange(before, by);
      for (const listener of [...(heard[name] ?? [])]) listener();
    } else if (before.edition < of) { // one was missed: Python sends the whole again
      model.set("gesture", { verb: "refresh" });
      model.save_changes();
    }
  };
  model.on("change:changes", take);
  take(); // what came before the page was drawn
  /** @param {string} event */
  const listeners = (event) => (heard[event.replace("change:", "")] ??= new Set());
  return {
    get: (name) => (PARTS.includes(name) ? part(name) : model.get(name)),
    set: (name, value) => model.set(name, value),
    save_changes: () => model.save_changes(),
    on: (event, listener) => {
      model.on(event, listener);
      listeners(event).add(listener);
    },
    off: (event, listener) => {
      model.off(event, listener);
      listeners(event).delete(listener);
    },
    library: model.library,
  };
}
