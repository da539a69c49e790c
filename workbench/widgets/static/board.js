// @ts-check
// The board: one zone per mesh axis and one for replicated dimensions, with a chip per dimension in each of its zones.

import { drawCount, drawHandle, sendStepped, stepSize } from "./axes.js";
import { drawChip, showDropped } from "./chips.js";
import { h, keepingFocus, painter, targetOf, the } from "./dom.js";
import { aim, drop } from "./drag.js";
import { openMenu } from "./menus.js";
import { closeMenu, drawRefusal } from "./popup.js";
import { recipesSection } from "./recipes.js";
import { openTab } from "./tables.js";
import { termLabel } from "./terms.js";
/** @import { BoardState, Refusal, Tab, Zone } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/**
 * @param {Wb} wb
 * @param {Zone} zone
 * @returns {HTMLElement}
 */
function drawTitle(wb, zone) {
  if (!zone.axis) return h("div", { class: "title" }, zone.title);
  const size = h("input", {
    class: "size",
    value: zone.size,
    inputMode: "numeric",
    ariaLabel: `size of mesh axis ${zone.axis}`,
    data: { focus: `size-${zone.axis}` },
    onchange: () => wb.send({ verb: "resize", axis: zone.axis, size: size.value }),
    onkeydown: (event) => {
      if (event.key === "Escape") {
        size.value = zone.size ?? "";
        size.blur();
      } else stepSize(event, size);
    },
    onblur: () => sendStepped(size),
  });
  const more = h("button", {
    class: "more",
    type: "button",
    ariaLabel: `Menu of mesh axis ${zone.axis}`,
    ariaHasPopup: "menu",
    data: { focus: `menu-${zone.axis}` },
    onclick: () => openMenu(wb, more, zone.menu, { zone: zone.axis }),
  }, "⋯");
  return h("div", { class: "title" }, drawHandle(wb, zone), h("span", {}, zone.title), h("span", { class: "times" }, "×"), size, more);
}

/**
 * Aligns the refusal of a zone so that it does not overflow the right edge.
 * @param {Wb} wb
 * @param {Element | null} element
 */
function keepInside(wb, element) {
  if (element && element.getBoundingClientRect().right > wb.card.getBoundingClientRect().right) element.classList.add("flip");
}

/**
 * @param {Wb} wb
 * @param {Zone} zone
 * @param {Refusal | null} refusal
 * @returns {HTMLElement}
 */
function drawZone(wb, zone, refusal) {
  const chips = zone.chips.map((chip) => drawChip(wb, chip));
  if (chips.length) the(chips[0], ".grip").tabIndex = 0;
  const refused = refusal?.zone === zone.axis;
  const element = h(
    "div",
    {
      class: refused ? "zone refused" : "zone",
      role: "group",
      ariaLabel: zone.axis ? `mesh axis ${zone.axis}, size ${zone.size}` : zone.title,
      data: { axis: zone.axis, c: zone.colour },
    },
    drawTitle(wb, zone),
    h("div", { class: "chips" }, ...chips),
    zone.hint && h("div", { class: "hint" }, zone.hint),
    refused ? drawRefusal(wb, refusal) : null,
  );
  element.addEventListener("click", (event) => {
    if (wb.held && !targetOf(event).closest("button, input")) drop(wb, zone.axis, event.shiftKey);
  });
  return element;
}

/**
 * @param {Wb} wb
 * @param {BoardState["spare"]} spare
 * @param {Refusal | null} refusal
 * @returns {HTMLElement}
 */
function drawSpare(wb, spare, refusal) {
  const name = h("input", {
    class: "field name",
    value: spare.name,
    ariaLabel: "name of the new mesh axis",
    maxLength: 64,
    data: { focus: "spare-name" },
  });
  const size = h("input", {
    class: "field width",
    value: spare.size,
    inputMode: "numeric",
    ariaLabel: "size of the new mesh axis",
    data: { focus: "spare-size" },
  });
  /** @param {SubmitEvent} event */
  const add = (event) => {
    event.preventDefault();
    wb.send({ verb: "add_axis", axis: name.value, size: size.value });
  };
  return h(
    "div",
    { class: "zone spare" },
    h("div", { class: "title" }, h("span", { class: "muted" }, "Add mesh axis")),
    h(
      "form",
      { onsubmit: add },
      name,
      h("span", { class: "muted" }, "×"),
      size,
      h("button", { class: "btn", type: "submit", data: { focus: "spare-add" } }, "Add"),
    ),
    refusal?.zone === "+" ? drawRefusal(wb, refusal) : null,
  );
}

/** @param {Wb} wb */
export function boardSection(wb) {
  const recipes = recipesSection(wb), zones = h("div", { class: "zones" }), counted = h("span", { class: "counted" });
  const find = h("button", {
    class: "btn small",
    type: "button",
    title: "Search for the best plan of this program",
    data: { focus: "open-find", verb: "open-find" },
    onclick: () => openTab(wb, "find"),
  });
  const section = h(
    "section",
    { class: "board", ariaLabel: "Dimensions on mesh axes" },
    h(
      "div",
      { class: "legendline" },
      h("h2", {}, termLabel(wb, "Dimensions on mesh axes")),
      counted,
      recipes.button,
      find,
      h("span", { class: "muted help" }, "Drag, or press space and arrows. Shift adds an axis."),
    ),
    zones,
    recipes.section,
  );
  /** @type {Paint<Pick<BoardState, "zones" | "spare" | "count" | "refusal"> & { seq: number }>} */
  const paint = painter((state) =>
    keepingFocus(wb.root, section, () => {
      closeMenu(wb, false);
      wb.chips = new Map(state.zones.flatMap((zone) => zone.chips.map((chip) => [chip.key, chip])));
      wb.axes = state.zones.map((zone) => zone.axis);
      const [whole, ...axes] = state.zones.map((zone) => drawZone(wb, zone, state.refusal));
      counted.replaceChildren(drawCount(state.count));
      zones.replaceChildren(whole, h("div", { class: "axes" }, ...axes, drawSpare(wb, state.spare, state.refusal)));
      if (wb.held && !wb.held.chip.lazy && !wb.chips.has(wb.held.chip.key)) wb.held = null;
      aim(wb);
      keepInside(wb, zones.querySelector(".refusal"));
      wb.wanted = null;
    }, wb.wanted)
  );
  /** @type {Paint<Tab | null>} */
  const paintFind = painter((tab) => {
    find.hidden = !tab;
    find.ariaPressed = String(Boolean(tab?.open));
    find.replaceChildren("Find", ...(tab?.badge ? [h("span", { class: "badge" }, tab.badge)] : []));
  });
  wb.board = section;
  wb.subscribe("dropped", (drop) => showDropped(wb, drop));
  return { section, paint, paintRecipes: recipes.paint, paintFind };
}
