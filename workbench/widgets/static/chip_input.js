// @ts-check
// Input handling of chips: drag by pointer, keyboard, and click to pick up and drop.

import { all, around, targetOf } from "./dom.js";
import { aim, drop, hold, pressed, previewWords, reasonAt, release } from "./drag.js";
import { askMenu, openMenu } from "./menus.js";
import { closeMenu } from "./popup.js";
import { askWhy } from "./terms.js";
/** @import { AnyChip, Held, Wb } from "./types/board_context.d.ts" */

/**
 * `gripped` is the chip, or a function that returns it for an event.
 * @param {Wb} wb
 * @param {HTMLElement} element
 * @param {HTMLElement} grip
 * @param {HTMLElement} more
 * @param {AnyChip | ((event: Event | null) => AnyChip)} gripped
 */
export function makeDraggable(wb, element, grip, more, gripped) {
  /**
   * @param {Event | null} event
   * @returns {AnyChip}
   */
  const at = (event) => (typeof gripped === "function" ? gripped(event) : gripped);
  grip.addEventListener("pointerdown", (event) => {
    if (!event.button) startDrag(wb, element, grip, at(event), event);
  });
  grip.addEventListener("keydown", (event) => onKey(wb, grip, more, at(null), event));
  grip.addEventListener("keyup", (event) => {
    if (event.key === " ") event.preventDefault();
  });
  // A click event without a pointer comes from a screen reader and also picks up; pointer clicks are handled below, apart from drags.
  grip.addEventListener("click", (event) => {
    if (event.detail === 0 && !wb.held) onClick(wb, at(null), event);
  });
}

/**
 * The axis of the zone or target under the pointer.
 * @param {Wb} wb
 * @param {PointerEvent} event
 * @returns {string | null}
 */
function axisAt(wb, event) {
  const seen = /** @type {Document | ShadowRoot} */ (wb.root.getRootNode()).elementsFromPoint(event.clientX, event.clientY);
  const zone = /** @type {HTMLElement | undefined} */ (seen.find((item) => item.matches?.(".zone[data-axis], .droptarget[data-axis]")));
  return (zone && wb.root.contains(zone) ? zone.dataset.axis : null) ?? null;
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} element
 * @param {HTMLElement} grip
 * @param {AnyChip} chip
 * @param {PointerEvent} start
 */
function startDrag(wb, element, grip, chip, start) {
  /** @type {HTMLElement | null} */
  let ghost = null;
  const at = targetOf(start); // read now: outside the shadow root the event is retargeted to its host
  wb.dragging = true; // from pointerdown on, because a repaint would replace the pressed element
  grip.setPointerCapture(start.pointerId);
  /** @param {PointerEvent} event */
  const move = (event) => {
    if (!ghost && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < 5) return;
    if (!ghost) {
      closeMenu(wb, false);
      hold(wb, chip, "pointer");
      ghost = /** @type {HTMLElement} */ (element.cloneNode(true));
      ghost.classList.remove("lifted");
      ghost.classList.add("ghost");
      wb.root.append(ghost);
    }
    ghost.style.left = `${event.clientX + 10}px`;
    ghost.style.top = `${event.clientY + 8}px`;
    const target = axisAt(wb, event);
    const keys = pressed(wb, event);
    if (wb.held && (target !== wb.held.target || keys.add !== wb.held.add || keys.only !== wb.held.only)) {
      Object.assign(wb.held, { target, ...keys });
      aim(wb);
    }
  };
  const stop = new AbortController();
  /** @param {PointerEvent | KeyboardEvent} event */
  const end = (event) => {
    stop.abort();
    ghost?.remove();
    wb.dragging = false;
    if (!ghost && event.type === "pointerup") onClick(wb, chip, event, at);
    else if (event.type === "pointerup" && wb.held) {
      Object.assign(wb.held, pressed(wb, event));
      drop(wb, wb.held.target, event.shiftKey);
    } else release(wb);
    wb.paint();
  };
  /** @param {KeyboardEvent} event */
  const escape = (event) => {
    if (event.key === "Escape" && ghost) end(event);
  };
  grip.addEventListener("pointermove", move, { signal: stop.signal });
  grip.addEventListener("pointerup", end, { signal: stop.signal });
  grip.addEventListener("pointercancel", end, { signal: stop.signal });
  document.addEventListener("keydown", escape, { signal: stop.signal, capture: true });
}

/**
 * A click picks up or drops a chip of the board, and opens the menu of a chip in a table.
 * @param {Wb} wb
 * @param {AnyChip} chip
 * @param {MouseEvent | KeyboardEvent} event
 * @param {HTMLElement | null} [at]
 */
function onClick(wb, chip, event, at = null) {
  if (chip.lazy) {
    const mark = !wb.held && at ? around(at, "[data-asks]") : null; // the axis mark, whose explanation opens on click
    const grip = /** @type {HTMLElement} */ (event.currentTarget ?? around(targetOf(event), ".grip"));
    if (mark) askWhy(wb, mark.dataset.asks ?? "", around(mark, ".grip") ?? grip);
    else askMenu(wb, chip, grip);
    return;
  }
  if (wb.held && wb.held.chip.source !== chip.source) drop(wb, chip.source, event.shiftKey);
  else if (wb.held?.chip.key === chip.key) release(wb);
  else hold(wb, chip, "click");
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} grip
 * @param {HTMLElement} more
 * @param {AnyChip} chip
 * @param {KeyboardEvent} event
 */
function onKey(wb, grip, more, chip, event) {
  const held = wb.held, mine = held?.chip.key === chip.key ? held : null;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === " " || event.key === "Enter") {
    event.preventDefault();
    if (mine) drop(wb, mine.target, event.shiftKey);
    else hold(wb, chip, "keyboard");
  } else if (event.key === "Escape" && held) {
    event.preventDefault();
    release(wb);
  } else if (event.key === "ContextMenu" || event.key === "m" || (event.key === "F10" && event.shiftKey)) {
    event.preventDefault();
    if (chip.lazy) askMenu(wb, chip, grip);
    else openMenu(wb, more, chip.menu, { zone: chip.source });
  } else if (step) {
    event.preventDefault();
    if (mine) choose(wb, mine, step);
    else if (!chip.lazy) walk(wb, grip, step);
  } else if (event.key.toLowerCase() === "o" && mine && chip.lazy) {
    mine.only = !mine.only;
    aim(wb);
    wb.say(mine.only ? `Only ${chip.path}.` : `The rule of ${chip.dim}.`);
  } else if (event.key === "Shift" && mine) {
    mine.add = true;
    aim(wb);
  }
}

/**
 * Moves the drop target of the chip in hand and announces it.
 * @param {Wb} wb
 * @param {Held} held
 * @param {number} step
 */
function choose(wb, held, step) {
  const now = wb.axes.findIndex((axis) => axis === held.target);
  held.target = wb.axes[(now + step + wb.axes.length) % wb.axes.length];
  held.add = false;
  aim(wb);
  const reason = reasonAt(held, held.target), change = previewWords(wb, held.target);
  const suffix = reason ? `. Not possible: ${reason}` : change ? `. ${change}` : "";
  wb.say(`${held.target || "unsharded"}, ${wb.axes.indexOf(held.target) + 1} of ${wb.axes.length}${suffix}`);
}

/**
 * Roving tab stop: one per zone, and arrow keys move over all chips.
 * @param {Wb} wb
 * @param {HTMLElement} grip
 * @param {number} step
 */
function walk(wb, grip, step) {
  const grips = all(wb.board, ".zone .grip");
  grips[(grips.indexOf(grip) + step + grips.length) % grips.length]?.focus();
}
