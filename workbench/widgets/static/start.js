// @ts-check
// The start panel: model, machines, and a row per layout that opens on the board.

import { drawProblem, h, keepingFocus, painter, withCode } from "./dom.js";
import { drawSizing } from "./sizing_answer.js";
import { drawConfigs, drawFunctions, drawLessons, drawRecent } from "./start_lists.js";
import { waitLine } from "./wait_line.js";
import { zooPicker } from "./zoo_picker.js";
/** @import { OpenStart, SizingAnswer, StartState } from "./types/start.d.ts" */
/** @import { Refusal } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

const MAX_FILE_BYTES = 1 << 20; // larger files are rejected unread

/**
 * @param {Wb} wb
 * @param {File | undefined} file
 */
async function readStartFile(wb, file) {
  if (!file) return;
  wb.send({ verb: "start_file", name: file.name, text: file.size > MAX_FILE_BYTES ? null : await file.text() });
}

/**
 * Opens a `config.json` or a plan, selected or dropped.
 * @param {Wb} wb
 * @param {HTMLElement} panel
 */
function fileDrop(wb, panel) {
  const picker = h("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    tabIndex: -1,
    ariaLabel: "config.json or plan file",
    data: { focus: "start-picker" },
    onchange: () => {
      readStartFile(wb, picker.files?.[0]);
      picker.value = "";
    },
  });
  const button = h(
    "button",
    { class: "btn", type: "button", data: { focus: "start-file" }, onclick: () => picker.click() },
    "Choose a file…",
  );
  panel.addEventListener("dragover", (event) => {
    event.preventDefault();
    panel.classList.add("receiving");
  });
  panel.addEventListener("dragleave", (event) => {
    if (!panel.contains(/** @type {Node | null} */ (event.relatedTarget))) panel.classList.remove("receiving");
  });
  panel.addEventListener("drop", (event) => {
    event.preventDefault();
    event.stopPropagation();
    panel.classList.remove("receiving");
    readStartFile(wb, event.dataTransfer?.files[0]);
  });
  return h(
    "div",
    { class: "filedrop" },
    h("span", {}, "Hugging Face ", h("code", {}, "config.json"), " or a plan file: drop it here, or"),
    button,
    picker,
  );
}

/**
 * The second step: machines and the step's input sizes.
 * @param {Wb} wb
 */
function machinesForm(wb) {
  const id = `machines-${wb.view}`, list = h("datalist", { id });
  /**
   * @param {string} name
   * @param {string} label
   * @param {string} placeholder
   */
  const typed = (name, label, placeholder) =>
    h("input", {
      class: "field",
      placeholder,
      ariaLabel: label,
      autocomplete: "off",
      spellcheck: false,
      maxLength: 200,
      data: { focus: `start-${name}` },
    });
  const on = typed("on", "machines", "64 H100, TPU v5p 4x4x4 …"),
    batch = typed("batch", "batch", "auto"),
    tokens = typed("tokens", "sequence", "auto"),
    total = typed("total", "tokens", "auto");
  on.setAttribute("list", id);
  const decode = h("input", { type: "checkbox", data: { focus: "start-decode" }, onchange: () => sendAll() });
  const sendAll = () =>
    wb.send({
      verb: "choose_machines",
      on: on.value,
      batch: batch.value,
      tokens: tokens.value,
      total: total.value,
      decode: decode.checked,
    });
  const quick = h("div", { class: "quick", role: "group", ariaLabel: "Machines" });
  const workload = h(
    "div",
    { class: "workload" },
    h("label", { title: "Sequences of a step, 512, or tokens, 4M" }, h("span", { class: "muted" }, "Batch"), batch),
    h("label", { title: "Tokens of a sequence, 8k or 8192" }, h("span", { class: "muted" }, "Sequence"), tokens),
    h("label", { title: "Tokens to train on, 2T; by default 20 per parameter" }, h("span", { class: "muted" }, "Tokens"), total),
    h("label", { class: "check" }, decode, h("span", {}, "Decoding step, not training")),
  );
  const submit = h("button", { class: "btn primary", type: "submit", data: { focus: "start-ask" } }, "Does it fit?");
  const form = h(
    "form",
    {
      class: "machines",
      ariaLabel: "Machines",
      onsubmit: (event) => {
        event.preventDefault();
        sendAll();
      },
    },
    h("div", { class: "line" }, on, submit),
    list,
    quick,
    workload,
  );
  /** @param {string} text */
  const take = (text) => {
    on.value = text;
    sendAll();
  };
  /** @type {Paint<{ machines: string[]; attached: boolean }>} */
  const paintQuick = painter(({ machines, attached }) => {
    const names = [...machines, ...(attached ? ["attached"] : [])];
    list.replaceChildren(...names.map((name) => h("option", { value: name })));
    quick.replaceChildren(
      ...names.map((name) =>
        h("button", {
          class: "btn small",
          type: "button",
          data: { focus: `on ${name}` },
          onclick: () => take(name),
        }, name === "attached" ? "This machine" : name)
      ),
    );
  });
  /** @type {Paint<{ on: string; batch: string; tokens: string; total: string; decode: boolean }>} */
  const paintValues = painter((state) => {
    on.value = state.on;
    batch.value = state.batch;
    tokens.value = state.tokens;
    total.value = state.total;
    decode.checked = state.decode;
  });
  /** @param {OpenStart} state */
  const paint = (state) => {
    paintQuick({ machines: state.machines, attached: state.attached });
    paintValues({ on: state.on, batch: state.batch, tokens: state.tokens, total: state.total, decode: state.decode });
    workload.hidden = !!state.model && !state.model.sized;
  };
  return { form, on, paint };
}

