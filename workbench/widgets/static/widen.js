// @ts-check
// A full-window view of a picture in a modal dialog, which handles Escape and traps the focus.

import { fitCharts } from "./chart.js";
import { h, the } from "./dom.js";
/** @import { Wb } from "./types/board_context.d.ts" */

const WIDE = "Fill the window", BACK = "Restore size";

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @returns {HTMLButtonElement}
 */
export function widenTool(wb, place) {
  const button = h("button", {
    class: "btn icon widen",
    type: "button",
    ariaLabel: WIDE,
    title: WIDE,
    data: { focus: "widen" },
    onclick: () => (place.querySelector("dialog") ? the(place, "dialog").dispatchEvent(new Event("cancel")) : widen(wb, place, button)),
  }, "⤢");
  return button;
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {HTMLButtonElement} button
 */
function widen(wb, place, button) {
  const frame = the(place, ".frame");
  const dialog = h("dialog", { class: "wide", ariaLabel: the(frame, ".about").textContent });
  const back = () => {
    if (!dialog.isConnected) return;
    dialog.close();
    place.prepend(frame);
    dialog.remove();
    say(button, WIDE);
    fitCharts(frame, 0);
    button.focus({ preventScroll: true });
  };
  place.append(dialog);
  dialog.append(frame);
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    back();
  });
  dialog.showModal();
  say(button, BACK);
  const fit = () => fitCharts(frame, innerHeight - 110);
  fit();
  addEventListener("resize", function resized() {
    if (dialog.isConnected) fit();
    else removeEventListener("resize", resized);
  });
  button.focus({ preventScroll: true });
  wb.say("The picture fills the window; press Escape to restore it.");
}

/**
 * Reopens the dialog of a widened picture as modal after its container was moved.
 * @param {Element} place
 */
export function stayWide(place) {
  const dialog = place.querySelector("dialog[open]:not(:modal)");
  if (!(dialog instanceof HTMLDialogElement)) return;
  dialog.removeAttribute("open");
  dialog.showModal();
}

/**
 * @param {HTMLButtonElement} button
 * @param {string} words
 */
function say(button, words) {
  button.ariaLabel = button.title = words;
}
