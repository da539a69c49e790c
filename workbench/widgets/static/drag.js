// @ts-check
// The chip in hand, its legal drop targets (from Python, in `chip.illegal`) and the gesture of a drop.

import { all, h, the } from "./dom.js";
/** @import { AnyChip, Gesture, Held, LazyChip, Wb } from "./types/board_context.d.ts" */

const HOVER_MS = 15; // delay before previews are requested, so that a quick drop does not wait for one
const KEYS_HELP = "Arrows choose the zone, space drops, shift and space adds the axis, escape cancels.";

/**
 * @param {Wb} wb
 * @returns {HTMLElement[]}
 */
export function zoneElements(wb) {
  return all(wb.root, ".zone[data-axis], .droptarget[data-axis]");
}

/**
 * A table chip edits the layout rule, or with `only` the sharding of its own tensor.
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
 * The drop options of the modifier keys.
 * @param {Wb} wb
 * @param {{ shiftKey: boolean; altKey: boolean }} event
 * @returns {Pick<Held, "add" | "only">}
 */
export const pressed = (wb, event) => ({ add: event.shiftKey, only: wb.only !== event.altKey });

/**
 * Marks each zone as legal or barred for the chip in hand, and the zone under the pointer.
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
  showPreviews(wb);
  for (const chip of all(wb.root, ".chip:not(.ghost), .dim:not(.ghost)")) {
    const by = held?.chip.key === chip.dataset.chip ? held?.by : undefined;
    chip.classList.toggle("picked", by !== undefined && by !== "pointer");
    chip.classList.toggle("lifted", by === "pointer");
    the(chip, ".grip").ariaPressed = String(by !== undefined);
  }
  clearTimeout(wb.foreseeing);
  if (held) wb.foreseeing = setTimeout(() => requestPreviews(wb, held), HOVER_MS);
}

/**
 * @param {Held | null} held
 * @returns {string}
 */
const previewKey = (held) => held ? `${held.chip.key} ${held.chip.source} ${held.add} ${held.only}` : "";

/**
 * Requests previews for all zones, that of the zone under the hand first. All in one message: a host may merge writes.
 * @param {Wb} wb
 * @param {Held} held
 */
function requestPreviews(wb, held) {
  if (held.chip.lazy && !Object.keys(held.chip.illegal).length) return; // Python has not sent the legal targets of a table chip
  const targets = wb.axes.filter((target) => !isNowhere({ ...held, target }) && !reasonAt(held, target));
  const { verb, target, zone, ...drop } = dropOf(held);
  wb.expect({ verb: "preview", key: previewKey(held), targets, target, only: verb === "own", ...drop, ...(zone ? { zone } : {}) });
}

/**
 * Shows the preview of each zone, by colour and text.
 * @param {Wb} wb
 */
export function showPreviews(wb) {
  const zones = wb.held && wb.previews?.key === previewKey(wb.held) ? wb.previews.zones : {};
  for (const zone of zoneElements(wb)) {
    const preview = zones[zone.dataset.axis ?? ""];
    const tone = preview && !zone.classList.contains("barred") ? preview.tone : "";
    for (const name of ["good", "bad", "unsure"]) zone.classList.toggle(`leads-${name}`, tone === name);
    zone.querySelector(".preview")?.remove();
    if (!preview || zone.classList.contains("barred") || !(preview.note || preview.changes.length)) continue;
    const parts = preview.changes.map(({ label, text, tone }) => h("span", { class: tone }, `${label} ${text}`));
    zone.append(h("div", { class: "preview" }, ...parts, preview.note && h("span", {}, preview.note)));
  }
}

/**
 * The preview of a zone as text for screen readers.
 * @param {Wb} wb
 * @param {string | null} axis
 * @returns {string}
 */
export function previewWords(wb, axis) {
  const preview = wb.previews?.key === previewKey(wb.held) ? wb.previews.zones[axis ?? ""] : undefined;
  return preview
    ? [preview.note, ...preview.changes.map(({ label, text, note }) => `${label} ${text} ${note}`.trim())].filter(Boolean).join(", ")
    : "";
}

/**
 * @param {Held} held
 * @returns {boolean}
 */
export const isNowhere = ({ chip, target, add }) => target === null || (target === chip.source && !add);

/**
 * The gesture that a drop of the chip in hand sends to Python.
 * @param {Held} held
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
 * Sends the drop and shows the chip in its new zone until Python answers.
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
    for (const dim of all(wb.root, ".dim")) if (dim.dataset.chip === chip.key) dim.classList.add("pending");
  } else wb.publish("dropped", { chip, axis, add });
  wb.send(dropOf(held));
}
