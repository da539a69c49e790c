// @ts-check
// The "Why?" pane: the components of a number, updated after every edit.

import { patchBlocks } from "./blocks.js";
import { all, h, painter, withCode } from "./dom.js";
import { termLabel } from "./terms.js";
/** @import { Because } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/** @param {Wb} wb */
export function whySection(wb) {
  const title = h("h2", { tabIndex: -1 }), lead = h("div", { class: "lead" }), blocks = h("div", { class: "answer" });
  const words = h("p", { class: "words muted", hidden: true });
  const hide = () => {
    const asker = wb.asker;
    wb.asker = null;
    wb.send({ verb: "why", of: "" });
    const again = asker &&
      all(wb.root, "[data-focus]").find((element) => [`why ${asker.of}`, asker.focus.dataset.focus].includes(element.dataset.focus));
    (again ?? wb.root).focus({ preventScroll: true });
  };
  const close = h("button", { class: "more close", type: "button", ariaLabel: "Close the answer", onclick: hide }, "×");
  const section = h(
    "aside",
    {
      class: "whypanel",
      ariaLabel: "Why?",
      hidden: true,
      onkeydown: (event) => {
        if (event.key === "Escape") {
          event.preventDefault();
          hide();
        }
      },
    },
    h("header", {}, title, close),
    h("div", { class: "body", tabIndex: 0, role: "group", ariaLabel: "The answer" }, lead, blocks, words),
  );
  /** @type {Paint<Because | null>} */
  const paint = painter((why) => {
    const isNew = why && section.dataset.of !== why.of;
    section.hidden = !why;
    section.dataset.of = why?.of ?? "";
    if (!why) return;
    title.textContent = why.title;
    lead.replaceChildren(...why.lead.map((line) => h("p", {}, ...withCode(line))));
    patchBlocks(wb, blocks, why.blocks);
    words.hidden = !why.words.length;
    words.replaceChildren("Terms: ", ...why.words.flatMap((word, place) => [place ? ", " : "", termLabel(wb, word)]));
    if (isNew && wb.asker) title.focus();
  });
  return { section, paint };
}
