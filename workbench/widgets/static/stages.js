// The stage board: what is chosen of a pipeline, its figures, and a column a stage with its blocks. Python decides; `value`s are sent as they came.

const PIPELINE_ZONE = "#pipeline"; // as in stage_edits.py

function sendStage(wb, change, value = "") { wb.send({ verb: "pipeline", change, value: String(value), zone: PIPELINE_ZONE }); }

// The place is kept while the tab is open: its parts are painted apart, so that what did not change keeps the hand and the focus.
function paintPipeline(wb, place, state) {
  place.parts ??= makePipeline(wb, place);
  place.dataset.kind = state.kind;
  place.parts.forEach((paint) => paint(state));
}

function makePipeline(wb, place) {
  const controls = h("div", { class: "controls" }), refused = h("div", { class: "refusedhere" }), first = h("div", { class: "invitation" });
  const figures = h("div", { class: "stagefigures" }), problem = h("div", { class: "failure", role: "alert", hidden: true });
  const board = stageColumns(wb), gantt = ganttChart(wb);
  const balances = h("div", { class: "balances", role: "group", ariaLabel: "Where the boundaries lie" });
  const below = h("div", { class: "below" }, balances, board.skips);
  place.replaceChildren(first, controls, refused, problem, figures, board.element, below, gantt.element);
  const part = (element, shown, pick, draw) => { // painted when what it shows is new
    const paint = painter(draw);
    return (state) => { element.hidden = state.kind !== shown && !(shown === "any" && state.kind !== "none"); if (!element.hidden) paint(pick(state)); };
  };
  const paintFigures = part(figures, "pipeline", ({ figures: all, nominal }) => ({ all, nominal }), ({ all, nominal }) => figures.replaceChildren(...all.map((each) => drawStageFigure(wb, each)), nominal ? h("p", { class: "muted nominal" }, nominal) : ""));
  const paintBoard = part(board.element, "pipeline", (state) => state.board, board.paint);
  const paintGantt = part(gantt.element, "pipeline", (state) => state.timeline, gantt.paint);
  place.preview = (state) => { // while a boundary is in the hand
    if (state?.kind !== "pipeline") return;
    paintFigures(state);
    board.heads(state.board);
    paintGantt(state);
  };
  return [
    part(first, "none", ({ about, problem: wrong, button }) => ({ about, problem: wrong, button }), (state) => drawInvitation(wb, first, state)),
    part(controls, "any", (state) => state.controls, (all) => keepingFocus(wb.root, controls, () => controls.replaceChildren(...all.map((each) => drawControl(wb, each)), drawRemove(wb)))),
    part(problem, "broken", (state) => state.problem, (wrong) => problem.replaceChildren(...drawProblem(wrong).filter(Boolean))),
    paintFigures,
    part(below, "pipeline", (state) => state.balances, (all) => keepingFocus(wb.root, balances, () => balances.replaceChildren(...all.map((each) => drawBalance(wb, each))))),
    (state) => { if (!wb.placed) paintBoard(state); }, // a boundary stays where it was put until the table of its answer is here
    paintGantt,
  ];
}

function drawInvitation(wb, parent, { about, problem, button }) {
  parent.replaceChildren(h("h3", {}, "No pipeline yet"),
    h("p", {}, "A pipeline cuts the layers into stages on devices of their own, and sends the batch through them in micro-batches."),
    h("p", { class: "muted" }, ...withCode(about)),
    problem ? h("div", { class: "failure" }, ...drawProblem(problem)) : "",
    button ? h("button", { class: "btn primary", type: "button", data: { focus: "pipeline-make" }, onclick: () => sendStage(wb, "make") }, button) : "");
}

function drawRemove(wb) {
  return h("button", { class: "btn remove", type: "button", data: { focus: "pipeline-remove" }, title: "The step is not pipelined any more; the mesh axis of the stages goes with it.", onclick: () => sendStage(wb, "remove") }, "Remove pipeline");
}

function drawControl(wb, control) {
  const id = `stage-${control.key}-${wb.idOf ??= Math.random().toString(36).slice(2)}`;
  const made = { number: stageNumber, select: stageSelect, menu: stageMenu, slider: stageSlider, choice: stageChoice }[control.kind](wb, control, id);
  return h("div", { class: `control by-${control.kind}`, data: { control: control.key } }, h("label", { class: "label", id: `${id}-label`, htmlFor: id }, termLabel(wb, control.label)), ...made);
}

