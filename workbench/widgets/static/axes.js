// @ts-check
// The mesh editor: the device count, and mesh axes reordered by drag or by key.

import { all, h } from "./dom.js";
/** @import { DeviceCount, Zone } from "./types/states.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * @param {DeviceCount} count
 * @returns {HTMLElement}
 */
export function drawCount(count) {
  return h("span", { class: `devices ${count.tone}`, title: count.title, role: count.tone === "bad" ? "alert" : null }, count.text);
}

/**
 * The handle of a mesh axis: drag it, or press the arrow keys, to reorder the axes.
 * @param {Wb} wb
 * @param {Zone} zone
 * @returns {HTMLElement}
 */
export function drawHandle(wb, zone) {
  const handle = h("button", {
    class: "handle",
    type: "button",
    ariaLabel: `Move mesh axis ${zone.axis}: left and right arrows`,
    title: "Drag to reorder the mesh axes (which devices are neighbours)",
    data: { focus: `handle-${zone.axis}` },
    onkeydown: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return;
      event.preventDefault();
      wb.send({ verb: "shift_axis", axis: zone.axis, by });
    },
    onpointerdown: (event) => {
      if (!event.button) dragAxis(wb, zone.axis, handle, event);
    },
  }, h("span", { ariaHidden: "true" }, "⠿"));
  return handle;
}

/**
 * @param {Wb} wb
 * @param {string} axis
 * @param {HTMLElement} handle
 * @param {PointerEvent} start
 */
function dragAxis(wb, axis, handle, start) {
  const zones = all(wb.board, ".axes > .zone[data-axis]");
  const mine = zones.find((zone) => zone.dataset.axis === axis);
  /** @type {string[] | null} */
  let order = null;
  handle.setPointerCapture(start.pointerId);
  const clear = () => zones.forEach((zone) => zone.classList.remove("lifted", "before", "behind"));
  /** @param {PointerEvent} event */
  const move = (event) => {
    if (!wb.dragging && Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) < 5) return;
    wb.dragging = true;
    clear();
    mine?.classList.add("lifted");
    order = null;
    const over = zones.find((zone) => {
      const box = zone.getBoundingClientRect();
      return event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    });
    if (!over || over === mine) return;
    const box = over.getBoundingClientRect();
    const behind = event.clientX > box.left + box.width / 2;
    over.classList.add(behind ? "behind" : "before");
    order = reordered(zones.map((zone) => zone.dataset.axis ?? ""), axis, over.dataset.axis ?? "", behind);
  };
  const stop = new AbortController();
  /** @param {Event} event */
  const end = (event) => {
    stop.abort();
    clear();
    const dragged = wb.dragging;
    wb.dragging = false;
    if (dragged && order && event.type === "pointerup") wb.send({ verb: "order_axes", axis, names: order });
    wb.paint();
  };
  handle.addEventListener("pointermove", move, { signal: stop.signal });
  handle.addEventListener("pointerup", end, { signal: stop.signal });
  handle.addEventListener("pointercancel", end, { signal: stop.signal });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && wb.dragging) end(event);
  }, { signal: stop.signal, capture: true });
}

/**
 * The axis names after moving one before or after another.
 * @param {string[]} names
 * @param {string} axis
 * @param {string} over
 * @param {boolean} behind
 * @returns {string[]}
 */
function reordered(names, axis, over, behind) {
  const order = names.filter((name) => name !== axis);
  order.splice(order.indexOf(over) + (behind ? 1 : 0), 0, axis);
  return order;
}

/**
 * Up and down arrows double and halve an axis size, because sizes are usually powers of two.
 * @param {KeyboardEvent} event
 * @param {HTMLInputElement} size
 */
export function stepSize(event, size) {
  if (event.key === "Enter") {
    sendStepped(size);
    return;
  }
  const value = Number(size.value);
  if (!Number.isInteger(value) || value < 1) return;
  const next = { ArrowUp: value * 2, ArrowDown: value % 2 ? value : value / 2 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  size.value = `${next}`;
  size.dataset.stepped = "yes";
}

/**
 * Setting `value` from a script fires no event, so dispatch one.
 * @param {HTMLInputElement} size
 */
export function sendStepped(size) {
  if (!size.dataset.stepped) return;
  delete size.dataset.stepped;
  size.dispatchEvent(new Event("change"));
}
