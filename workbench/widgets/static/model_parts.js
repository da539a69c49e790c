// @ts-check
// The model with its parts as objects: served pages receive them as JSON text once, then as changes.

/** @import { AnyModel, Listener, Model } from "./types/board_context.d.ts" */

const PARTS = ["board", "table", "live", "colleagues"];

/**
 * Applies a change made by `part_changes.py`; unchanged values keep their identity.
 * @param {any} before
 * @param {any} change
 * @returns {any}
 */
export function withChange(before, change) {
  if (Array.isArray(change)) return change[0];
  const after = Array.isArray(before) ? [...before] : { ...before };
  for (const [key, part] of Object.entries(change)) after[key] = withChange(before[key], part);
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
  const byEvent = {};
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
      for (const listener of [...(byEvent[name] ?? [])]) listener();
    } else if (before.edition < of) { // a change was missed, so Python resends the whole value
      model.set("gesture", { verb: "refresh" });
      model.save_changes();
    }
  };
  model.on("change:changes", take);
  take(); // parts that arrived before the page was drawn
  /** @param {string} event */
  const listeners = (event) => (byEvent[event.replace("change:", "")] ??= new Set());
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
