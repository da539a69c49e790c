// @ts-check
// The Compile and Run panels: start, progress, cancel, and measured results next to predictions.

import { patchBlocks } from "./blocks.js";
import { curvesOf } from "./curves.js";
import { h, painter } from "./dom.js";
import { openTab } from "./tables.js";
import { termLabel } from "./terms.js";
import { factsOf, logOf, paintWords, progressOf, speaker } from "./work.js";
/** @import { Block } from "./types/table_cells.d.ts" */
/** @import { LiveState } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/** @param {Wb} wb */
export function compileSection(wb) {
  const target = h("span", { class: "muted target" });
  const expect = () => wb.expect({ verb: "compile" }); // starts the process before the click
  const start = h("button", {
    class: "btn primary",
    type: "button",
    data: { focus: "compile" },
    onpointerenter: expect,
    onfocus: expect,
    onclick: () => wb.send({ verb: "compile" }),
  }, "Compile");
  const cancel = h("button", {
    class: "btn",
    type: "button",
    ariaLabel: "Cancel the compilation",
    onclick: () => wb.send({ verb: "cancel_compilation" }),
  }, "Cancel");
  const compare = h("button", {
    class: "btn",
    type: "button",
    title: "Compare predicted and compiled in the tab Compared",
    data: { focus: "compare" },
    onclick: () => openTab(wb, "compared"),
  }, "Open Compared");
  const progress = progressOf("compilation"), facts = factsOf(), log = logOf("compilation"), speak = speaker(wb);
  /** @type {boolean | null} the user's choice until Python confirms it, because an older state would revert it */
  let chosen = null;
  const atRest = h("input", {
    type: "checkbox",
    data: { focus: "compile-at-rest" },
    onchange: () => {
      chosen = atRest.checked;
      wb.send({ verb: "compile_at_rest", on: chosen });
    },
  });
  const restNote = h("span", { class: "muted" }),
    automatic = h(
      "label",
      { class: "at-rest", title: "Starts 2 s after the last edit when the machine is idle; the next edit cancels it." },
      atRest,
      "Compile automatically",
      restNote,
    );
  const message = h("div", { class: "message" }), of = h("div", { class: "mono of" });
  const section = h(
    "section",
    { class: "compile", ariaLabel: "Compile" },
    h("h2", {}, termLabel(wb, "Compile ahead of time")),
    h("div", { class: "buttons" }, start, cancel, compare, target),
    automatic,
    progress.bar,
    progress.stage,
    message,
    of,
    facts.facts,
    log.element,
  );
  /** @param {LiveState} live */
  const paint = (live) => {
    const state = live.compile, running = state.phase === "running";
    section.dataset.phase = state.phase;
    section.hidden = !live.can_run;
    section.classList.toggle("stale", state.stale);
    target.textContent = state.target;
    start.disabled = running && !state.unasked;
    cancel.hidden = !running;
    automatic.hidden = !live.at_rest;
    const on = live.at_rest?.on ?? false;
    if (on === chosen) chosen = null;
    atRest.checked = chosen ?? on;
    restNote.textContent = live.at_rest?.note ?? "";
    compare.hidden = running || !state.facts.length;
    progress.paint(state);
    paintWords(message, of, state);
    facts.paint(state.facts);
    log.paint(state.log);
    speak(state.said);
  };
  return { section, paint };
}

/** @param {Wb} wb */
export function runSection(wb) {
  const steps = h("input", { class: "field", value: "20", inputMode: "numeric", ariaLabel: "steps to run" });
  const start = h("button", { class: "btn primary", type: "submit", data: { focus: "run" } }, "Run");
  const cancel = h("button", { class: "btn", type: "button", onclick: () => wb.send({ verb: "cancel" }) }, "Cancel");
  const timeline = h("button", {
    class: "btn",
    type: "button",
    title: "Compare predicted and measured in the tab Timeline",
    onclick: () => openTab(wb, "timeline"),
  }, "Open Timeline");
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        wb.send({ verb: "run", steps: steps.value });
      },
    },
    steps,
    h("span", { class: "muted" }, "steps"),
    start,
    cancel,
    timeline,
  );
  const progress = progressOf("run"), facts = factsOf(), curves = curvesOf(wb), log = logOf("run"), speak = speaker(wb);
  const message = h("div", { class: "message" }), of = h("div", { class: "mono of" });
  const section = h(
    "section",
    { class: "run", ariaLabel: "Run" },
    h("h2", {}, termLabel(wb, "Run on the attached devices")),
    form,
    progress.bar,
    progress.stage,
    message,
    of,
    curves.place,
    facts.facts,
    log.element,
  );
  const results = h("section", { class: "results", ariaLabel: "Predicted against compiled" });
  /** @type {Paint<Block[]>} */
  const paintResults = painter((blocks) => {
    results.hidden = !blocks.length;
    patchBlocks(wb, results, blocks);
  });
  /**
   * @param {LiveState} live
   * @param {string} tab - the open tab
   */
  const paint = (live, tab) => {
    const running = live.phase === "running";
    section.dataset.phase = live.phase;
    section.hidden = !live.can_run || !live.runs;
    section.classList.toggle("stale", live.stale);
    start.disabled = steps.disabled = running;
    cancel.hidden = !running;
    timeline.hidden = running || !live.traced;
    progress.paint(live);
    paintWords(message, of, live);
    curves.paint(live.curves);
    facts.paint(live.facts);
    log.paint(live.log);
    paintResults(live.blocks.filter((block) => block.in_tab !== tab));
    speak(live.said);
  };
  return { section, results, paint };
}
