// @ts-check
// The stage board: pipeline controls, figures, and a column per stage with its blocks; Python decides. `value`s are sent unchanged.

import { around, drawProblem, h, isShown, keepingFocus, one, painter, withCode } from "./dom.js";
import { paintPicture } from "./picture.js";
import { drawRefusal } from "./popup.js";
import { drawControl, PIPELINE_ZONE, sendStage } from "./stage_controls.js";
import { stageColumns } from "./stage_drag.js";
import { termLabel } from "./terms.js";
/** @import { BalanceWay, Invitation, PipelineState, PipelineTab, StageFigure } from "./types/pipeline.d.ts" */
/** @import { Refusal } from "./types/states.d.ts" */
/** @import { Block } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** The pipeline of each container. @type {WeakMap<Element, ReturnType<typeof makePipeline>>} */
const pipelineIn = new WeakMap();

/**
 * Keeps the container while the tab is open; parts are painted separately, so that unchanged ones keep the pointer and the focus.
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {PipelineTab} state
 */
export function paintPipeline(wb, place, state) {
  const pipeline = pipelineIn.get(place) ?? makePipeline(wb, place);
  pipelineIn.set(place, pipeline);
  place.dataset.kind = state.kind;
  for (const paint of pipeline.parts) paint(state);
}

/**
 * A part of the tab, painted when the state selected by `pick` changes and hidden while it is `undefined`.
 * @template T
 * @param {HTMLElement} element
 * @param {(state: PipelineTab) => T | undefined} pick
 * @param {(shown: T) => void} draw
 * @returns {(state: PipelineTab) => void}
 */
function part(element, pick, draw) {
  const paint = painter(draw);
  return (state) => {
    const shown = pick(state);
    element.hidden = shown === undefined;
    if (shown !== undefined) paint(shown);
  };
}

/**
 * Applies `pick` to the pipeline, if there is one.
 * @template T
 * @param {(state: PipelineState) => T} pick
 * @returns {(state: PipelineTab) => T | undefined}
 */