/** @param {Wb} wb */
export function startSection(wb) {
  const section = h("section", { class: "start", ariaLabel: "New plan", hidden: true });
  const zoo = zooPicker(wb), machines = machinesForm(wb), wait = waitLine(wb, "stop_start");
  const chosen = h("div", { class: "chosen-model", hidden: true }), choices = h("div", { class: "model-choices" });
  const inFolder = h("div", { class: "functions" }), answer = h("div", { class: "sizing" }), problem = h("div", { class: "problem" });
  const recent = h("div", { class: "recent" }), lessons = h("div", { class: "lessons" });
  const back = h(
    "button",
    { class: "btn", type: "button", data: { focus: "start-back" }, onclick: () => wb.send({ verb: "new_plan", open: false }) },
    "Go to the board",
  );
  const title = h("h1", {});
  const two = h(
    "div",
    { class: "two-choices" },
    h("div", { class: "start-step" }, h("h2", {}, "1 Model"), chosen, choices),
    h("div", { class: "start-step" }, h("h2", {}, "2 Machines"), machines.form, problem, wait.element, answer),
  );
  choices.append(zoo.search, zoo.list, zoo.none, fileDrop(wb, section), inFolder);
  section.append(
    h("header", {}, title, back),
    two,
    h("footer", {}, recent, lessons),
  );
  /** @type {Paint<OpenStart["model"]>} */
  const paintChosen = painter((model) => {
    chosen.hidden = !model;
    choices.hidden = !!model;
    if (!model) return chosen.replaceChildren();
    const other = h("button", {
      class: "btn small",
      type: "button",
      data: { focus: "start-other" },
      onclick: () => wb.send({ verb: "choose_model", model: "" }),
    }, "Choose another");
    chosen.replaceChildren(h("b", {}, model.title), h("span", { class: "muted" }, ...withCode(model.about)), other);
    machines.on.focus({ preventScroll: true });
  });
  /** @type {Paint<SizingAnswer | null>} */
  const paintAnswer = painter((state) =>
    keepingFocus(wb.root, answer, () => answer.replaceChildren(...(state ? drawSizing(wb, state) : [])))
  );
  /** @type {Paint<{ failure: { message: string; ways_out: string[] } | null; missing: string; seq: number }>} */
  const paintProblem = painter(({ failure, missing }) =>
    problem.replaceChildren(
      ...(failure ? [h("div", { class: "told bad", role: "alert" }, ...drawProblem(failure).filter((node) => node !== null))] : []),
      ...(missing && !failure ? [h("p", { class: "muted", role: "status" }, missing)] : []),
    )
  );
  /** @type {Paint<Pick<OpenStart, "configs" | "functions">>} */
  const paintFolder = painter((state) =>
    inFolder.replaceChildren(...drawConfigs(wb, state.configs), ...drawFunctions(wb, state.functions))
  );
  /** @type {Paint<OpenStart["recent"]>} */
  const paintRecent = painter((state) => recent.replaceChildren(...drawRecent(state)));
  /** @type {Paint<{ courses: OpenStart["lessons"]; alone: boolean }>} */
  const paintLessons = painter(({ courses, alone }) => {
    two.hidden = recent.hidden = alone;
    lessons.classList.toggle("alone", alone);
    title.textContent = alone ? "Lessons" : "What do you want to shard?";
    lessons.replaceChildren(...drawLessons(wb, courses, alone));
  });
  /**
   * @param {StartState | null} state
   * @param {Refusal | null} refusal
   * @param {number} seq
   */
  const paint = (state, refusal, seq) => {
    const isOpen = Boolean(state?.open), opened = isOpen && section.hidden;
    section.hidden = !isOpen;
    wb.root.dataset.starting = String(isOpen);
    if (!state?.open) return wait.paint(null);
    zoo.paint({ zoo: state.zoo, abouts: state.abouts });
    machines.paint(state);
    paintChosen(state.model);
    paintFolder({ configs: state.configs, functions: state.functions });
    paintRecent(state.recent);
    paintLessons({ courses: state.lessons, alone: state.only_lessons });
    paintProblem({ failure: refusal ?? state.problem, missing: state.missing, seq });
    wait.paint(state.work);
    paintAnswer(state.answer);
    section.dataset.waiting = String(Boolean(state.work));
    if (opened) setTimeout(() => (state.model ? machines.on : zoo.search).focus({ preventScroll: true })); // after the panel is attached
  };
  return { section, paint };
}
