// @ts-check
// The chip in hand, where it may be dropped, and what a drop of it is. Whether a zone takes it, Python has said in `chip.illegal`.

import { all, h, the } from "./dom.js";
/** @import { AnyChip, Gesture, Held, LazyChip, Wb } from "./types/board_context.d.ts" */

const REST = 30; // milliseconds over a zone after which Python works out what a drop there would do
const KEYS_HELP = "Arrows choose the zone, space drops, shift and space adds the axis, escape cancels.";

/**
 * @param {Wb} wb
 * @returns {HTMLElement[]}
 */
export function zoneElements(wb) {
  return all(wb.root, ".zone[data-axis], .droptarget[data-axis]");
}

/**
 * A chip of the tables edits the rule, or with `only` places its own tensor alone.
 * @param {Held | null} held
 * @param {string | null} axis
 * @returns {string | null}
 */
export function reasonAt(held, axis) {
  if (!held || axis === null || axis === held.chip.source) return null;
  const illegal = held.chip.lazy ? held.chip.illegal[held.only ? "only" : "rule"] : held.chip.illegal;
  return illegal[axis]?.[held.add ? "add" : "move"] ?? null;
}

/**
 * What the keys under the hand say.
 * @param {Wb} wb
 * @param {{ shiftKey: boolean; altKey: boolean }} event
 * @returns {Pick<Held, "add" | "only">}
 */
export const pressed = (wb, event) => ({ add: event.shiftKey, only: wb.only !== event.altKey });

/**
 * Mark every zone for the chip in hand: barred with the reason, and the one under the hand.
 * @param {Wb} wb
 */
export function aim(wb) {
  const held = wb.held;
  wb.board.classList.toggle("aiming", Boolean(held));
  wb.root.classList.toggle("aiming", Boolean(held));
  if (held?.by === "keyboard") wb.board.setAttribute("role", "application");
  else wb.board.removeAttribute("role");
  for (const zone of zoneElements(wb)) {
    const axis = zone.dataset.axis ?? null;
    const reason = reasonAt(held, axis);
    zone.classList.toggle("barred", Boolean(reason));
    zone.classList.toggle("over", held !== null && held.target === axis);
    zone.querySelector(".why")?.remove();
    if (reason) zone.append(h("div", { class: "why", title: reason }, reason));
  }
  askPreviews(wb);
  showPreviews(wb);
  for (const chip of all(wb.root, ".chip:not(.ghost), .dim:not(.ghost)")) {
    const by = held?.chip.key === chip.dataset.chip ? held?.by : undefined;
    chip.classList.toggle("picked", by !== undefined && by !== "pointer");
    chip.classList.toggle("lifted", by === "pointer");
    the(chip, ".grip").ariaPressed = String(by !== undefined);
  }
  foresee(wb);
}

/**
 * Ask what a drop on each zone would do, once for a chip and the keys that are held.
 * @param {Wb} wb
 */
function askPreviews(wb) {
  const held = wb.held;
  const key = held ? `${held.chip.key} ${held.chip.source} ${held.add} ${held.only}` : "";
  if (key === wb.previewed) return;
  wb.previewed = key;
  wb.previews = null;
  if (!held || (held.chip.lazy && !Object.keys(held.chip.illegal).length)) { // of a chip of the tables Python says first where it may go
    wb.previewed = "";
    return;
  }
  const targets = wb.axes.filter((axis) => !isNowhere({ ...held, target: axis }) && !reasonAt(held, axis));
  const { verb: _verb, target: _target, zone, ...drop } = dropOf({ ...held, target: "" });
  wb.send({ verb: "preview", key, targets, only: _verb === "own", ...drop, ...(zone ? { zone } : {}) });
}

/**
 * The change over each zone: coloured, and in words.
 * @param {Wb} wb
 */
