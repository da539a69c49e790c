// @ts-check
// The fleet board: controls, figures, models with their shards, schedule, alternatives and losses.

import { makeWb, onShortcut, paintAfterPress } from "./board_context.js";
import { lossesOf } from "./curves.js";
import { h, keepingFocus, painter, patch, withCode } from "./dom.js";
import { drawFleetControls } from "./fleet_controls.js";
import { fleetModels, fleetRun, fleetTiming } from "./fleet_parts.js";
import { helpSection, helpTools } from "./help.js";
import { outbox } from "./outbox.js";
import { paintPicture } from "./picture.js";
import { closeMenu, drawRefusal } from "./popup.js";
import { STYLE } from "./python_constants.js";
import { termLabel } from "./terms.js";
import { makeTheme } from "./theme.js";
/** @import { FleetBoard, FleetControls, FleetFigure, FleetLive, Way } from "./types/fleet.d.ts" */
/** @import { Picture } from "./types/table_cells.d.ts" */
/** @import { Refusal } from "./types/states.d.ts" */
/** @import { FleetModel, Paint, Wb } from "./types/board_context.d.ts" */

/**
 * @param {FleetModel} model
 * @param {HTMLElement} el
 * @returns {() => void}
 */
export function mountFleet(model, el) {
  const root = h("div", { class: "wb fleet", tabIndex: -1 });
  const live = h("div", { class: "sr", ariaLive: "assertive", role: "status" });
  const noAnswer = h("div", { class: "note warn", hidden: true }, "No answer from the server for 10 s");
  const card = h("div", { class: "card" });
  root.append(card, live);
  const box = outbox(model, root);
  const wb = makeWb(root, card, live, box, model.library);
  const head = h("header", { class: "head" }),
    controls = h("div", { class: "controls fleetcontrols" }),
    refused = h("div", { class: "refusedhere" }),
    problem = h("div", { class: "alarms" });
  const run = fleetRun(wb),
    timing = fleetTiming(wb),
    models = fleetModels(wb),
    drawn = h("div", { class: "picture" }),
    note = h("p", { class: "muted slices" }),
    devices = h("div", { class: "fleetdevices" }),
    losses = lossesOf(wb);
  const figures = h("div", { class: "stagefigures fleetfigures" }),
    ways = h("div", { class: "waytable" }),
    stale = h("p", { class: "muted stale" }),
    doubt = h("div", { class: "fleetdoubt" });
  const empty = h("p", { class: "muted" }, "Losses of all models are drawn here while they train.");
  const schedule = h(
    "section",
    { class: "fleettimeline", ariaLabel: "Schedule" },
    h("h2", {}, termLabel(wb, "Shard units over time")),
    devices,
    drawn,
    note,
  );
  const alternatives = h(
    "section",
    { class: "fleetways", ariaLabel: "Ways to train the same models" },
    h("h2", {}, termLabel(wb, "To train the same models")),
    h("p", { class: "muted" }, "All use the same unit times. Only shard units include transfers."),
    ways,
  );
  card.append(
    head,
    h(
      "section",
      { class: "fleettop", ariaLabel: "Policy, memory, devices and hardware" },
      h("div", { class: "fleetline" }, controls, run.buttons),
      refused,
      timing.element,
      doubt,
      run.progress,
    ),
    problem,
    figures,
    noAnswer,
    models.section,
    schedule,
    h(
      "div",
      { class: "fleetlower" },
      alternatives,
      h(
        "section",
        { class: "fleetresults", ariaLabel: "Training" },
        h("h2", {}, termLabel(wb, "Training")),
        stale,
        empty,
        losses.element,
        run.results,
      ),
    ),
    helpSection(wb, { tour: false }),
  );
  /** @type {Paint<Pick<FleetBoard, "name" | "path" | "devices">>} */
  const paintHead = painter((state) =>
    keepingFocus(root, head, () =>
      head.replaceChildren(
        h(
          "div",
          { class: "names" },
          h(
            "div",
            { class: "line" },
            h("h1", {}, state.name),
            state.path ? h("span", { class: "mono mesh" }, state.path) : null,
            state.path
              ? h("button", {
                class: "btn small",
                type: "button",
                data: { focus: "reread" },
                title: "Reload the file: new models join, removed models stop",
                onclick: () => wb.send({ verb: "reread" }),
              }, "Reload file")
              : null,
            h("span", { class: "muted" }, state.devices),
          ),
        ),
        h("div", { class: "tools" }, ...helpTools(wb)),
      ))
  );
  /** @type {Paint<FleetControls & { locked: boolean }>} */
  const paintControls = painter((state) => keepingFocus(root, controls, () => drawFleetControls(wb, controls, state)));
  /** @type {Paint<Refusal | null>} */
  const paintRefusal = painter((refusal) => refused.replaceChildren(...(refusal ? [drawRefusal(wb, refusal)] : [])));
  /** @type {Paint<Refusal | null>} */
  const paintProblem = painter((wrong) =>
    problem.replaceChildren(
      ...(wrong
        ? [
          h(
            "div",
            { class: "alarm", role: "alert" },
            h("b", { class: "bad" }, "Does not fit. "),
            ...withCode(wrong.message),
            wrong.ways_out.length ? h("span", { class: "muted" }, ` ${wrong.ways_out.join(" · ")}`) : null,
          ),
        ]
        : []),
    )
  );
  /** @type {Paint<Way[]>} */
  const paintWays = painter((all) => patch(ways, all, drawWay));
  /** @type {Paint<{ running: boolean; devices: number; away: number[] }>} */
  const paintDevices = painter((state) => keepingFocus(root, devices, () => drawDevices(wb, devices, state)));

  const stop = new AbortController();
  let announced = "";
  wb.paint = paintAfterPress(root, () => {
    if (wb.dragging) return; // a repaint would end the pointer capture
    const state = model.get("board"), now = model.get("live"), { timeline } = model.get("table");
    paintHead({ name: state.name, path: state.path, devices: state.devices });
    paintControls({ ...state.controls, locked: state.locked });
    paintRefusal(state.refusal);
    paintProblem(state.problem);
    doubt.replaceChildren(...withCode(state.doubt));
    doubt.hidden = !state.doubt;
    patch(figures, state.figures, (figure) => drawFleetFigure(wb, figure));
    figures.classList.toggle("waits", state.waits);
    timing.paint({ ...state.timing, waits: state.waits });
    models.paint(state.models, state.columns, now.models);
    schedule.hidden = !timeline;
    if (timeline?.picture) paintPicture(wb, drawn, withRun(timeline.picture, timeline.of, now.ran));
    note.textContent = timeline?.note ?? "";
    note.hidden = !note.textContent;
    paintDevices({ running: now.phase === "running" && Boolean(now.known), devices: timeline?.devices ?? 0, away: now.away });
    paintWays(state.ways);
    alternatives.hidden = !state.ways.length;
    run.paint(now, state);
    losses.paint(now.losses);
    stale.textContent = now.stale;
    stale.hidden = !now.stale;
    empty.hidden = Boolean(now.losses);
    noAnswer.hidden = root.dataset.silent !== "true";
    if (state.said && state.said !== announced) wb.say(state.said);
    announced = state.said;
    root.dataset.phase = now.phase;
    root.dataset.answered = `${state.answer.seq}`;
  }, stop.signal);
  const onBoard = () => {
    box.answered(model.get("board").answer);
    wb.paint();
  };
  const watching = setInterval(() => {
    if (model.get("live").phase === "running" || model.get("board").timing.phase === "running") box.refresh();
  }, 5000);
  const listeners = {
    "change:board": onBoard,
    "change:table": () => wb.paint(),
    "change:live": () => wb.paint(),
    "change:theme": () => applyTheme(),
  };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);

  const applyTheme = makeTheme(wb, model, stop.signal);
  document.addEventListener("pointerdown", (event) => {
    const path = event.composedPath();
    if (wb.menu && !path.includes(wb.menu.element) && !path.includes(wb.menu.anchor)) closeMenu(wb, false);
  }, { signal: stop.signal });
  root.addEventListener("keydown", (event) => onShortcut(wb, event));
  new MutationObserver(() => {
    noAnswer.hidden = root.dataset.silent !== "true";
  }).observe(root, { attributes: true, attributeFilter: ["data-silent"] });
  applyTheme();
  wb.paint();
  el.append(h("style", {}, STYLE), root);
  return () => {
    stop.abort();
    box.close();
    clearInterval(watching);
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
  };
}

