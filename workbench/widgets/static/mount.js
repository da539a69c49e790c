// @ts-check
// Mounts a plan's board: one card, each part painted as Python publishes its state.

import { boardSection } from "./board.js";
import { makeWb, onShortcut, paintAfterPress } from "./board_context.js";
import { drawHead } from "./card_header.js";
import { markCharts, removeCharts } from "./chart.js";
import { h, keepingFocus, painter, patch } from "./dom.js";
import { release, showPreviews } from "./drag.js";
import { exerciseSection } from "./exercise.js";
import { drawAlarm, drawFigure, drawStanding } from "./figures.js";
import { filesSection } from "./files.js";
import { helpSection } from "./help.js";
import { historySection } from "./history.js";
import { lessonSection } from "./lesson.js";
import { takenUp } from "./menus.js";
import { modelStrip } from "./model_strip.js";
import { outbox } from "./outbox.js";
import { makeBoxesPickable } from "./picking.js";
import { makePicturesOpen } from "./picture.js";
import { closeMenu } from "./popup.js";
import { STYLE } from "./python_constants.js";
import { compileSection, runSection } from "./run.js";
import { makeSelectable, markChosen, markColleagues } from "./select.js";
import { sourceSection } from "./source.js";
import { paintStageRefusal } from "./stages.js";
import { startSection } from "./start.js";
import { BLOCK_DRAWERS, tablesSection } from "./tables.js";
import { makeTheme } from "./theme.js";
import { firstTour, followTour } from "./tour.js";
import { whySection } from "./why.js";
/** @import { Alarm, Figure, Standing } from "./types/states.d.ts" */
/** @import { HeadState, Paint, PlanModel } from "./types/board_context.d.ts" */

/**
 * @param {PlanModel} model
 * @param {HTMLElement} el
 * @returns {() => void}
 */
