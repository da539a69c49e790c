// @ts-check
// The tables under the board, the tabs of views and of their sections, and the search.

import { patchBlocks } from "./blocks.js";
import { removeCharts } from "./chart.js";
import { all, h, keepingFocus, one, painter } from "./dom.js";
import { paintFind } from "./find.js";
import { paintFound } from "./found.js";
import { drawLine } from "./picking.js";
import { paintPicture } from "./picture.js";
import { paintReplay } from "./replay.js";
import { paintPipeline } from "./stages.js";
import { drawChips, SEARCHES, tensorBar } from "./tensors.js";
import { stayWide } from "./widen.js";
/** @import { BlockDrawers } from "./types/table_cells.d.ts" */
/** @import { StagesState, Tab, TableState } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/** What only the sections draw, of what blocks show. @type {BlockDrawers} */
export const BLOCK_DRAWERS = {
  chips: drawChips,
  line: drawLine,
  parts: [
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

/** A row of tabs: the views, or the sections of one of them. @typedef {"view" | "tab"} Row */

/**
 * New numbers on the tabs that are there; says whether these are the same tabs. Drop changes no more of them, and drawing them anew would
 * move the focus and lay out the page.
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
 * The chosen tab, into the part of the strip that is seen: it may be wider than the card.
 * @param {HTMLElement} strip
 * @param {HTMLElement} tab
 */
function showTab(strip, tab) {
  const frame = strip.getBoundingClientRect(), at = tab.getBoundingClientRect();
  if (at.left < frame.left || at.right > frame.right) strip.scrollLeft += at.left - frame.left - (frame.width - at.width) / 2;
}

/**
 * The stages of a pipeline: all, or one that every tab then is about.
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {StagesState | null} state
 */
function drawStages(wb, parent, state) {
  parent.hidden = state === null;
  const buttons = state?.options.map((each) =>
    h("button", {
      type: "button",
      class: "choice",
      title: each.title,
      ariaPressed: String(each.value === state.chosen),
      data: { focus: `show-stage-${each.value}` },
      onclick: () => wb.send({ verb: "show_stage", stage: each.value }),
    }, each.label)
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
    targets.bar.classList.toggle("bare", search.hidden); // other tabs show in it what was refused alone
    if (section.dataset.tab !== state.tab) {
      search.value = state.search ?? "";
      Object.assign(search, { placeholder, ariaLabel: label });
    }
    const turned = section.dataset.tab !== state.tab;
    section.dataset.tab = state.tab;
    keepingFocus(wb.root, blocks, () => patchBlocks(wb, blocks, state.blocks));
    if (turned) scroll.scrollTop = 0; // another table begins at its top
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
 * A tab that is opened from afar: in a narrow cell it lies above.
 * @param {Wb} wb
 * @param {string} tab
 */
export function openTab(wb, tab) {
  wb.send({ verb: "open", tab });
  wb.root.querySelector(".tables")?.scrollIntoView({ block: "nearest" });
}