function stageNumber(wb, control, id) {
  const input = h("input", {
    id, class: "field", value: control.value, inputMode: "numeric", data: { focus: id }, onchange: () => sendStage(wb, control.key, input.value),
    onkeydown: (event) => { if (event.key === "Escape") { input.value = control.value; input.blur(); } else step(event); },
  });
  const by = (change) => sendStage(wb, control.key, Math.max(1, Number(control.value) + change));
  const step = (event) => { const change = { ArrowUp: 1, ArrowDown: -1 }[event.key]; if (change) { event.preventDefault(); by(change); } };
  const button = (sign, change, name) => h("button", { class: "btn icon", type: "button", ariaLabel: name, disabled: (change < 0 && Number(control.value) <= 1) || (change > 0 && control.most > 0 && Number(control.value) >= control.most), data: { focus: `${id}${sign}` }, onclick: () => by(change) }, sign);
  return [h("span", { class: "stepper" }, button("−", -1, `fewer ${control.label.toLowerCase()}`), input, button("+", 1, `more ${control.label.toLowerCase()}`))];
}

function stageSelect(wb, control, id) {
  const select = h("select", { id, class: "field", data: { focus: id }, onchange: () => sendStage(wb, control.key, select.value) },
    ...control.options.map((each) => h("option", { value: each.value, selected: each.value === control.value, title: each.note }, each.label)));
  return [select];
}

// A menu, for each schedule has a sentence of its own.
function stageMenu(wb, control, id) {
  const now = control.options.find((each) => each.value === control.value);
  const items = control.options.map((each) => ({ label: each.label, note: each.note, gesture: { verb: "pipeline", change: control.key, value: each.value, zone: PIPELINE_ZONE } }));
  const button = h("button", { id, class: "field open", type: "button", ariaHasPopup: "menu", data: { focus: id }, onclick: () => { openMenu(wb, button, items); wb.menu?.element.classList.add("sentences"); } }, now.label, h("span", { ariaHidden: "true" }, "▾"));
  button.setAttribute("aria-labelledby", `${id}-label ${id}`);
  return [button, h("span", { class: "muted says" }, now.note)];
}

// Only what divides the batch is on the slider.
function stageSlider(wb, control, id) {
  const values = control.options.map((each) => each.value), at = values.indexOf(control.value);
  const shown = h("output", { class: "mono" }, control.value);
  const say = () => { const value = values[range.value]; shown.textContent = value; range.setAttribute("aria-valuetext", value); };
  const range = h("input", { id, type: "range", min: "0", max: String(values.length - 1), step: "1", data: { focus: id }, oninput: say, onchange: () => sendStage(wb, control.key, values[range.value]) });
  range.value = String(at);
  say();
  return [h("span", { class: "slide" }, range, shown)];
}

function stageChoice(wb, control, id) {
  const radio = (each) => h("label", { title: each.note }, h("input", { type: "radio", name: id, value: each.value, checked: each.value === control.value, data: { focus: `${id}-${each.value}` }, onchange: () => sendStage(wb, control.key, each.value) }), h("span", {}, each.label));
  const group = h("span", { class: "segments", role: "radiogroup" }, ...control.options.map(radio));
  group.setAttribute("aria-labelledby", `${id}-label`);
  return [group];
}

function drawStageFigure(wb, figure) {
  return h("div", { class: "stagefigure", data: { stagefigure: figure.key } }, h("div", { class: "label" }, termLabel(wb, figure.label)), h("div", { class: `value ${figure.tone}` }, figure.text), h("div", { class: "sub" }, figure.note));
}

function drawBalance(wb, each) {
  return h("div", { class: "way" }, h("button", { class: "btn", type: "button", ariaPressed: String(each.on), data: { focus: `balance-${each.key}`, balance: each.key }, onclick: () => sendStage(wb, each.key) }, each.label), h("span", { class: "muted" }, each.note));
}

// What was refused stands under the controls until it is dismissed or something else is done.
function paintStageRefusal(wb, refusal, seq) {
  const place = wb.root.querySelector(".refusedhere");
  if (!place) return;
  const mine = refusal?.zone === PIPELINE_ZONE ? refusal : null;
  const told = mine ? `${seq}` : "";
  if (place.told === told) return;
  place.told = told;
  place.replaceChildren(...(mine ? [drawRefusal(wb, mine)] : []));
  place.closest(".pipeline")?.querySelector(".columns")?.restore?.();
}