export function mount(model, el) {
  const root = h("div", { class: "wb", tabIndex: -1 });
  const live = h("div", { class: "sr", ariaLive: "assertive", role: "status" });
  const noAnswer = h("div", { class: "note warn", hidden: true }, "No answer from the server for 10 s");
  const card = h("div", { class: "card" });
  const box = outbox(model, root);
  const wb = makeWb(root, card, live, box, model.library, BLOCK_DRAWERS);
  const lesson = lessonSection(wb);
  root.append(h("div", { class: "with-lesson" }, lesson.section, card), live);
  const head = h("header", { class: "head" });
  const figures = h("div", { class: "figures" }), standing = h("div", { class: "standing" });
  const board = boardSection(wb), tables = tablesSection(wb), run = runSection(wb);
  const alarms = h("div", { class: "alarms" });
  const why = whySection(wb);
  const compile = compileSection(wb), lines = sourceSection(wb);
  const history = historySection(wb), files = filesSection(wb), exercise = exerciseSection(wb);
  const start = startSection(wb), strip = modelStrip(wb);
  card.append(
    start.section,
    head,
    strip.section,
    figures,
    files.notice, // overlaps the lower edge of the figures
    standing,
    noAnswer,
    exercise.section,
    board.section,
    files.section, // both overlay the parts below, so that the drop zones stay visible and in place
    history.section,
    alarms,
    h("div", { class: "lower" }, tables.section, h("div", { class: "inspector" }, why.section, lines.section)),
    h("div", { class: "jobs" }, compile.section, run.section),
    run.results,
    helpSection(wb),
  );
  /** @type {Paint<HeadState & { seq: number }>} */
  const paintHead = painter((state) => keepingFocus(root, head, () => drawHead(wb, head, state)));
  /** @type {Paint<Figure[]>} */
  const paintFigures = painter((state) => keepingFocus(root, figures, () => patch(figures, state, (figure) => drawFigure(wb, figure))));
  /** @type {Paint<Standing>} */
  const paintStanding = painter((state) => keepingFocus(root, standing, () => standing.replaceChildren(...drawStanding(wb, state))));
  /** @type {Paint<Alarm[]>} */
  const paintAlarms = painter((state) => patch(alarms, state, (alarm) => drawAlarm(wb, alarm)));

  const stop = new AbortController();
  let said = "";
  wb.paint = paintAfterPress(root, () => {
    if (wb.dragging) {
      wb.whileDragging?.(model.get("table"));
      return;
    } // a repaint would end the pointer capture; the drag paints when it ends
    const state = model.get("board");
    const { name, mesh, devices, count, layout, undo, redo, program, hardware, zones, spare, refusal } = state;
    const seq = refusal ? state.answer.seq : 0;
    const inHead = refusal && [hardware.zone, program.zone].includes(refusal.zone) ? refusal : null;
    paintHead({
      name,
      mesh,
      devices,
      layout,
      undo,
      redo,
      program,
      hardware,
      tools: {
        count: state.history.count,
        open: state.history.open,
        path: state.files.path,
        saves: state.files.saves,
        exchanges: state.files.exchanges,
        starts: Boolean(state.start),
        sheet: state.files.sheet?.kind ?? "",
      },
      refusal: inHead,
      seq: inHead ? seq : 0,
    });
    files.paint(state.files, refusal?.zone === "tools" ? refusal : null, seq);
    history.paint(state.history);
    const began = root.dataset.starting === "true";
    start.paint(state.start, refusal?.zone === "start panel" ? refusal : null, seq);
    if (began && !state.start?.open && !undo) firstTour(wb, model); // the tour is about the first plan
    strip.paint(state.model, refusal?.zone === "model sizes" ? refusal : null, seq);
    const aboutIt = refusal?.zone === "exercise" ? refusal : null;
    exercise.paint({ state: state.exercise, refusal: aboutIt, seq: aboutIt ? seq : 0 });
    lesson.paint(state.lesson ?? null, state.lesson_blocks ?? [], state.exercise);
    root.dataset.predicting = String(state.exercise?.predicting ?? false);
    paintFigures(state.figures);
    paintStanding(state.standing);
    root.dataset.settling = `${state.standing.settling}`;
    paintAlarms(state.alarms);
    if (!wb.optimistic || root.dataset.busy !== "true") { // pending drops stay in place until the last is answered
      board.paint({ zones, spare, count, refusal, seq }, wb.optimistic);
      wb.optimistic = false;
    }
    tables.paintTargets({
      zones: zones.map(({ axis, title, colour, size }) => ({ axis, title, colour, size })),
      tab: model.get("table").tab,
      refusal: refusal?.zone === "tables" ? refusal : null,
      seq: refusal?.zone === "tables" ? seq : 0,
    });
    const opened = state.tabs.find(({ open }) => open);
    tables.paintViews(state.views);
    tables.paintSections(state.tabs.filter(({ view }) => view && view === opened?.view));
    const opening = opened?.key !== model.get("table").tab;
    tables.section.classList.toggle("opening", opening); // the tab is selected, but its table has not arrived
    tables.section.ariaBusy = String(opening);
    board.paintFind(state.tabs.find(({ key }) => key === "find") ?? null);
    const { seq: charted, why: because, recipes, source, stages, told: _told, ...table } = model.get("table");
    if (root.dataset.busy !== "true" && (!state.follows || charted === state.answer.seq)) wb.placed = false;
    tables.paintStages(stages ?? null);
    tables.paintTable(table);
    why.paint(because);
    const linked = source?.linked.join("\n") ?? "", relinked = linked !== [...wb.linked].join("\n");
    if (relinked) wb.linked = new Set(source?.linked);
    paintStageRefusal(wb, refusal, seq);
    board.paintRecipes(recipes ?? null);
    root.dataset.charted = `${charted}`;
    run.paint(model.get("live"), table.tab);
    compile.paint(model.get("live"));
    markChosen(wb, state.selected ?? "", relinked);
    markColleagues(wb, model.get("colleagues") ?? []);
    lines.paint(source ?? null);
    noAnswer.hidden = root.dataset.silent !== "true";
    if (state.said && state.said !== said) wb.say(state.said);
    said = state.said;
    followTour(wb, layout);
    root.dataset.answered = `${state.answer.seq}`;
  }, stop.signal);
  const onBoard = () => {
    box.answered(model.get("board").answer);
    wb.paint();
    takenUp(wb, model.get("board").taken);
    wb.previews = model.get("board").previews ?? null;
    showPreviews(wb);
    expectTable();
  };
  const expectTable = () => { // the table announced by the board, requested if it does not arrive
    const { answer: { view, seq }, follows } = model.get("board");
    if (follows && view === box.view) {
      setTimeout(() => {
        if (model.get("board").answer.seq === seq && model.get("table").seq !== seq) box.refresh();
      }, 3000);
    }
  };
  const watching = setInterval(() => {
    const live = model.get("live");
    if (live.phase === "running" || live.compile?.phase === "running") box.refresh();
  }, 5000);
  const listeners = {
    "change:board": onBoard,
    "change:table": () => wb.paint(),
    "change:live": () => wb.paint(),
    "change:theme": () => applyTheme(),
    "change:colleagues": () => markColleagues(wb, model.get("colleagues") ?? []),
  };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);

  const applyTheme = makeTheme(wb, model, stop.signal);
  document.addEventListener("pointerdown", (event) => {
    const path = event.composedPath();
    if (wb.menu && !path.includes(wb.menu.element) && !path.includes(wb.menu.anchor)) closeMenu(wb, false);
    if (wb.held && !path.some((element) => element instanceof Element && element.matches(".zone, .droptarget, .dim"))) release(wb);
  }, { signal: stop.signal });
  root.addEventListener("keydown", (event) => onShortcut(wb, event));
  new MutationObserver(() => {
    noAnswer.hidden = root.dataset.silent !== "true";
  }).observe(root, { attributes: true, attributeFilter: ["data-silent"] });

  makeSelectable(wb);
  makeBoxesPickable(wb);
  makePicturesOpen(wb);
  wb.subscribe("selected", () => markCharts(wb));
  applyTheme();
  wb.paint();
  el.append(h("style", {}, STYLE), root);
  firstTour(wb, model);
  box.begin();
  return () => {
    stop.abort();
    removeCharts(root);
    box.close();
    clearInterval(watching);
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
  };
}
