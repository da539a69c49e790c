// @ts-check
// The gestures on their way to Python, and what becomes of them when the connection is cut.

import { keepThroughCut, keptThroughCut } from "./browser_storage.js";
/** @import { AnyModel, Gesture, Outbox, Sent } from "./types/board_context.d.ts" */

/**
 * Gestures leave one at a time, each after the one before is answered: a host may merge writes of one trait. Those that were on their way when
 * a page's connection was cut leave again once it is loaded anew and `begin`s; the first may have arrived, so it is asked about.
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
    asking = setInterval(() => tell({ ...sent, again: true }), 5000); // a host may lose a message; Python does nothing twice
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
    keepThroughCut({ view, seq, tab: shown < opened.seq ? opened.tab : tab, gestures }); // a tab may be asked for and not shown yet
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
      const saw = model.get("board")?.revision; // others may edit the plan too
      queue.push({ ...gesture, view, seq: ++seq, ...(saw === undefined ? {} : { saw }) });
      if (gesture.verb === "open") opened = { tab: String(gesture.tab), seq };
      next();
    },
    expect(gesture) {
      expected = { ...gesture, ahead: true };
      next();
    }, // it may be sent next; nothing answers this
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
