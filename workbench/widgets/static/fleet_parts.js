// @ts-check
// Parts of the fleet board: run status and the model list.

import { h, painter, patch } from "./dom.js";
import { termLabel } from "./terms.js";
import { countSeconds } from "./wait_line.js";
import { factsOf, logOf, progressOf, speaker } from "./work.js";
/** @import { FleetBoard, FleetLive, FleetModelRow, FleetTiming, ModelLive } from "./types/fleet.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * The source of the unit times: measured, being measured, or available to measure.
 * @param {Wb} wb
 */
export function fleetTiming(wb) {
  const words = h("span", { class: "muted", role: "status" });
  const start = h("button", {
    class: "btn small",
    type: "button",
    data: { focus: "time" },
    title: "Split the models into shard units and time each unit on one device, in a worker process",
    onclick: () => wb.send({ verb: "time" }),
  }, "Time the units");
  const cancel = h("button", {
    class: "btn small",
    type: "button",
    data: { focus: "cancel_timing" },
    onclick: () => wb.send({ verb: "cancel_timing" }),
  }, "Cancel timing");
  const spinner = h("i", { class: "spin", ariaHidden: "true" });
  const element = h("div", { class: "fleettiming" }, spinner, words, start, cancel);
  /** @type {Paint<FleetTiming & { waits: boolean }>} */
  const paint = painter((state) => {
    const running = state.phase === "running";
    spinner.hidden = !running && !state.waits;
    words.textContent = state.waits ? "Simulating the schedule …" : running ? `Timing the units: ${state.stage} …` : state.message;
    words.className = state.phase === "error" ? "bad" : "muted";
    start.hidden = !state.can_time;
    cancel.hidden = !running;
    element.hidden = !words.textContent && start.hidden;
  });
  return { element, paint };
}

/** @param {Wb} wb */
export function fleetRun(wb) {
  const start = h(
    "button",
    { class: "btn primary", type: "button", data: { focus: "run" }, onclick: () => wb.send({ verb: "run" }) },
    "Run",
  );
  const cancel = h("button", {
    class: "btn",
    type: "button",
    data: { focus: "cancel" },
    ariaLabel: "Cancel the run",
    onclick: () => wb.send({ verb: "cancel" }),
  }, "Cancel");
  const progress = progressOf("training"), facts = factsOf(), log = logOf("training"), speak = speaker(wb);
  const message = h("div", { class: "message" }), command = h("div", { class: "mono of" });
  const results = h("div", { class: "fleetfacts" }, facts.facts, command, log.element);
  /** @type {Pick<FleetLive, "stage" | "left">} */
  let now = { stage: "", left: "" };
  const counter = countSeconds(progress.stage, (passed) => {
    progress.stage.textContent = [now.stage, `${passed} s`, now.left].filter(Boolean).join(" · ");
  });
  /**
   * @param {FleetLive} live
   * @param {FleetBoard} state
   */
  const paint = (live, state) => {
    const running = live.phase === "running";
    start.disabled = running;
    start.hidden = !live.can_run;
    cancel.hidden = !running;
    progress.paint(live);
    now = live;
    if (running) counter.start(live.seconds);
    else counter.stop();
    message.textContent = live.message;
    message.className = `message ${live.phase === "error" ? "bad" : "muted"}`;
    message.hidden = !live.message;
    facts.paint(live.facts);
    command.textContent = state.command ? `$ ${state.command}` : "";
    command.hidden = !state.command;
    log.paint(live.log);
    speak(live.said);
  };
  return {
    buttons: h("div", { class: "fleetbuttons" }, start, cancel),
    progress: h("div", { class: "fleetprogress" }, progress.bar, progress.stage, message),
    results,
    paint,
  };
}

/**
 * One row per model. A run updates cells in place, because replacing a row would interrupt a click on its buttons.
 * @param {Wb} wb
 */
