// @ts-check
// A lesson's text beside its board: prose, cell outputs, and a button per question that opens it on the board.

import { h, painter, patch } from "./dom.js";
/** @import { ExerciseState, LessonBlock, LessonLink, LessonOutput, LessonState } from "./types/lesson.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * HTML that Python renders from text shipped with the package.
 * @param {string} html
 * @param {string} look
 */
function drawHtml(html, look) {
  const box = h("div", { class: look });
  box.innerHTML = html;
  return box;
}

/** @param {LessonOutput} output */
function drawOutput(output) {
  if (output.kind === "text") return h("pre", { class: "mono", tabIndex: 0, role: "region", ariaLabel: "output" }, output.text);
  if (output.kind === "html") return drawHtml(output.html, "told");
  const picture = drawHtml(output.svg, "image");
  picture.tabIndex = 0;
  picture.role = "img";
  picture.ariaLabel = output.about;
  const widen = h("button", { class: "btn icon widen", type: "button", ariaLabel: "Fill the window", title: "Fill the window" }, "⤢");
  widen.onclick = () => showWide(picture);
  return h("div", { class: "picture" }, picture, widen);
}

/**
 * A copy of a picture over the window, until Escape or a click.
 * @param {HTMLElement} picture
 */
function showWide(picture) {
  const dialog = h("dialog", { class: "wide", ariaLabel: picture.ariaLabel });
  dialog.append(picture.cloneNode(true));
  dialog.onclick = () => dialog.close();
  dialog.onclose = () => dialog.remove();
  picture.after(dialog);
  dialog.showModal();
}

/**
 * @param {Wb} wb
 * @param {LessonBlock} block
 */
function drawBlock(wb, block) {
  if (block.kind === "html") return drawHtml(block.html, "prose");
  if (block.kind === "question") {
    return h(
      "button",
      {
        class: block.open ? "btn question open" : "btn question",
        type: "button",
        ariaCurrent: block.open ? "step" : null,
        data: { focus: `lesson ${block.name}`, done: block.done },
        onclick: () => wb.send({ verb: "question", name: block.name }),
      },
      `${block.done ? "✓ " : ""}Question ${block.label}`,
      h("span", { class: "muted" }, block.open ? "on the board" : "show on the board"),
    );
  }
  const code = h(
    "details",
    {},
    h("summary", {}, "Code"),
    h("pre", { class: "mono", tabIndex: 0, role: "region", ariaLabel: "code" }, block.source),
  );
  const outputs = block.outputs?.map(drawOutput) ?? [h("div", { class: "muted", role: "status" }, "Running…")];
  return h("div", { class: "cell" }, code, ...outputs);
}

/**
 * @param {LessonLink | null} link
 * @param {string} word
 */
const drawLink = (link, word) => link && h("a", { href: link.link, title: link.title }, word);

/** @param {Wb} wb */
export function lessonSection(wb) {
  const head = h("header", {}), blocks = h("div", { class: "lessontext" });
  const section = h("aside", { class: "lesson", ariaLabel: "Lesson", hidden: true, tabIndex: 0 }, head, blocks);
  /** @type {Paint<LessonState>} */
  const paintHead = painter((state) => {
    const links = [
      state.all && h("a", { href: state.all }, "All lessons"),
      drawLink(state.previous, "← Previous"),
      drawLink(state.next, "Next →"),
    ].filter((node) => node instanceof Node);
    head.replaceChildren(
      ...links.length ? [h("nav", { ariaLabel: "Lessons" }, ...links)] : [],
      h("h1", {}, state.title),
      h("p", { class: "muted" }, `${state.place}, ${state.course}. As a notebook: `, h("code", {}, state.notebook)),
    );
  });
  /** @type {LessonBlock[]} */
  let drawn = [];
  let drawnQuestions = "";
  /**
   * @param {LessonState | null} state
   * @param {LessonBlock[]} parts unchanged while they are the same list
   * @param {ExerciseState | null} exercise
   */
  const paint = (state, parts, exercise) => {
    section.hidden = !state;
    wb.root.dataset.lesson = String(Boolean(state));
    if (!state) return;
    paintHead(state);
    const asked = JSON.stringify(exercise?.questions ?? []);
    if (parts === drawn && asked === drawnQuestions) return;
    drawn = parts;
    drawnQuestions = asked;
    const questions = new Map(exercise?.questions.map((question) => [question.name, question]));
    patch(
      blocks,
      parts.map((part, place) => ({ key: `${place}`, ...part, ...(part.kind === "question" ? questions.get(part.name) : {}) })),
      (part) => drawBlock(wb, /** @type {LessonBlock} */ (/** @type {unknown} */ (part))),
    );
  };
  return { section, paint };
}
