// @ts-check
// The tour for first-time users: four non-modal steps anchored to the elements they describe.

import { focusedBy, h, one, withCode } from "./dom.js";
import { remember, remembered } from "./browser_storage.js";
/** @import { AnyModel, Wb } from "./types/board_context.d.ts" */

const STORAGE_KEY = "workbench.toured";
const TOUR = [
  {
    at: ".figures",
    title: "Cost per device",
    text: "Memory, bytes sent and FLOP of one device per step of this GPT. JAX's own partitioner recomputes them after every change.",
  },
  {
    at: ".board",
    title: "Drag `d_ff` onto `model`",
    text:
      "A chip is a named dimension; a column is an axis of the device mesh. Drag a chip onto an axis (or press Space, arrows, Space) and watch the figures change. Invalid targets show the reason.",
    awaits: true,
  },
  {
    at: ".tabs",
    title: "Ask for the cause of a number",
    text:
      "These tabs list every tensor and collective with its source line. Point at a number and press Why? for its breakdown. Undo restores any plan.",
  },
  {
    at: ".jobs",
    title: "Check the prediction",
    text:
      "Compile runs XLA for the chosen hardware, attached or not. Run measures the plan on attached devices. Both are compared with the prediction.",
  },
];

/**
 * @param {Wb} wb
 * @param {number} [step]
 */
export function startTour(wb, step = 0) {
  endTour(wb, false);
  const current = TOUR[step], target = wb.root.querySelector(current.at);
  if (!target) return;
  /** @param {number} to */
  const go = (to) => {
    if (to < TOUR.length) startTour(wb, to);
    else endTour(wb);
  };
  const title = h("h3", { tabIndex: -1 }, ...withCode(current.title));
  const element = h(
    "div",
    { class: "tour", role: "dialog", ariaLabel: `Tour, step ${step + 1} of ${TOUR.length}`, data: { step: step + 1 } },
    h("button", {
      class: "more close",
      type: "button",
      ariaLabel: "End the tour",
      onclick: () => endTour(wb),
    }, "×"),
    title,
    h("p", {}, ...withCode(current.text)),
    h(
      "div",
      { class: "turns" },
      h("span", { class: "muted" }, `${step + 1} of ${TOUR.length}`),
      step > 0 ? h("button", { class: "btn", type: "button", onclick: () => go(step - 1) }, "Back") : null,
      h("button", { class: "btn primary", type: "button", onclick: () => go(step + 1) }, step + 1 < TOUR.length ? "Next" : "Done"),
    ),
  );
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      endTour(wb);
    }
  });
  target.classList.add("toured");
  wb.card.append(element);
  wb.tour = { element, target, step, layout: wb.layout };
  placeTour(wb);
  element.scrollIntoView?.({ block: "nearest" });
  title.focus({ preventScroll: true });
}

/**
 * Below its target if there is room in the card, otherwise at the lower edge of the card.
 * @param {Wb} wb
 */
function placeTour(wb) {
  if (!wb.tour) return;
  const { element, target } = wb.tour;
  const card = wb.card.getBoundingClientRect(), at = target.getBoundingClientRect();
  const left = Math.min(Math.max(at.left - card.left + 16, 8), card.width - element.offsetWidth - 8);
  const under = at.bottom - card.top + 8;
  element.style.left = `${Math.max(8, left)}px`;
  element.style.top = `${Math.max(8, Math.min(under, card.height - element.offsetHeight - 8))}px`;
}

/**
 * @param {Wb} wb
 * @param {boolean} [finished]
 */
function endTour(wb, finished = true) {
  if (!wb.tour) return;
  wb.tour.target.classList.remove("toured");
  const held = wb.tour.element.contains(focusedBy(wb.root));
  wb.tour.element.remove();
  wb.tour = null;
  if (!finished) return;
  remember(STORAGE_KEY, "yes");
  if (held) (one(wb.root, "[data-focus=help]") ?? wb.root).focus({ preventScroll: true });
}

/**
 * After a paint: repositions the step, and advances one that waits for a drop.
 * @param {Wb} wb
 * @param {string} layout
 */
export function followTour(wb, layout) {
  wb.layout = layout;
  if (!wb.tour) return;
  const { step, layout: before } = wb.tour;
  if (TOUR[step].awaits && before !== undefined && layout !== before) {
    const focused = /** @type {HTMLElement | null} */ (focusedBy(wb.root));
    startTour(wb, step + 1);
    if (focused && wb.root.contains(focused) && focused.isConnected) focused.focus({ preventScroll: true });
  } else placeTour(wb);
}

/**
 * @param {Wb} wb
 * @param {AnyModel} model
 */
export function firstTour(wb, model) {
  if (!model.get("tour") || remembered(STORAGE_KEY)) return;
  const begin = () => {
    if (!wb.tour && !wb.held && wb.root.dataset.starting !== "true") startTour(wb);
  };
  setTimeout(begin, 400);
}