const ofPipeline = (pick) => (state) => (state.kind === "pipeline" ? pick(state) : undefined);

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 */
function makePipeline(wb, place) {
  const controls = h("div", { class: "controls" }), refused = h("div", { class: "refusedhere" }), first = h("div", { class: "invitation" });
  const figures = h("div", { class: "stagefigures" }), problem = h("div", { class: "failure", role: "alert", hidden: true });
  const board = stageColumns(wb, (blocks) => preview(blocks));
  const balances = h("div", { class: "balances", role: "group", ariaLabel: "Set the boundaries" });
  const below = h("div", { class: "below" }, balances, board.skips);
  place.replaceChildren(first, controls, refused, problem, figures, board.element, below);
  const paintInvitation = part(
    first,
    (state) => (state.kind === "none" ? state : undefined),
    (state) => drawInvitation(wb, first, state),
  );
  const paintControls = part(
    controls,
    (state) => (state.kind === "none" ? undefined : state.controls),
    (rows) => keepingFocus(wb.root, controls, () => controls.replaceChildren(...rows.map((row) => drawControl(wb, row)), drawRemove(wb))),
  );
  const paintProblem = part(
    problem,
    (state) => (state.kind === "broken" ? state.problem : undefined),
    (wrong) => problem.replaceChildren(...drawProblem(wrong).filter(isShown)),
  );
  const paintFigures = part(
    figures,
    ofPipeline((state) => ({ rows: state.figures, nominal: state.nominal })),
    ({ rows, nominal }) =>
      figures.replaceChildren(...rows.map((row) => drawStageFigure(wb, row)), nominal ? h("p", { class: "muted nominal" }, nominal) : ""),
  );
  const paintBalances = part(
    below,
    ofPipeline((state) => state.balances),
    (rows) => keepingFocus(wb.root, balances, () => balances.replaceChildren(...rows.map((balance) => drawBalance(wb, balance)))),
  );
  const paintBoard = part(board.element, ofPipeline((state) => state.board), board.paint);
  /** @param {PipelineTab} state */
  const paintUnplaced = (state) => { // keep the dropped boundary until the answer's table arrives
    if (!wb.placed) paintBoard(state);
  };
  /** @param {Block[]} blocks */
  const preview = ([{ stages: state }, below]) => { // during a drag
    if (state?.kind !== "pipeline") return;
    paintFigures(state);
    board.heads(state.board);
    const drawn = below?.picture, picture = drawn && one(wb.root, `[data-picture="${CSS.escape(drawn.name)}"]`);
    if (!drawn || !picture) return;
    paintPicture(wb, picture, drawn);
    const note = picture.parentElement?.querySelector(":scope > .note");
    if (note instanceof HTMLElement) note.hidden = !below.note;
  };
  const parts = [paintInvitation, paintControls, paintProblem, paintFigures, paintBalances, paintUnplaced];
  return { parts, restore: board.restore };
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {Pick<Invitation, "about" | "problem" | "button" | "choices">} invitation
 */
function drawInvitation(wb, parent, { about, problem, button, choices }) {
  parent.replaceChildren(
    h("h3", {}, "No pipeline yet"),
    h("p", {}, "A pipeline divides the layers into stages on separate devices and processes the batch in micro-batches."),
    h("p", { class: "muted" }, ...withCode(about)),
    problem ? h("div", { class: "failure" }, ...drawProblem(problem)) : "",
    button
      ? h(
        "button",
        { class: "btn primary", type: "button", data: { focus: "pipeline-make" }, onclick: () => sendStage(wb, "make") },
        button,
      )
      : "",
    ...choices.map(({ value, label, note }) =>
      h(
        "p",
        { class: "way" },
        h("button", {
          class: "btn",
          type: "button",
          data: { focus: `pipeline-make-${value}` },
          onclick: () => sendStage(wb, "make", value),
        }, label),
        h("span", { class: "muted" }, ...withCode(note)),
      )
    ),
  );
}

/**
 * @param {Wb} wb
 * @returns {HTMLElement}
 */
function drawRemove(wb) {
  return h("button", {
    class: "btn remove",
    type: "button",
    data: { focus: "pipeline-remove" },
    title: "Remove the pipeline and its mesh axis.",
    onclick: () => sendStage(wb, "remove"),
  }, "Remove pipeline");
}

/**
 * @param {Wb} wb
 * @param {StageFigure} figure
 * @returns {HTMLElement}
 */
function drawStageFigure(wb, figure) {
  return h(
    "div",
    { class: "stagefigure", data: { stagefigure: figure.key } },
    h("div", { class: "label" }, termLabel(wb, figure.label)),
    h("div", { class: `value ${figure.tone}` }, figure.text),
    h("div", { class: "sub" }, figure.note),
  );
}

/**
 * @param {Wb} wb
 * @param {BalanceWay} balance
 * @returns {HTMLElement}
 */
function drawBalance(wb, balance) {
  return h(
    "div",
    { class: "way" },
    h("button", {
      class: "btn",
      type: "button",
      ariaPressed: String(balance.on),
      data: { focus: `balance-${balance.key}`, balance: balance.key },
      onclick: () => sendStage(wb, balance.key),
    }, balance.label),
    h("span", { class: "muted" }, balance.note),
  );
}

/**
 * A refusal stays below the controls until it is dismissed or the next edit.
 * @param {Wb} wb
 * @param {Refusal | null} refusal
 * @param {number} seq
 */
export function paintStageRefusal(wb, refusal, seq) {
  const place = one(wb.root, ".refusedhere");
  if (!place) return;
  const mine = refusal?.zone === PIPELINE_ZONE ? refusal : null;
  const shown = mine ? `${seq}` : "";
  if ((place.dataset.told ?? "") === shown) return;
  place.dataset.told = shown;
  place.replaceChildren(...(mine ? [drawRefusal(wb, mine)] : []));
  const pipeline = around(place, ".pipeline");
  if (pipeline) pipelineIn.get(pipeline)?.restore();
}
