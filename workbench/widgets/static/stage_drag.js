// @ts-check
// Drags the boundaries between pipeline stages: blocks move locally during the drag, and Python is told on release.

import { all, around, h, keepingFocus, targetOf } from "./dom.js";
import { PIPELINE_ZONE, sendStage } from "./stage_controls.js";
import { blockHeight, drawColumns, drawSkips, drawStageHead } from "./stage_draw.js";
import { boundsOf, movedStarts, nearestEdge } from "./stage_edges.js";
/** @import { BoundaryInHand, StageBoard } from "./types/pipeline.d.ts" */
/** @import { Block } from "./types/table_cells.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/** @type {StageBoard} */
const NO_STAGES = { blocks: [], starts: [], stages: 1, chunks: 1, pieces: [], heads: [], skips: [], even: "" };

/** Blocks that a key moves a boundary. @type {Record<string, number>} */
const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 4, PageUp: -4, Home: -Infinity, End: Infinity };

/**
 * The stages and their blocks. `preview` shows the figures of the boundary being dragged.
 * @param {Wb} wb
 * @param {(blocks: Block[]) => void} preview
 */
export function stageColumns(wb, preview) {
  const columns = h("div", { class: "columns" }), skips = h("div", { class: "skips" });
  const element = h("div", { class: "stageboard", role: "group", ariaLabel: "Stages and their blocks" }, columns);
  /** @type {StageBoard} */
  let state = NO_STAGES;
  /** @type {number[]} */
  let starts = [];
  const draw = () => keepingFocus(wb.root, columns, () => columns.replaceChildren(...drawColumns(state, starts)));
  /** @param {StageBoard} next */
  const paint = (next) => {
    state = next;
    starts = [...next.starts];
    draw();
    skips.replaceChildren(...drawSkips(state));
  };
  const restore = (anyway = false) => {
    if (!anyway && `${starts}` === `${state.starts}`) return;
    starts = [...state.starts];
    draw();
  };
  /**
   * @param {number} piece
   * @param {number} to
   * @returns {boolean}
   */
  const move = (piece, to) => {
    const moved = movedStarts(starts, state.blocks.length, piece, to);
    if (moved === starts) return false;
    starts = moved;
    draw();
    return true;
  };
  /** @param {number} piece */
  const pathOf = (piece) => state.blocks[starts[piece - 1]].path;
  /** @param {number} piece */
  const say = (piece) => wb.say(`${state.pieces[piece].name} begins at ${pathOf(piece)}`);
  /** @param {number} piece */
  const send = (piece) => {
    wb.placed = true;
    sendStage(wb, "boundary", `${piece} ${pathOf(piece)}`);
  };

  columns.addEventListener("pointerdown", (event) => {
    const edge = around(targetOf(event), ".boundary");
    if (!edge || event.button) return;
    event.preventDefault();
    edge.focus({ preventScroll: true });
    const piece = Number(edge.dataset.piece);
    dragBoundary(wb, columns, event, {
      piece,
      state,
      start: () => starts[piece - 1],
      bounds: () => boundsOf(starts, state.blocks.length, piece),
      move: (to) => move(piece, to),
      send: () => send(piece),
      restore: () => restore(true),
      preview,
    });
  });
  columns.addEventListener("keydown", (event) => {
    const edge = around(targetOf(event), ".boundary");
    const step = STEPS[event.key];
    if (!edge || !step) return;
    event.preventDefault();
    const piece = Number(edge.dataset.piece);
    if (move(piece, starts[piece - 1] + step)) {
      say(piece);
      send(piece);
    } else wb.say("End of range: each stage keeps at least one block.");
  });
  /** @param {StageBoard} next */
  const heads = (next) =>
    all(columns, ".stagehead").forEach((head, device) => {
      if (next.heads[device]) head.replaceWith(drawStageHead(next.heads[device]));
    });
  return { element, skips, paint, heads, restore };
}

/**
 * The columns capture the pointer, because each step redraws the edge.
 * @param {Wb} wb
 * @param {HTMLElement} columns
 * @param {PointerEvent} event
 * @param {BoundaryInHand} boundary
 */
function dragBoundary(wb, columns, event, { piece, state, start, bounds, move, send, restore, preview }) {
  const first = start(), heights = state.blocks.map((block) => blockHeight(block)), from = event.clientY;
  /** @type {number | null} */
  let requested = null; // start of the last preview request
  const tries = () => {
    if (wb.root.dataset.busy === "true" || start() === (requested ?? first)) return;
    requested = start();
    wb.send({ verb: "try_boundary", value: `${piece} ${state.blocks[requested].path}`, zone: PIPELINE_ZONE });
  };
  wb.whileDragging = (table) => {
    preview(table.blocks);
    tries();
  };
  wb.dragging = true;
  columns.classList.add("dragging");
  columns.setPointerCapture(event.pointerId);
  const stop = new AbortController();
  /** @param {Event} last */
  const end = (last) => {
    stop.abort();
    wb.dragging = false;
    wb.whileDragging = null;
    columns.classList.remove("dragging");
    if (last.type === "pointerup" && start() !== first) send();
    else {
      restore();
      if (requested !== null) wb.send({ verb: "try_boundary", value: "", zone: PIPELINE_ZONE });
    }
    wb.paint();
  };
  columns.addEventListener("pointermove", (now) => {
    if (move(nearestEdge(heights, first, bounds(), now.clientY - from))) tries();
  }, { signal: stop.signal });
  columns.addEventListener("pointerup", end, { signal: stop.signal });
  columns.addEventListener("pointercancel", end, { signal: stop.signal });
  document.addEventListener("keydown", (key) => {
    if (key.key === "Escape") {
      key.preventDefault();
      end(key);
    }
  }, { signal: stop.signal, capture: true });
}
