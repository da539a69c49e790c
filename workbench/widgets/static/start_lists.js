// @ts-check
// Lists of the start panel: functions in the folder, recent boards and lessons.

import { h } from "./dom.js";
import { copyText } from "./export_sheet.js";
/** @import { FolderFunction, OpenStart } from "./types/start.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {FolderFunction[]} functions
 * @returns {HTMLElement[]}
 */
export function drawFunctions(wb, functions) {
  if (!functions.length) return [];
  const rows = functions.map((entry) => h("li", {}, entry.builder ? drawBuilder(wb, entry) : drawLoss(wb, entry)));
  return [h("h3", {}, "Functions in this folder"), h("ul", {}, ...rows)];
}

/**
 * @param {Wb} wb
 * @param {OpenStart["configs"]} configs
 * @returns {HTMLElement[]}
 */
export function drawConfigs(wb, configs) {
  if (!configs.length) return [];
  const rows = configs.map(({ key, about }) => {
    const choose = () => wb.send({ verb: "choose_model", model: key });
    const name = h("code", {}, key.replace("file/", ""));
    const button = h("button", { class: "btn small", type: "button", data: { focus: `config ${key}` }, onclick: choose }, name);
    return h("li", {}, button, h("span", { class: "muted" }, ` ${about}`));
  });
  return [h("h3", {}, "Models in this folder"), h("ul", {}, ...rows)];
}

/**
 * @param {Wb} wb
 * @param {FolderFunction} builder
 */
function drawBuilder(wb, builder) {
  const name = h("code", {}, builder.key);
  if (!builder.allowed) {
    return h(
      "details",
      {},
      h("summary", {}, name, h("span", { class: "muted" }, " not allowed yet")),
      h("p", {}, "Choosing it runs its code, so its module has to be allowed. Start the server with ", h("code", {}, builder.command), "."),
    );
  }
  return h("button", {
    class: "btn small",
    type: "button",
    title: "Its module is imported, and the function is called",
    data: { focus: `function ${builder.key}` },
    onclick: () => wb.send({ verb: "choose_model", model: builder.key }),
  }, name);
}

/**
 * @param {Wb} wb
 * @param {FolderFunction} loss
 */
function drawLoss(wb, loss) {
  const lines = h("pre", { class: "code", tabIndex: 0, role: "region", ariaLabel: `lines for ${loss.key}` }, loss.lines);
  const copy = h("button", {
    class: "btn small",
    type: "button",
    data: { focus: `copy ${loss.key}` },
    onclick: () => copyText(wb, lines, loss.lines, copy),
  }, "Copy");
  const then = loss.command ? ["start the server with ", h("code", {}, loss.command)] : ["reload this page"];
  return h(
    "details",
    {},
    h("summary", {}, h("code", {}, loss.key), h("span", { class: "muted" }, " a loss: five lines make a plan of it")),
    lines,
    h("p", {}, copy, " Add the lines to the same file, set the shapes, and ", ...then, "."),
  );
}

/**
 * @param {OpenStart["recent"]} recent
 * @returns {HTMLElement[]}
 */
export function drawRecent(recent) {
  if (!recent.length) return [];
  return [h("h3", {}, "Recent plans"), h("ul", {}, ...recent.map(({ label, link }) => h("li", {}, h("a", { href: link }, label))))];
}

/**
 * The lessons by course, with progress: collapsed among other options, or alone on their page.
 * @param {Wb} wb
 * @param {OpenStart["lessons"]} courses
 * @param {boolean} alone
 * @returns {HTMLElement[]}
 */
export function drawLessons(wb, courses, alone) {
  const lessons = courses.flatMap((course) => course.lessons), right = sum(lessons, "right"), questions = sum(lessons, "questions");
  const progress = questions ? `${right} of ${questions} questions answered correctly` : "";
  const listed = courses.map(({ course, lessons }) => h("div", {}, h("h3", {}, course), h("ol", {}, ...lessons.map(drawLesson))));
  const list = h("div", { class: "courses" }, ...listed);
  if (alone) return [h("p", { class: "muted" }, progress), list, ...(right ? [drawForget(wb)] : [])];
  const summary = h("summary", {}, `${lessons.length} lessons, from one product to serving`);
  if (right) summary.append(h("span", { class: "muted" }, ` ${progress}`));
  const page = questions ? [h("a", { href: "?lessons" }, "Lessons page")] : [];
  return [h("details", {}, summary, list), ...page];
}

/**
 * @param {{ right: number; questions: number }[]} lessons
 * @param {"right" | "questions"} key
 */
const sum = (lessons, key) => lessons.reduce((all, lesson) => all + lesson[key], 0);

/** @param {OpenStart["lessons"][number]["lessons"][number]} lesson */
function drawLesson({ title, link, right, questions }) {
  if (!questions) return h("li", {}, link ? h("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, `${title} ↗`) : title);
  const done = right === questions;
  const text = done ? "✓ done" : right ? `${right} of ${questions}` : `${questions} questions`;
  return h("li", {}, h("a", { href: link }, title), " ", h("span", { class: done ? "good" : "muted" }, text));
}

/** @param {Wb} wb */
const drawForget = (wb) =>
  h(
    "details",
    { class: "forget" },
    h("summary", {}, "Reset progress"),
    h("p", { class: "muted" }, "Deletes your answers to all lessons from this machine."),
    h("button", {
      class: "btn",
      type: "button",
      data: { focus: "forget lessons" },
      onclick: () => wb.send({ verb: "forget_lessons" }),
    }, "Delete all answers"),
  );
