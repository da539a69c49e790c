// @ts-check
/// <reference path="./types/globals.d.ts" />
// A board without Python: looks up the states recorded by `recorded/record_board.py`; other gestures link to a live board.

/** @import { Gesture, Listener, Model, Sent } from "./types/board_context.d.ts" */
/** @import { Section, Tab } from "./types/states.d.ts" */

/** @typedef {Record<string, number>} Kept the entries of a part, by their numbers in the pool */
/** @typedef {{ to: number; shown: Kept; refusal?: undefined } | { refusal: number }} Move where it leads, and what is shown there after it */
/** @typedef {{ board: Kept; live: Kept; moves: Record<string, Move>; verdict: number; tables: Record<string, Kept>; recipes?: number;
 *   whys: Record<string, number> }} State */
/** @typedef {{ states: State[]; pool: unknown[]; fields: Record<string, string[]> }} Recording `fields`: what a move is known by */
/** @typedef {{ state: number; shown: Kept | null; tab: string; why: string; selected: string; recipes: boolean; checked: boolean;
 *   refusal: object | null }} Sight */

const OUTSIDE = "This recording does not include that action.";

/**
 * @param {string[]} fields
 * @param {Gesture} gesture
 * @returns {string}
 */
const moveKey = (fields, gesture) =>
  [gesture.verb, ...fields.map((name) => String(gesture[name] ?? "")), ...(gesture.add ? ["add"] : [])].join("|");

/**
 * The tabs of a board, with the open one marked.
 * @param {{ views: Tab[]; tabs: Section[] }} shown
 * @param {string} open
 */
function openTabs(shown, open) {
  const tabs = shown.tabs.map((tab) => ({ ...tab, open: tab.key === open }));
  const view = tabs.find((tab) => tab.open)?.view;
  return { tabs, views: shown.views.map((item) => ({ ...item, open: item.key === view, opens: item.key === view ? open : item.opens })) };
}

/**
 * @param {Recording} recording
 * @returns {(number: number) => any}
 */
function poolReader({ pool }) {
  /** @type {Map<number, unknown>} */
  const known = new Map();
  /** @param {any} value */
  const resolve = (value) => (value && typeof value === "object" && "$" in value ? read(value.$) : value);
  /** @param {number} number */
  const read = (number) => {
    if (!known.has(number)) {
      const kept = /** @type {any} */ (pool[number]);
      const built = Array.isArray(kept)
        ? kept.map(resolve)
        : kept && typeof kept === "object"
        ? Object.fromEntries(Object.entries(kept).map(([key, part]) => [key, resolve(part)]))
        : kept;
      known.set(number, built);
    }
    return known.get(number);
  };
  return read;
}

/**
 * A model that answers gestures from a recording.
 * @param {Recording} recording
 * @param {{ ways?: string[]; theme?: () => string }} [options]
 * @returns {Model & { dress(): void }}
 */