export function fleetModels(wb) {
  const head = h("tr"), body = h("tbody");
  /** @type {Map<string, ReturnType<typeof fleetRow>>} */
  const rows = new Map();
  const section = h(
    "section",
    { class: "fleetmodels", ariaLabel: "Models" },
    h("div", { class: "scroll", tabIndex: 0, role: "group", ariaLabel: "Models" }, h("table", {}, h("thead", {}, head), body)),
  );
  /**
   * @param {string[]} columns
   * @returns {[string, string?][]}
   */
  const titles = (columns) => {
    /** @type {[string, string][]} */
    const configured = columns.map((name) => [name, "n arg"]);
    return [["Model"], ...configured, ["Epochs", "n arg"], ["Shards", "cut"], ["Alone", "n arg"], ["State"], ["Loss", "n"], [""]];
  };
  /** @type {Paint<string[]>} */
  const paintHead = painter((columns) =>
    head.replaceChildren(
      ...titles(columns).map(([name, kind]) =>
        h("th", { class: kind ?? "", scope: "col" }, name ? termLabel(wb, name, `fleet ${name}`) : "")
      ),
    )
  );
  /**
   * @param {FleetModelRow[]} models
   * @param {string[]} columns
   * @param {FleetLive["models"]} live
   */
  const paint = (models, columns, live) => {
    paintHead(columns);
    patch(body, models, (model) => {
      const row = fleetRow(wb, model);
      rows.set(model.key, row);
      return row.element;
    });
    for (const model of models) rows.get(model.key)?.paint(live[model.key] ?? null);
  };
  return { section, paint };
}

/**
 * @param {Wb} wb
 * @param {FleetModelRow} model
 */
function fleetRow(wb, model) {
  const bar = h("i"), state = h("span", { class: "word" }), batches = h("span", { class: "muted" }), loss = h("td", { class: "n loss" });
  const stop = h("button", {
    class: "btn small",
    type: "button",
    hidden: true,
    ariaLabel: `Stop ${model.name}`,
    title: "Stop after the current mini-batch; the other models get its devices",
    data: { focus: `stop-${model.key}` },
    onclick: () => wb.send({ verb: "stop", value: model.key }),
  }, "Stop");
  const shards = h(
    "span",
    { class: "shards", role: "img", ariaLabel: model.shards.map((shard) => shard.title).join("; ") },
    ...model.shards.map((shard, i) => {
      const part = h("i", { title: shard.title });
      part.style.width = `${Math.max(2, shard.share * 76)}px`;
      part.dataset.shard = String(i % 2);
      return part;
    }),
  );
  const element = h(
    "tr",
    { data: { model: model.key, c: model.colour } },
    h(
      "td",
      { title: model.program },
      h("i", { class: "modelmark" }, model.number),
      h("span", { class: "modelname", title: model.name }, model.name),
      model.stops ? h("span", { class: "muted stops" }, model.stops) : null,
    ),
    ...model.arguments.map((value) => h("td", { class: "n arg" }, value)),
    h("td", { class: "n arg", title: model.epochs_title }, model.epochs),
    h("td", { class: "cut" }, shards, h("span", { class: "sizes" }, model.shards_text)),
    h("td", { class: "n arg", title: model.seconds_title }, model.seconds),
    h("td", { class: "state" }, h("span", { class: "done" }, bar), state, " ", batches),
    loss,
    h("td", { class: "act" }, stop),
  );
  /** @type {Paint<ModelLive | null>} */
  const paint = painter((now) => {
    element.dataset.state = now?.state ?? "";
    bar.style.width = `${(now?.share ?? 0) * 100}%`;
    state.textContent = now?.state ?? "waiting";
    batches.textContent = now?.batches ?? "";
    loss.textContent = now?.loss ?? "";
    loss.title = now?.loss_title ?? "";
    stop.hidden = !now?.can_stop;
  });
  return { element, paint };
}
