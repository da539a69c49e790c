// @ts-check
// The tables under the board: tabs of views and sections, and search.

import { patchBlocks } from "./blocks.js";
import { removeCharts } from "./chart.js";
import { all, h, keepingFocus, one, painter, patch } from "./dom.js";
import { paintFind } from "./find.js";
import { paintFound } from "./found.js";
import { drawLine } from "./picking.js";
import { paintPicture } from "./picture.js";
import { paintReplay } from "./replay.js";
import { paintPipeline } from "./stages.js";
import { drawChips, SEARCHES, tensorBar } from "./tensors.js";
import { stayWide } from "./widen.js";
/** @import { Block, BlockDrawers } from "./types/table_cells.d.ts" */
/** @import { StagesState, Tab, TableState } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/** Drawers of cells that the block layer does not know. @type {BlockDrawers} */
export const BLOCK_DRAWERS = {
  chips: drawChips,
  line: drawLine,
  parts: [
    {
      field: "picker",
      place: "tensor-picker",
      paint: (wb, place, { picker }) => picker && patch(place, [{ key: "tensor", ...picker }], (state) => drawPicker(wb, state)),
    },
    { field: "replay", place: "replay", paint: (wb, place, { replay }) => replay && paintReplay(wb, place, replay) },
    {
      field: "picture",
      place: "picture",
      paint: (wb, place, { picture }) => {
        if (!picture) return;
        paintPicture(wb, place, picture);
        stayWide(place);
      },
    },
    { field: "stages", place: "pipeline", paint: (wb, place, { stages }) => stages && paintPipeline(wb, place, stages) },
    { field: "find", place: "finder", paint: (wb, place, { find }) => find && paintFind(wb, place, find) },
    { field: "found", place: "found", paint: (wb, place, { found }) => found && paintFound(wb, place, found) },
  ],
  removePicture: removeCharts,
};

/**
 * The tensor that the picture shows.
 * @param {Wb} wb
 * @param {NonNullable<Block["picker"]>} picker
 */
function drawPicker(wb, { options, chosen }) {
  const choices = options.map(({ value, label }) => h("option", { value, selected: value === chosen }, label));
  const select = h("select", {
    class: "field",
    data: { focus: "picker" },
    onchange: () => wb.send({ verb: "select", path: select.value }),
  }, ...choices);
  return h("label", {}, h("span", { class: "label" }, "Tensor"), " ", select);
}

/** A row of tabs: views, or the sections of one view. @typedef {"view" | "tab"} Row */

/**
 * Updates the numbers of existing tabs; returns whether the tabs are the same. A drop changes only numbers, and a redraw would move the
 * focus and cause a layout.
 * @param {HTMLElement} parent
 * @param {Tab[]} tabs
 * @returns {boolean}
 */
function patchBadges(parent, tabs) {
  const shown = all(parent, ".tab");
  const same = shown.length === tabs.length &&
    tabs.every((tab, i) => shown[i].dataset.is === tab.key + tab.label && shown[i].ariaSelected === String(tab.open));
  if (!same) return false;
  tabs.forEach((tab, i) => {
    shown[i].dataset.opens = tab.opens;
    const badge = one(shown[i], ".badge");
    if ((badge?.textContent ?? "") === tab.badge) return;
    badge?.remove();
    if (tab.badge) shown[i].append(h("span", { class: "badge" }, tab.badge));
  });
  return true;
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {Tab[]} tabs
 * @param {Row} row
 */
function drawTabs(wb, parent, tabs, row) {
  parent.hidden = tabs.length < 2;
  if (patchBadges(parent, tabs)) return;
  const at = Math.max(tabs.findIndex(({ open }) => open), 0);
  /**
   * @param {KeyboardEvent} event
   * @param {number} i
   */
  const step = (event, i) => {
    const places = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: -1 }, place = places[/** @type {"Home"} */ (event.key)];
    if (place === undefined) return;
    event.preventDefault();
    const tab = all(parent, ".tab").at(place % tabs.length)?.dataset.opens;
    wb.focusTab = `${row}-${tab}`;
    wb.send({ verb: "open", tab });
  };
  const scrolled = parent.scrollLeft;
  parent.replaceChildren(...tabs.map((tab, i) => {
    const button = h(
      "button",
      {
        class: "tab",
        type: "button",
        role: "tab",
        ariaSelected: String(tab.open),
        tabIndex: i === at ? 0 : -1,
        data: { [row]: tab.key, is: tab.key + tab.label, opens: tab.opens, focus: `${row}-${tab.key}` },
        onclick: () => wb.send({ verb: "open", tab: button.dataset.opens }),
        onkeydown: (event) => step(event, i),
      },
      tab.label,
      tab.badge && h("span", { class: "badge" }, tab.badge),
    );
    return button;
  }));
  const chosen = one(parent, "[aria-selected=true]");
  parent.scrollLeft = scrolled;
  if (chosen) showTab(parent, chosen);
}