export function recordedModel(recording, { ways = [], theme = () => "auto" } = {}) {
  const read = poolReader(recording);
  /** @param {Kept} part */
  const assembled = (part) => Object.fromEntries(Object.entries(part).map(([key, number]) => [key, read(number)]));
  /** @type {Record<string, Set<Listener>>} */
  const byEvent = {};
  /** @type {Sight} */
  let now = {
    state: 0,
    shown: null,
    tab: Object.keys(recording.states[0].tables)[0],
    why: "",
    selected: "",
    recipes: false,
    checked: false,
    refusal: null,
  };
  const before = /** @type {Sight[]} */ ([]), undone = /** @type {Sight[]} */ ([]);
  let answer = { view: "", seq: 0 };
  /** @type {Gesture | null} */
  let pending = null;

  /** @param {Sight} next */
  const go = (next) => {
    before.push(now);
    undone.length = 0;
    now = next;
  };
  /** @param {Gesture} gesture */
  const move = (gesture) => {
    const move = recording.states[now.state].moves[moveKey(recording.fields[gesture.verb], gesture)];
    if (move === undefined) return refuse(gesture);
    if (move.refusal !== undefined) now.refusal = read(move.refusal);
    else go({ ...now, state: move.to, shown: move.shown, why: "", checked: false });
  };
  /** @param {Gesture} gesture */
  const refuse = (gesture) => {
    now.refusal = { zone: gesture.target ?? gesture.zone ?? gesture.axis ?? "tools", message: OUTSIDE, ways_out: ways };
  };
  /** @type {Record<string, (gesture: Gesture) => void>} */
  const answers = {
    ...Object.fromEntries(Object.keys(recording.fields).map((verb) => [verb, move])),
    undo: () => {
      const last = before.pop();
      if (last) undone.push(now);
      now = { ...(last ?? now), refusal: null };
    },
    redo: () => {
      const next = undone.pop();
      if (next) before.push(now);
      now = next ?? now;
    },
    open: (gesture) => {
      if (String(gesture.tab) in recording.states[now.state].tables) now.tab = String(gesture.tab);
      else refuse(gesture);
    },
    why: (gesture) => {
      const of = String(gesture.of ?? "");
      if (!of || of in recording.states[now.state].whys) now.why = of;
      else refuse(gesture);
    },
    select: (gesture) => {
      now.selected = now.selected === gesture.path ? "" : String(gesture.path);
    },
    answer_question: (gesture) => {
      now.checked = read(recording.states[now.state].verdict) !== null;
      if (!now.checked) refuse(gesture);
    },
    start_question: () => go({ ...now, state: 0, shown: null, why: "", checked: false }),
    recipes: (gesture) => {
      if (recording.states[now.state].recipes === undefined) refuse(gesture);
      else now.recipes = gesture.open !== false;
    },
    ...Object.fromEntries(["refresh", "dismiss", "take", "try_boundary"].map((verb) => [verb, () => {}])),
  };
  const parts = {
    board() {
      const { board, verdict } = recording.states[now.state];
      const { deltas, ...after } = assembled(now.shown ?? {});
      const shown = { ...assembled(board), ...after };
      const edit = before.length ? String(shown.said || "the drop") : null;
      return {
        ...shown,
        figures: deltas
          ? shown.figures.map((/** @type {object} */ figure, /** @type {number} */ place) => ({ ...figure, ...deltas[place] }))
          : shown.figures,
        undo: edit && `Undo ${edit}`,
        redo: undone.length ? "Redo" : null,
        refusal: now.refusal,
        said: now.refusal ? OUTSIDE : shown.said,
        selected: now.selected,
        taken: null,
        ...openTabs(/** @type {any} */ (shown), now.tab),
        exercise: shown.exercise && { ...shown.exercise, verdict: now.checked ? read(verdict) : null },
        answer,
        told: 0,
        follows: false,
      };
    },
    table() {
      const { tables, whys, recipes } = recording.states[now.state];
      return {
        ...assembled(tables[now.tab]),
        why: now.why ? read(whys[now.why]) : null,
        recipes: now.recipes && recipes !== undefined ? read(recipes) : null,
        seq: answer.seq,
        told: 0,
      };
    },
    live: () => ({ ...assembled(recording.states[now.state].live), can_run: false, told: 0 }),
  };
  /** @param {string} name */
  const notify = (name) => {
    for (const listener of [...(byEvent[`change:${name}`] ?? [])]) listener();
  };
  /** @param {Sent} gesture */
  const hear = (gesture) => {
    if (gesture.ahead || gesture.again) return;
    now = { ...now, refusal: null };
    (answers[gesture.verb] ?? refuse)(gesture);
    answer = { view: gesture.view, seq: gesture.seq };
    for (const name of Object.keys(parts)) notify(name);
  };
  return {
    get: (name) => (name in parts ? parts[/** @type {keyof typeof parts} */ (name)]() : name === "theme" ? theme() : undefined),
    set: (name, value) => {
      if (name === "gesture") pending = /** @type {Gesture} */ (value);
    },
    save_changes: () => {
      const gesture = pending;
      pending = null;
      if (gesture) setTimeout(() => hear(/** @type {Sent} */ (gesture)), 0); // asynchronously, as from a kernel
    },
    on: (event, listener) => void (byEvent[event] ??= new Set()).add(listener),
    off: (event, listener) => void byEvent[event]?.delete(listener),
    dress: () => notify("theme"),
  };
}

/**
 * Unpacks the recording, gzipped JSON in base64.
 * @param {string} packed
 * @returns {Promise<Recording>}
 */
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/**
 * Shows the recording in an element's script; `data-ways` has the links to a live board.
 * @param {HTMLElement} element
 */
async function show(element) {
  const packed = element.querySelector("script")?.textContent ?? "";
  const theme = () => document.documentElement.dataset.theme ?? "auto"; // follows the page's theme switch
  const model = recordedModel(await unpack(packed), { ways: element.dataset.ways?.split("|").filter(Boolean) ?? [], theme });
  const place = document.createElement("div");
  const inside = element.attachShadow({ mode: "open" }); // isolates the board from the page's styles
  inside.append(place);
  BOARD.render({ model, el: place });
  new MutationObserver(() => model.dress()).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
}

const page = /** @type {Document | undefined} */ (globalThis.document);
for (const element of page?.querySelectorAll?.(".recorded-board") ?? []) show(/** @type {HTMLElement} */ (element));