/**
 * Adds the executed part of the schedule to its chart; a run of another schedule waits for its chart.
 * @param {Picture} picture
 * @param {string} of
 * @param {FleetLive["ran"]} ran
 * @returns {Picture}
 */
function withRun(picture, of, ran) {
  const [chart] = picture.charts ?? [];
  if (!chart || ran?.of !== of) return picture;
  const merged = { ...chart, ...ran, sources: { ...chart.sources, ...ran.sources }, spans: [...chart.spans, ...ran.spans] };
  return { ...picture, charts: [merged] };
}

/**
 * @param {Wb} wb
 * @param {FleetFigure} figure
 * @returns {HTMLElement}
 */
function drawFleetFigure(wb, figure) {
  const delta = figure.delta && h("span", { class: `delta ${figure.delta.tone}` }, figure.delta.text);
  return h(
    "div",
    { class: "stagefigure", data: { figure: figure.key } },
    h("div", { class: "label" }, termLabel(wb, figure.label)),
    h("div", { class: "value" }, figure.text, delta ? " " : null, delta),
    h("div", { class: "sub" }, figure.note),
    ...figure.tiers.map((tier) => h("div", { class: "tier" }, `${tier.label} `, h("b", {}, tier.text), tier.note ? ` ${tier.note}` : "")),
  );
}

/**
 * @param {Way} way
 * @returns {HTMLElement}
 */
function drawWay(way) {
  const bar = h("i");
  bar.style.width = `${way.share * 100}%`;
  return h(
    "div",
    { class: `way1 ${way.kind}`, data: { way: way.kind } },
    h("span", { class: "name" }, way.label),
    h("span", { class: "level" }, bar),
    h("b", {}, way.text),
    h("span", { class: "ratio" }, way.ratio),
    h("span", { class: "muted about" }, way.note),
  );
}

/**
 * Buttons to remove and restore devices during training.
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {{ running: boolean; devices: number; away: number[] }} state
 */
function drawDevices(wb, parent, { running, devices, away }) {
  parent.hidden = !running;
  parent.replaceChildren(
    h("span", { class: "muted" }, "Devices:"),
    ...Array.from({ length: running ? devices : 0 }, (_, device) => {
      const removed = away.includes(device);
      return h("button", {
        class: "btn small",
        type: "button",
        ariaPressed: String(removed),
        data: { focus: `device-${device}` },
        title: removed ? "The device accepts units again" : "The device finishes its unit and accepts no more",
        onclick: () => wb.send({ verb: removed ? "return" : "leave", value: String(device) }),
      }, removed ? `Give back ${device}` : `Take away ${device}`);
    }),
  );
}
