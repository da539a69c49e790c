// Columns of blocks, and the boundaries between them: the lower edge of each piece, pulled down it takes blocks of the next one, pushed up it
// gives some away. While it is in the hand blocks move here; where it was let go, Python is told.

const EVEN_PX = 168; // height of an even share of the work
const LEAST_NAMED = 15, LEAST_PX = 3;

function stageColumns(wb) {
  const columns = h("div", { class: "columns" }), skips = h("div", { class: "skips" });
  const element = h("div", { class: "stageboard", role: "group", ariaLabel: "Stages and their blocks" }, columns);
  let state = null, starts = [];
  const draw = () => keepingFocus(wb.root, columns, () => columns.replaceChildren(...drawColumns(wb, state, starts)));
  const paint = (told) => {
    state = told;
    starts = [...told.starts];
    draw();
    skips.replaceChildren(...drawSkips(state));
  };
  columns.restore = (anyway = false) => { if (state && (anyway || `${starts}` !== `${state.starts}`)) { starts = [...state.starts]; draw(); } };
  const bounds = (piece) => [(starts[piece - 2] ?? 0) + 1, (starts[piece] ?? state.blocks.length) - 1];
  const move = (piece, to) => {
    const [least, most] = bounds(piece), start = Math.max(least, Math.min(most, to));
    if (start === starts[piece - 1]) return false;
    starts[piece - 1] = start;
    draw();
    return true;
  };
  const say = (piece) => wb.say(`${state.pieces[piece].name} begins at ${state.blocks[starts[piece - 1]].path}`);
  const send = (piece) => { wb.placed = true; sendStage(wb, "boundary", `${piece} ${state.blocks[starts[piece - 1]].path}`); };

  columns.addEventListener("pointerdown", (event) => {
    const edge = event.target.closest(".boundary");
    if (!edge || event.button) return;
    event.preventDefault();
    edge.focus({ preventScroll: true });
    dragBoundary({ wb, columns, piece: Number(edge.dataset.piece), event, state, starts: () => starts, bounds, move, send, restore: columns.restore });
  });
  columns.addEventListener("keydown", (event) => {
    const edge = event.target.closest(".boundary");
    const piece = edge && Number(edge.dataset.piece);
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 4, PageUp: -4, Home: -Infinity, End: Infinity }[event.key];
    if (!edge || !step) return;
    event.preventDefault();
    if (move(piece, starts[piece - 1] + step)) { say(piece); send(piece); } else wb.say("It can go no farther: each stage keeps one block.");
  });
  const heads = (told) => columns.querySelectorAll(".stagehead").forEach((head, device) => { if (told.heads[device]) head.replaceWith(drawStageHead(wb, told.heads[device])); });
  return { element, skips, paint, heads };
}

// The columns hold the pointer, not the edge: that is drawn anew at each step.
function dragBoundary({ wb, columns, piece, event: start, state, starts, bounds, move, send, restore }) {
  const first = starts()[piece - 1], heights = state.blocks.map((block) => blockHeight(block));
  let asked = null; // the start that Python was last asked to try
  const tries = () => {
    if (wb.root.dataset.busy === "true" || starts()[piece - 1] === (asked ?? first)) return;
    asked = starts()[piece - 1];
    wb.send({ verb: "try_boundary", value: `${piece} ${state.blocks[asked].path}`, zone: PIPELINE_ZONE });
  };
  wb.whileDragging = (table) => { columns.closest(".pipeline")?.preview(table.blocks[0]?.stages); tries(); };
  wb.dragging = true;
  columns.classList.add("dragging");
  columns.setPointerCapture(start.pointerId);
  const stop = new AbortController();
  const target = (down) => { // the block whose edge is nearest to where the hand is
    const [least, most] = bounds(piece);
    let at = first, gone = 0;
    while (down > 0 && at < most && gone + heights[at] / 2 < down) gone += heights[at++];
    while (down < 0 && at > least && gone + heights[at - 1] / 2 < -down) gone += heights[--at];
    return at;
  };
  const end = (event) => {
    stop.abort();
    wb.dragging = false;
    wb.whileDragging = null;
    columns.classList.remove("dragging");
    if (event.type === "pointerup" && starts()[piece - 1] !== first) send(piece);
    else {
      restore(true);
      if (asked !== null) wb.send({ verb: "try_boundary", value: "", zone: PIPELINE_ZONE });
    }
    wb.paint();
  };
  columns.addEventListener("pointermove", (event) => { if (move(piece, target(event.clientY - start.clientY))) tries(); }, { signal: stop.signal });
  columns.addEventListener("pointerup", end, { signal: stop.signal });
  columns.addEventListener("pointercancel", end, { signal: stop.signal });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.preventDefault(); end(event); } }, { signal: stop.signal, capture: true });
}