export function showPreviews(wb) {
  const zones = wb.held && wb.previews?.key === wb.previewed ? wb.previews.zones : {};
  for (const zone of zoneElements(wb)) {
    const found = zones[zone.dataset.axis ?? ""];
    const tone = found && !zone.classList.contains("barred") ? found.tone : "";
    for (const each of ["good", "bad", "unsure"]) zone.classList.toggle(`leads-${each}`, tone === each);
    zone.querySelector(".preview")?.remove();
    if (!found || zone.classList.contains("barred") || !(found.note || found.changes.length)) continue;
    const parts = found.changes.map(({ label, text, tone }) => h("span", { class: tone }, `${label} ${text}`));
    zone.append(h("div", { class: "preview" }, ...parts, found.note && h("span", {}, found.note)));
  }
}

/**
 * The preview of a zone in words, for a screen reader.
 * @param {Wb} wb
 * @param {string | null} axis
 * @returns {string}
 */
export function previewWords(wb, axis) {
  const found = wb.previews?.key === wb.previewed ? wb.previews.zones[axis ?? ""] : undefined;
  return found
    ? [found.note, ...found.changes.map(({ label, text, note }) => `${label} ${text} ${note}`.trim())].filter(Boolean).join(", ")
    : "";
}

/**
 * A hand that rests over a zone may let go there: by then the answer is worked out.
 * @param {Wb} wb
 */
function foresee(wb) {
  const held = wb.held;
  clearTimeout(wb.foreseeing);
  if (!held || isNowhere(held) || reasonAt(held, held.target)) return;
  wb.foreseeing = setTimeout(() => wb.expect(dropOf(held)), REST);
}

/**
 * @param {Held} given
 * @returns {boolean}
 */
export const isNowhere = ({ chip, target, add }) => target === null || (target === chip.source && !add);

/**
 * What a drop of the chip in hand is to Python.
 * @param {Held} given
 * @returns {Gesture}
 */
export function dropOf({ chip, target, add, only }) {
  if (!chip.lazy) return { verb: "drop", dim: chip.dim, source: chip.source, target, add };
  const { of, path, rank, place, source } = chip;
  if (only || chip.nameless) return { verb: "own", of, path, rank, place, source, target, add, zone: "tables" };
  return { verb: "drop", dim: chip.rule, source, target, add, zone: "tables" };
}

/**
 * @param {LazyChip} chip
 * @param {boolean} menu
 * @returns {Gesture}
 */
export const takes = (chip, menu) => ({
  verb: "take",
  menu,
  key: chip.key,
  of: chip.of,
  path: chip.path,
  rank: chip.rank,
  place: chip.place,
  source: chip.source,
});

/**
 * @param {Wb} wb
 * @param {AnyChip} chip
 * @param {Held["by"]} by
 */
export function hold(wb, chip, by) {
  wb.held = { chip, by, target: by === "keyboard" ? chip.source : null, add: false, only: wb.only || Boolean(chip.nameless) };
  if (chip.lazy) wb.send(takes(chip, false));
  wb.say(
    `${chip.dim} taken. ${by === "keyboard" ? KEYS_HELP : "Click a zone to drop it."}${
      chip.lazy && by === "keyboard" ? " O: only this tensor, or the rule." : ""
    }`,
  );
  aim(wb);
}

/**
 * @param {Wb} wb
 * @param {string} [words]
 */
export function release(wb, words = "Cancelled.") {
  if (!wb.held) return;
  wb.held = null;
  wb.say(words);
  aim(wb);
}

/**
 * Send the drop, and show the chip where it was dropped until Python answers.
 * @param {Wb} wb
 * @param {string | null} axis
 * @param {boolean} add
 */
export function drop(wb, axis, add) {
  if (!wb.held) return;
  const held = { ...wb.held, target: axis, add }, { chip } = held;
  wb.held = null;
  aim(wb);
  if (axis === null || isNowhere(held)) return;
  if (chip.lazy) {
    for (const each of all(wb.root, ".dim")) if (each.dataset.chip === chip.key) each.classList.add("pending");
  } else wb.publish("dropped", { chip, axis, add });
  wb.send(dropOf(held));
}
