// @ts-check
// The model zoo of the start panel: a card per model, filtered by text.

import { h, painter } from "./dom.js";
/** @import { ZooCard } from "./types/start.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 */
export function zooPicker(wb) {
  const search = h("input", {
    class: "field zoosearch",
    type: "search",
    placeholder: "Search the zoo: llama3-8b, mixture, 70B …",
    ariaLabel: "search the models of the zoo",
    autocomplete: "off",
    spellcheck: false,
    data: { focus: "start-search" },
    oninput: () => narrow(),
    onkeydown: (event) => {
      const first = /** @type {HTMLElement | undefined} */ (shown()[0]);
      if (event.key !== "Enter" || !first) return;
      event.preventDefault();
      first.click();
    },
  });
  const list = h("div", { class: "modelcards", role: "group", ariaLabel: "Models of the zoo", tabIndex: -1 });
  const none = h("p", { class: "muted none", hidden: true });
  /** @type {Map<HTMLElement, string>} */
  const texts = new Map();
  const shown = () => [...texts.keys()].filter((card) => !card.hidden);
  const narrow = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [card, text] of texts) card.hidden = !words.every((word) => text.includes(word));
    none.hidden = shown().length > 0;
    const name = search.value.trim(), isRepository = /^[\w-]+\/[\w.-]+$/.test(name);
    none.replaceChildren(
      "Not in the zoo. Drop its ",
      h("code", {}, "config.json"),
      " below; nothing is downloaded. ",
      ...(isRepository ? ["To fetch it: ", h("code", {}, `hf download ${name} config.json --local-dir .`)] : []),
    );
  };
  /** @type {Paint<{ zoo: ZooCard[]; abouts: Record<string, string> }>} */
  const paint = painter(({ zoo, abouts }) => {
    texts.clear();
    for (const entry of zoo) {
      texts.set(drawCard(wb, entry, abouts[entry.model]), `${entry.key} ${entry.size} ${abouts[entry.model]}`.toLowerCase());
    }
    list.replaceChildren(...texts.keys());
    narrow();
  });
  return { search, list, none, paint };
}

/**
 * @param {Wb} wb
 * @param {ZooCard} card
 * @param {string} about
 */
const drawCard = (wb, card, about) =>
  h(
    "button",
    {
      class: "modelcard",
      type: "button",
      title: about,
      data: { focus: `zoo ${card.key}`, model: card.key },
      onclick: () => wb.send({ verb: "choose_model", model: card.key }),
    },
    h("b", {}, card.title),
    h("span", { class: "muted" }, card.title === card.model ? "" : card.model),
    h("span", { class: "muted" }, card.size),
  );