const blockHeight = (block) => Math.max(block.height * EVEN_PX, LEAST_PX);

function drawColumns(wb, state, starts) {
  const bounds = [0, ...starts, state.blocks.length];
  return state.heads.map((head, device) => {
    const pieces = state.pieces.map((_, piece) => piece).filter((piece) => piece % state.stages === device);
    return h("div", { class: "column", role: "group", ariaLabel: head.name, data: { stage: String(device) } }, drawStageHead(wb, head),
      h("div", { class: "pieces" }, ...pieces.map((piece) => drawPiece(state, piece, bounds[piece], bounds[piece + 1]))));
  });
}

function drawStageHead(wb, head) {
  return h("div", { class: "stagehead" }, h("div", { class: "stagename" }, head.name),
    h("dl", {}, ...head.facts.map((fact) => h("div", { title: fact.title, data: { fact: fact.label } }, h("dt", {}, fact.label), h("dd", { class: fact.tone }, fact.text)))));
}

function drawPiece(state, piece, from, to) {
  const next = state.pieces[piece + 1];
  const blocks = state.blocks.slice(from, to);
  const edge = next && h("div", {
    class: "boundary", role: "separator", tabIndex: 0, title: "Drag, or press the arrow keys",
    ariaLabel: `boundary between ${state.pieces[piece].name} and ${next.name}`, ariaValueNow: String(to), ariaValueMin: "1", ariaValueMax: String(state.blocks.length - 1),
    ariaValueText: `${next.name} begins at ${state.blocks[to].path}`, ariaOrientation: "horizontal", data: { piece: String(piece + 1), focus: `boundary-${piece + 1}` },
  }, h("i", {}));
  return h("div", { class: "piece", data: { piece: String(piece) } }, state.chunks > 1 ? h("div", { class: "chunk" }, `chunk ${Math.floor(piece / state.stages)}`) : null,
    ...folded(blocks).map(drawRun), edge);
}

// Neighbours that are too low for a name of their own have one together: layers apart from what is none of them.
function folded(blocks) {
  const runs = [];
  for (const block of blocks) {
    const low = blockHeight(block) < LEAST_NAMED, last = runs.at(-1);
    if (low && last?.low && (last.blocks[0].alike === block.alike || (!last.blocks[0].alike.includes("*") && !block.alike.includes("*")))) last.blocks.push(block);
    else runs.push({ low, blocks: [block] });
  }
  return runs;
}

function drawRun({ low, blocks }) {
  const slices = blocks.map((block) => {
    const slice = h("div", { class: "block1", title: block.title, data: { block: block.path } }, low ? "" : h("span", {}, block.path));
    slice.style.height = `${blockHeight(block)}px`;
    return slice;
  });
  if (!low) return slices[0];
  const tall = blocks.reduce((sum, block) => sum + blockHeight(block), 0) >= LEAST_NAMED;
  const [one, end] = [blocks[0].path, blocks.at(-1).path];
  const name = blocks.length > 1 ? (blocks[0].alike === blocks.at(-1).alike ? `${one}–${end.slice(end.lastIndexOf("/") + 1)}` : `${one} … ${end}`) : one;
  return h("div", { class: "run1" }, ...slices, tall ? h("span", { class: "runname" }, name) : null);
}

function drawSkips(state) {
  if (!state.skips.length) return [];
  return [h("span", { class: "label" }, "Skips "), ...state.skips.map((skip) => h("span", { class: "skip", title: `of one micro-batch, straight from ${skip.from} to ${skip.to}` }, `${skip.from} → ${skip.to} `, h("b", {}, skip.text)))];
}
