// @ts-check
// An exercise over the board: question, live goals, answer form and verdict, all judged by Python.

import { h, keepingFocus, painter, the, withCode } from "./dom.js";
import { drawRefusal } from "./popup.js";
/** @import { ExerciseGoal, ExerciseState, Refusal } from "./types/states.d.ts" */
/** @import { Kid, Paint, Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {ExerciseState["questions"][number]} question
 * @returns {HTMLElement}
 */
function drawStep(wb, question) {
  return h("button", {
    class: question.open ? "step open" : "step",
    type: "button",
    ariaCurrent: question.open ? "step" : null,
    ariaLabel: `Question ${question.label}, ${question.name}${question.done ? ", answered" : ""}`,
    title: question.name,
    data: { focus: `question ${question.name}`, done: question.done },
    onclick: () => wb.send({ verb: "question", name: question.name }),
  }, question.done ? "✓" : question.label);
}

/** @type {Record<string, [string, string]>} */
const MARKS = { true: ["✓", "met"], false: ["✗", "missed"], null: ["○", "not known yet"] };

/**
 * @param {ExerciseGoal} goal
 * @returns {HTMLElement}
 */
function drawGoal(goal) {
  const [mark, word] = MARKS[String(goal.met)];
  return h(
    "li",
    { class: "goal", data: { met: String(goal.met) } },
    h("span", { class: "tick", role: "img", ariaLabel: word }, mark),
    h("div", {}, h("div", {}, ...withCode(goal.text)), goal.reason && h("div", { class: "muted" }, ...withCode(goal.reason))),
  );
}

/**
 * @param {ExerciseState} state
 * @returns {HTMLElement[]}
 */
function drawChoices(state) {
  return state.choices.map((choice, place) =>
    h(
      "label",
      { class: "choice" },
      h("input", {
        type: state.several ? "checkbox" : "radio",
        name: `choice ${state.name}`,
        value: String(place + 1),
        data: { focus: `choice ${place}` },
      }),
      h("span", {}, ...withCode(choice)),
    )
  );
}

/**
 * The answer in the form: text, or the numbers of the selected options.
 * @param {HTMLFormElement} form
 * @returns {string}
 */
function answerOf(form) {
  const chosen = [.../** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll("input:checked"))];
  const typed = /** @type {HTMLInputElement | null} */ (form.querySelector("input.field"));
  return typed ? typed.value : chosen.map((option) => option.value).join(" ");
}

/**
 * @param {Wb} wb
 * @param {ExerciseState} state
 * @returns {HTMLElement}
 */
function drawForm(wb, state) {
  const field = state.kind !== "number" ? null : h("input", {
    class: "field",
    ariaLabel: "your answer",
    placeholder: "your answer",
    maxLength: 200,
    data: { focus: "exercise answer" },
  });
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        if (!state.checking) wb.send({ verb: "answer_question", answer: answerOf(form) });
      },
    },
    ...drawChoices(state),
    h(
      "div",
      { class: "buttons" },
      field,
      h("button", {
        class: "btn primary",
        type: "submit",
        ariaDisabled: String(state.checking),
        title: state.kind === "plan" ? "Check the plan on the board, also at other sizes" : "Check the answer",
        data: { focus: "exercise check", verb: "answer_question" },
      }, state.checking ? "Checking…" : "Check"),
      state.kind !== "plan" ? null : h("button", {
        class: "btn",
        type: "button",
        title: "Load the plan that the question starts from (undo to go back)",
        data: { focus: "exercise start", verb: "start_question" },
        onclick: () => wb.send({ verb: "start_question" }),
      }, "Restart"),
      h("span", { class: "muted" }, ...withCode(state.how)),
    ),
  );
  return form;
}

/**
 * @param {ExerciseState["verdict"]} verdict
 * @returns {Kid}
 */
function drawVerdict(verdict) {
  if (!verdict) return null;
  return h(
    "div",
    { class: verdict.right ? "verdict right" : "verdict", role: "status", data: { right: verdict.right } },
    h("b", {}, verdict.text),
    h("span", { class: "muted" }, ` ${verdict.score && `${verdict.score}, `}try ${verdict.attempt}`),
    verdict.why ? h("p", { class: "why" }, ...withCode(verdict.why)) : null,
    verdict.reasons.length ? h("ul", {}, ...verdict.reasons.map((reason) => h("li", {}, ...withCode(reason)))) : null,
    ...verdict.hints.map((hint) => h("p", { class: "hint" }, "Hint: ", ...withCode(hint))),
  );
}

/**
 * @param {Wb} wb
 * @param {ExerciseState["next"]} next
 * @returns {Kid}
 */
function drawNext(wb, next) {
  if (!next) return null;
  const data = { focus: "exercise next" };
  return next.link ? h("a", { class: "btn primary next", href: next.link, data }, next.label) : h("button", {
    class: "btn primary next",
    type: "button",
    data,
    onclick: () => wb.send({ verb: "question", name: next.question }),
  }, next.label);
}

/** @param {Wb} wb */
export function exerciseSection(wb) {
  const body = h("div", { class: "body" });
  const section = h("section", { class: "exercise", ariaLabel: "Exercise", hidden: true }, body);
  /** @type {Paint<{ state: ExerciseState | null; refusal: Refusal | null; seq: number }>} */
  const paint = painter(({ state, refusal }) => {
    section.hidden = !state;
    if (!state) return;
    const before = body.querySelector("form"), kept = section.dataset.name === state.name && before ? answerOf(before) : "";
    section.dataset.name = state.name;
    keepingFocus(wb.root, body, () => {
      const form = drawForm(wb, state);
      body.replaceChildren(
        h(
          "header",
          {},
          h("h2", {}, state.title),
          h("nav", { ariaLabel: "Questions" }, ...state.questions.map((question) => drawStep(wb, question))),
        ),
        h("div", { class: "ask" }, ...state.ask.split("\n\n").map((line) => h("p", {}, ...withCode(line)))),
        ...[state.about && h("p", { class: "bad" }, ...withCode(state.about))].filter(Boolean),
        h("ul", { class: "goals" }, ...state.goals.map(drawGoal)),
        ...(state.predicting ? [h("p", { class: "muted" }, "Figures and charts are hidden until your predictions are correct.")] : []),
        form,
        ...[drawVerdict(state.verdict), drawNext(wb, state.next), refusal && drawRefusal(wb, refusal)].filter((node) =>
          node instanceof Node
        ),
      );
      restoreAnswer(form, kept);
    });
  });
  return { section, paint };
}

/**
 * Keeps what was typed or selected while the plan changes.
 * @param {HTMLElement} form
 * @param {string} kept
 */
function restoreAnswer(form, kept) {
  if (!kept) return;
  if (form.querySelector("input.field")) /** @type {HTMLInputElement} */ (the(form, "input.field")).value = kept;
  for (const number of kept.split(" ")) {
    const input = /** @type {HTMLInputElement | null} */ (form.querySelector(`.choice input[value="${CSS.escape(number)}"]`));
    if (input) input.checked = true;
  }
}