/**
 * Scrolls the selected tab into view in its strip.
 * @param {HTMLElement} strip
 * @param {HTMLElement} tab
 */
function showTab(strip, tab) {
  const frame = strip.getBoundingClientRect(), at = tab.getBoundingClientRect();
  if (at.left < frame.left || at.right > frame.right) strip.scrollLeft += at.left - frame.left - (frame.width - at.width) / 2;
}

/**
 * The pipeline stage selector, which applies to every tab.
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {StagesState | null} state
 */
function drawStages(wb, parent, state) {
  parent.hidden = state === null;
  const buttons = state?.options.map((option) =>
    h("button", {
      type: "button",
      class: "choice",
      title: option.title,
      ariaPressed: String(option.value === state.chosen),
      data: { focus: `show-stage-${option.value}` },
      onclick: () => wb.send({ verb: "show_stage", stage: option.value }),
    }, option.label)
  ) ?? [];
  parent.replaceChildren(h("span", { class: "label" }, "Stage"), h("div", { class: "choices" }, ...buttons));
}

/** @param {Wb} wb */
export function tablesSection(wb) {
  const views = h("div", { class: "tabs", role: "tablist", ariaLabel: "Views" });
  const sections = h("div", { class: "tabs sections", role: "tablist", ariaLabel: "Sections" });
  const blocks = h("div");
  let timer = 0;
  const search = h("input", {
    class: "field search",
    type: "search",
    hidden: true,
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => wb.send({ verb: "open", tab: section.dataset.tab, search: search.value }), 150);
    },
  });
  const targets = tensorBar(wb);
  const scroll = h("div", { class: "scroll", role: "tabpanel", tabIndex: 0, ariaLabel: "Table" }, blocks);
  const stages = h("div", { class: "stage-picker", role: "group", ariaLabel: "Stage", hidden: true });
  const section = h("section", { class: "tables" }, views, sections, h("div", { class: "finding" }, stages, search), targets.bar, scroll);
  /**
   * @param {HTMLElement} parent
   * @param {Row} row
   * @returns {Paint<Tab[]>}
   */
  const rowPainter = (parent, row) =>
    painter((state) => {
      const open = state.find((tab) => tab.open);
      const walked = open && wb.focusTab === `${row}-${open.opens}`;
      if (walked) wb.focusTab = "";
      keepingFocus(wb.root, parent, () => drawTabs(wb, parent, state, row), walked ? `${row}-${open.key}` : null);
    });
  /** @type {Paint<StagesState | null>} */
  const paintStages = painter((state) => keepingFocus(wb.root, stages, () => drawStages(wb, stages, state)));
  /** @type {Paint<Pick<TableState, "tab" | "search" | "blocks">>} */
  const paintTable = painter((state) => {
    const [label, placeholder] = SEARCHES[state.tab] ?? ["", ""];
    search.hidden = state.search === null;
    targets.bar.classList.toggle("bare", search.hidden); // other tabs use the bar only for refusals
    if (section.dataset.tab !== state.tab) {
      search.value = state.search ?? "";
      Object.assign(search, { placeholder, ariaLabel: label });
    }
    const tabChanged = section.dataset.tab !== state.tab;
    section.dataset.tab = state.tab;
    keepingFocus(wb.root, blocks, () => patchBlocks(wb, blocks, state.blocks));
    if (tabChanged) scroll.scrollTop = 0; // a new table starts at its top
  });
  return {
    section,
    paintViews: rowPainter(views, "view"),
    paintSections: rowPainter(sections, "tab"),
    paintTable,
    paintStages,
    paintTargets: targets.paint,
  };
}

/**
 * Scrolls to a tab opened from another part of the board.
 * @param {Wb} wb
 * @param {string} tab
 */
export function openTab(wb, tab) {
  wb.send({ verb: "open", tab });
  wb.root.querySelector(".tables")?.scrollIntoView({ block: "nearest" });
}
