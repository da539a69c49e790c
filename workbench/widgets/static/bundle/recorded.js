// workbench/widgets/static/recorded.js
var OUTSIDE = "This recording does not include that action.";
var moveKey = (fields, gesture) => [gesture.verb, ...fields.map((name) => String(gesture[name] ?? "")), ...gesture.add ? ["add"] : []].join("|");
function openTabs(shown, open) {
  const tabs = shown.tabs.map((tab) => ({ ...tab, open: tab.key === open }));
  const view = tabs.find((tab) => tab.open)?.view;
  return { tabs, views: shown.views.map((item) => ({ ...item, open: item.key === view, opens: item.key === view ? open : item.opens })) };
}
function poolReader({ pool }) {
  const known = /* @__PURE__ */ new Map();
  const resolve = (value) => value && typeof value === "object" && "$" in value ? read(value.$) : value;
  const read = (number) => {
    if (!known.has(number)) {
      const kept = (
        /** @type {any} */
        pool[number]
      );
      const built = Array.isArray(kept) ? kept.map(resolve) : kept && typeof kept === "object" ? Object.fromEntries(Object.entries(kept).map(([key, part]) => [key, resolve(part)])) : kept;
      known.set(number, built);
    }
    return known.get(number);
  };
  return read;
}
function recordedModel(recording, { ways = [], theme = () => "auto" } = {}) {
  const read = poolReader(recording);
  const assembled = (part) => Object.fromEntries(Object.entries(part).map(([key, number]) => [key, read(number)]));
  const byEvent = {};
  let now = {
    state: 0,
    shown: null,
    tab: Object.keys(recording.states[0].tables)[0],
    why: "",
    selected: "",
    recipes: false,
    checked: false,
    refusal: null
  };
  const before = (
    /** @type {Sight[]} */
    []
  ), undone = (
    /** @type {Sight[]} */
    []
  );
  let answer = { view: "", seq: 0 };
  let pending = null;
  const go = (next) => {
    before.push(now);
    undone.length = 0;
    now = next;
  };
  const move = (gesture) => {
    const move2 = recording.states[now.state].moves[moveKey(recording.fields[gesture.verb], gesture)];
    if (move2 === void 0) return refuse(gesture);
    if (move2.refusal !== void 0) now.refusal = read(move2.refusal);
    else go({ ...now, state: move2.to, shown: move2.shown, why: "", checked: false });
  };
  const refuse = (gesture) => {
    now.refusal = { zone: gesture.target ?? gesture.zone ?? gesture.axis ?? "tools", message: OUTSIDE, ways_out: ways };
  };
  const answers = {
    ...Object.fromEntries(Object.keys(recording.fields).map((verb) => [verb, move])),
    undo: () => {
      const last = before.pop();
      if (last) undone.push(now);
      now = { ...last ?? now, refusal: null };
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
      if (recording.states[now.state].recipes === void 0) refuse(gesture);
      else now.recipes = gesture.open !== false;
    },
    ...Object.fromEntries(["refresh", "dismiss", "take", "try_boundary"].map((verb) => [verb, () => {
    }]))
  };
  const parts = {
    board() {
      const { board, verdict } = recording.states[now.state];
      const { deltas, ...after } = assembled(now.shown ?? {});
      const shown = { ...assembled(board), ...after };
      const edit = before.length ? String(shown.said || "the drop") : null;
      return {
        ...shown,
        figures: deltas ? shown.figures.map((figure, place) => ({ ...figure, ...deltas[place] })) : shown.figures,
        undo: edit && `Undo ${edit}`,
        redo: undone.length ? "Redo" : null,
        refusal: now.refusal,
        said: now.refusal ? OUTSIDE : shown.said,
        selected: now.selected,
        taken: null,
        ...openTabs(
          /** @type {any} */
          shown,
          now.tab
        ),
        exercise: shown.exercise && { ...shown.exercise, verdict: now.checked ? read(verdict) : null },
        answer,
        told: 0,
        follows: false
      };
    },
    table() {
      const { tables, whys, recipes } = recording.states[now.state];
      return {
        ...assembled(tables[now.tab]),
        why: now.why ? read(whys[now.why]) : null,
        recipes: now.recipes && recipes !== void 0 ? read(recipes) : null,
        seq: answer.seq,
        told: 0
      };
    },
    live: () => ({ ...assembled(recording.states[now.state].live), can_run: false, told: 0 })
  };
  const notify = (name) => {
    for (const listener of [...byEvent[`change:${name}`] ?? []]) listener();
  };
  const hear = (gesture) => {
    if (gesture.ahead || gesture.again) return;
    now = { ...now, refusal: null };
    (answers[gesture.verb] ?? refuse)(gesture);
    answer = { view: gesture.view, seq: gesture.seq };
    for (const name of Object.keys(parts)) notify(name);
  };
  return {
    get: (name) => name in parts ? parts[
      /** @type {keyof typeof parts} */
      name
    ]() : name === "theme" ? theme() : void 0,
    set: (name, value) => {
      if (name === "gesture") pending = /** @type {Gesture} */
      value;
    },
    save_changes: () => {
      const gesture = pending;
      pending = null;
      if (gesture) setTimeout(() => hear(
        /** @type {Sent} */
        gesture
      ), 0);
    },
    on: (event, listener) => void (byEvent[event] ??= /* @__PURE__ */ new Set()).add(listener),
    off: (event, listener) => void byEvent[event]?.delete(listener),
    dress: () => notify("theme")
  };
}
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
async function show(element) {
  const packed = element.querySelector("script")?.textContent ?? "";
  const theme = () => document.documentElement.dataset.theme ?? "auto";
  const model = recordedModel(await unpack(packed), { ways: element.dataset.ways?.split("|").filter(Boolean) ?? [], theme });
  const place = document.createElement("div");
  const inside = element.attachShadow({ mode: "open" });
  inside.append(place);
  BOARD.render({ model, el: place });
  new MutationObserver(() => model.dress()).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
}
var page = (
  /** @type {Document | undefined} */
  globalThis.document
);
for (const element of page?.querySelectorAll?.(".recorded-board") ?? []) show(
  /** @type {HTMLElement} */
  element
);
export {
  recordedModel
};
