// @ts-check
// Draws a column per stage, with its pieces and the boundaries between them.

import { h } from "./dom.js";
/** @import { Run, StageBlock, StageBoard, StageHead } from "./types/pipeline.d.ts" */

const EVEN_PX = 168; // height of an even share of the work
const MIN_LABEL_PX = 15, MIN_PX = 3;

/**
 * @param {Pick<StageBlock, "height">} block
 * @returns {number}
 */
export const blockHeight = (block) => Math.max(block.height * EVEN_PX, MIN_PX);

/**
 * @param {StageBoard} state
 * @param {number[]} starts
 * @returns {HTMLElement[]}
 */
export function drawColumns(state, starts) {
  const bounds = [0, ...starts, state.blocks.length];
  return state.heads.map((head, device) => {
    const pieces = state.pieces.map((_, piece) => piece).filter((piece) => state.pieces[piece].stage === device);
    return h(
      "div",
      { class: "column", role: "group", ariaLabel: head.name, data: { stage: String(device) } },
      drawStageHead(head),
      h("div", { class: "pieces" }, ...pieces.map((piece) => drawPiece(state, piece, bounds[piece], bounds[piece + 1]))),
    );
  });
}

/**
 * @param {StageHead} head
 * @returns {HTMLElement}
 */
export function drawStageHead(head) {
  return h(
    "div",
    { class: "stagehead" },
    h("div", { class: "stagename" }, head.name),
    h(
      "dl",
      {},
      ...head.facts.map((fact) =>
        h("div", { title: fact.title, data: { fact: fact.label } }, h("dt", {}, fact.label), h("dd", { class: fact.tone }, fact.text))
      ),
    ),
  );
}

/**
 * @param {StageBoard} state
 * @param {number} piece
 * @param {number} from
 * @param {number} to
 * @returns {HTMLElement}
 */
function drawPiece(state, piece, from, to) {
  const next = state.pieces[piece + 1];
  const blocks = state.blocks.slice(from, to);
  const edge = next && h("div", {
    class: "boundary",
    role: "separator",
    tabIndex: 0,
    title: "Drag, or press the arrow keys",
    ariaLabel: `boundary between ${state.pieces[piece].name} and ${next.name}`,
    ariaValueNow: String(to),
    ariaValueMin: "1",
    ariaValueMax: String(state.blocks.length - 1),
    ariaValueText: `${next.name} begins at ${state.blocks[to].path}`,
    ariaOrientation: "horizontal",
    data: { piece: String(piece + 1), focus: `boundary-${piece + 1}` },
  }, h("i", {}));
  return h(
    "div",
    { class: "piece", data: { piece: String(piece) } },
    state.chunks > 1 ? h("div", { class: "chunk" }, `chunk ${Math.floor(piece / state.stages)}`) : null,
    ...mergeLow(blocks).map(drawRun),
    edge,
  );
}

/**
 * Merges neighbours too low for a label; layers and other blocks are merged separately.
 * @param {StageBlock[]} blocks
 * @returns {Run[]}
 */
function mergeLow(blocks) {
  const runs = [];
  for (const block of blocks) {
    const low = blockHeight(block) < MIN_LABEL_PX, last = runs.at(-1);
    if (low && last?.low && (last.blocks[0].alike === block.alike || (!last.blocks[0].alike.includes("*") && !block.alike.includes("*")))) {
      last.blocks.push(block);
    } else runs.push({ low, blocks: [block] });
  }
  return runs;
}

/**
 * @param {Run} run
 * @returns {HTMLElement}
 */
function drawRun({ low, blocks }) {
  const slices = blocks.map((block) => {
    const slice = h("div", { class: "block1", title: block.title, data: { block: block.path } }, low ? "" : h("span", {}, block.path));
    slice.style.height = `${blockHeight(block)}px`;
    return slice;
  });
  if (!low) return slices[0];
  const tall = blocks.reduce((sum, block) => sum + blockHeight(block), 0) >= MIN_LABEL_PX;
  const [one, end] = [blocks[0].path, blocks[blocks.length - 1].path];
  const name = blocks.length > 1
    ? (blocks[0].alike === blocks[blocks.length - 1].alike ? `${one}–${end.slice(end.lastIndexOf("/") + 1)}` : `${one} … ${end}`)
    : one;
  return h("div", { class: "run1" }, ...slices, tall ? h("span", { class: "runname" }, name) : null);
}

/**
 * @param {StageBoard} state
 * @returns {HTMLElement[]}
 */
export function drawSkips(state) {
  if (!state.skips.length) return [];
  return [
    h("span", { class: "label" }, "Skips "),
    ...state.skips.map((skip) =>
      h(
        "span",
        { class: "skip", title: `of one micro-batch, straight from ${skip.from} to ${skip.to}` },
        `${skip.from} → ${skip.to} `,
        h("b", {}, skip.text),
      )
    ),
  ];
}
