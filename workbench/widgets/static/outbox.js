// @ts-check
// The queue of gestures to Python, kept across a lost connection.

import { keepThroughCut, keptThroughCut } from "./browser_storage.js";
/** @import { AnyModel, Gesture, Outbox, Sent } from "./types/board_context.d.ts" */

/**
 * Sends one gesture at a time, after the answer to the previous one, because a host may merge writes of one trait. After a reconnect
 * `begin` resends pending gestures; the first may have arrived, so it is queried first.
 * @param {AnyModel} model
 * @param {HTMLElement} root
 * @returns {Outbox}
 */
export function outbox(model, root) {
  const kept = keptThroughCut();
  const view = kept?.view ?? Math.random().toString(36).slice(2);
  const queue = kept?.gestures ?? [];
  let seq = kept?.seq ?? 0, timer = 0, asking = 0;
  let opened = { tab: kept?.tab, seq: 0 };
  /** @type {Sent | null} */
  let waiting = null;
  /** @type {Gesture | null} */
  let expected = null;
  const next = () => {
    root.dataset.busy = String(Boolean(waiting || queue.length));
    if (waiting) return;
    if (!queue.length) {
      if (expected) tell(expected);
      expected = null;
      return;
    }
    waiting = queue.shift() ?? null;
    if (!waiting) return;
    const sent = waiting;
    timer = setTimeout(() => {
      root.dataset.silent = "true";
    }, 10000);
    tell(sent);
    asking = setInterval(() => tell({ ...sent, again: true }), 5000); // a host may lose a message; Python ignores duplicates
  };
  /** @param {Gesture} gesture */
  const tell = (gesture) => {
    model.set("gesture", gesture);
    model.save_changes();
  };
  const onCut = () => {
    clearTimeout(timer);
    clearInterval(asking);
    const gestures = [...(waiting ? [{ ...waiting, again: true }] : []), ...queue];
    const { seq: shown, tab } = model.get("table");
    keepThroughCut({ view, seq, tab: shown < opened.seq ? opened.tab : tab, gestures }); // the tab may be requested but not shown yet
  };
  window.addEventListener("workbench:cut", onCut);
  return {
    view,
    begin() {
      next();
      if (kept?.tab && kept.tab !== model.get("table").tab) this.send({ verb: "open", tab: kept.tab });
    },
    send(gesture) {
      expected = null;
      const saw = model.get("board")?.revision; // colleagues may edit the plan too
      queue.push({ ...gesture, view, seq: ++seq, ...(saw === undefined ? {} : { saw }) });
      if (gesture.verb === "open") opened = { tab: String(gesture.tab), seq };
      next();
    },
    expect(gesture) {
      expected = { ...gesture, ahead: true };
      next();
    }, // announces a likely gesture; there is no answer
    answered(answer) {
      if (!waiting || answer?.view !== view || answer.seq < waiting.seq) return;
      waiting = null;
      clearTimeout(timer);
      clearInterval(asking);
      delete root.dataset.silent;
      next();
    },
    refresh() {
      if (!waiting && !queue.length) this.send({ verb: "refresh" });
    },
    close() {
      clearTimeout(timer);
      clearInterval(asking);
      window.removeEventListener("workbench:cut", onCut);
    },
  };
}
