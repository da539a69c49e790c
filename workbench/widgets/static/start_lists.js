// @ts-check
// Lists of the start panel: functions of the folder, former boards, lessons.

import { h } from "./dom.js";
/** @import { FolderFunction, OpenStart } from "./types/start.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {FolderFunction[]} functions
 * @returns {HTMLElement[]}
 */
export function drawFunctions(wb, functions) {
  if (!functions.length) return [];
  const rows = functions.map((each) => h("li", {}, each.builder ? drawBuilder(wb, each) : drawLoss(each)));
  return [h("h3", {}, "Functions in this folder"), h("ul", {}, ...rows)];
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

/** @param {FolderFunction} loss */
const drawLoss = (loss) =>
  h(
    "details",
    {},
    h("summary", {}, h("code", {}, loss.key), h("span", { class: "muted" }, " a loss: five lines make a plan of it")),
    h("pre", { class: "code", tabIndex: 0, role: "region", ariaLabel: `lines for ${loss.key}` }, loss.lines),
  );

/**
 * @param {OpenStart["recent"]} recent
 * @returns {HTMLElement[]}
 */
export function drawRecent(recent) {
  if (!recent.length) return [];
  return [h("h3", {}, "Recent plans"), h("ul", {}, ...recent.map(({ label, link }) => h("li", {}, h("a", { href: link }, label))))];
}

/**
 * @param {OpenStart["lessons"]} courses
 * @returns {HTMLElement[]}
 */
export function drawLessons(courses) {
  const count = courses.reduce((sum, { lessons }) => sum + lessons.length, 0);
  /** @param {{ title: string; link: string }} lesson */
  const drawn = ({ title, link }) =>
    h("li", {}, link ? h("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, `${title} ↗`) : title);
  const listed = courses.map(({ course, lessons }) => h("div", {}, h("h3", {}, course), h("ol", {}, ...lessons.map(drawn))));
  return [h("details", {}, h("summary", {}, `${count} lessons, from one product to serving`), h("div", { class: "courses" }, ...listed))];
}
