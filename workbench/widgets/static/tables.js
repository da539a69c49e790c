// @ts-check
// The tables under the board, their tabs and the search.

import { drawRow } from "./table_cells.js";
import { removeCharts } from "./chart.js";
import { all, h, keepingFocus, one, painter, patch, the } from "./dom.js";
import { paintFind, paintFound } from "./find.js";
import { termLabel } from "./help.js";
import { paintPicture } from "./picture.js";
import { paintReplay } from "./replay.js";
import { canSort, drawColumn, markSorted, sortedRows } from "./sort.js";
import { paintPipeline } from "./stages.js";
import { tensorBar } from "./tensor_bar.js";
import { SEARCHES } from "./tensors.js";
import { stayWide } from "./widen.js";
/** @import { Block } from "./types/table_cells.d.ts" */
/** @import { StagesState, Tab, TableState } from "./types/states.d.ts" */
/** @import { Paint, Wb } from "./types/board_context.d.ts" */

/** What is shown in a place: its blocks, and the heads that were drawn for them. @type {WeakMap<Element, { blocks: Block[]; heads: string[] }>} */
const blocksIn = new WeakMap();

/**
 * Which parts a block has beside its table.
 * @param {Block} block
 */
const partsOf = (block) => [block.picture, block.replay, block.stages, block.find, block.found].map(Boolean);

/**
 * The places of pictures, by name: a chart stays, with what was zoomed to, whatever stands around it anew.
 * @param {Element} parent
 * @returns {Map<string, HTMLElement>}
 */
const picturesIn = (parent) => new Map(all(parent, ".picture").map((place) => [place.dataset.picture ?? "", place]));

/**
 * @param {Map<string, HTMLElement>} kept
 * @param {string} name
 * @returns {HTMLElement}
 */
function takePicture(kept, name) {
  const place = kept.get(name) ?? h("div", { class: "picture" });
  kept.delete(name);
  return place;
}

/**
 * The tables of `blocks`; a table that is already there under the same title and columns keeps its unchanged rows.
 * @param {Wb} wb
 * @param {HTMLElement} parent
 * @param {Block[]} blocks
 */
export function patchBlocks(wb, parent, blocks) {
  const heads = blocks.map((block) => JSON.stringify([block.title, block.columns, ...partsOf(block), canSort(block)]));
  const before = blocksIn.get(parent);
  blocksIn.set(parent, { blocks, heads });
  if (JSON.stringify(before?.heads) !== JSON.stringify(heads)) {
    const kept = picturesIn(parent);
    parent.replaceChildren(
      ...blocks.map((block) =>
        h(
          "div",
          { class: "block" },
          block.title && h("h3", {}, termLabel(wb, block.title)),
          block.replay ? h("div", { class: "replay" }) : null,
          block.picture ? takePicture(kept, block.picture.name) : null,
          block.stages ? h("div", { class: "pipeline" }) : null,
          block.find ? h("div", { class: "finder" }) : null,
          block.found ? h("div", { class: "found" }) : null,
          block.columns.length
            ? h(
              "table",
              {},
              h(
                "thead",
                {},
                h(
                  "tr",
                  {},
                  ...block.columns.map((c, i) =>
                    drawColumn(wb, block, c, i, heads[blocks.indexOf(block)], () =>
                      patchBlocks(wb, parent, blocksIn.get(parent)?.blocks ?? []))
                  ),
                ),
              ),
              h("tbody"),
            )
            : null,
          h("div", { class: "note" }),
        )
      ),
    );
    for (const place of kept.values()) removeCharts(place);
  }
  blocks.forEach((block, i) => {
    const place = parent.children[i];
    const body = place.querySelector("tbody");
    if (body) patch(body, sortedRows(wb, block, heads[i]), (row) => drawRow(wb, block.columns, row));
    if (body) markSorted(wb, place, heads[i]);
    if (block.replay) paintReplay(wb, the(place, ".replay"), block.replay);
    if (block.stages) paintPipeline(wb, the(place, ".pipeline"), block.stages);
    if (block.find) paintFind(wb, the(place, ".finder"), block.find);
    if (block.found) paintFound(wb, the(place, ".found"), block.found);
    if (block.picture) {
      paintPicture(wb, the(place, ".picture"), block.picture);
      stayWide(place);
    }
    const note = the(place, ".note");
    note.textContent = block.note;
    note.hidden = !block.note;
  });
}

/**
 * New numbers on the tabs that are there; says whether these are the same tabs. A drop changes no more of them, and drawing them anew would
 * move the focus and lay out the page.
 * @param {HTMLElement} parent
 * @param {Tab[]} tabs
 * @returns {boolean}
 */
function patchBadges(parent, tabs) {
  const shown = all(parent, ".tab");
  const same = shown.length === tabs.length &&
    tabs.every((tab, i) =>
      shown[i].dataset.tab === tab.key && shown[i].ariaSelected === String(tab.open) && shown[i].dataset.label === tab.label
    );
  if (!same) return false;
  tabs.forEach((tab, i) => {
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
 */
function drawTabs(wb, parent, tabs) {
  if (!wb.focusTab && patchBadges(parent, tabs)) return;
  /** @param {string} tab */
  const open = (tab) => wb.send({ verb: "open", tab });
  /**
   * @param {Event} event
   * @param {number} by
   */
  const step = (event, by) => {
    event.preventDefault();
    const i = tabs.findIndex((tab) => tab.open);
    wb.focusTab = true;
    open(tabs[(i + by + tabs.length) % tabs.length].key);
  };
  const scrolled = parent.scrollLeft;
  parent.replaceChildren(...tabs.map((tab) =>
    h(
      "button",
      {
        class: "tab",
        type: "button",
        role: "tab",
        ariaSelected: String(tab.open),
        tabIndex: tab.open ? 0 : -1,
        data: { tab: tab.key, label: tab.label, focus: `tab-${tab.key}` },
        onclick: () => open(tab.key),
        onkeydown: (e) => {
          if (e.key === "ArrowRight") step(e, 1);
          else if (e.key === "ArrowLeft") step(e, -1);
        },
      },
      tab.label,
      tab.badge && h("span", { class: "badge" }, tab.badge),
    )
  ));
  const chosen = one(parent, "[aria-selected=true]");
  if (wb.focusTab) chosen?.focus({ preventScroll: true });
  wb.focusTab = false;
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
  const tabs = h("div", { class: "tabs", role: "tablist", ariaLabel: "Tables" });
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
  const section = h("section", { class: "tables" }, tabs, h("div", { class: "finding" }, stages, search), targets.bar, scroll);
  /** @type {Paint<Tab[]>} */
  const paintTabs = painter((state) => keepingFocus(wb.root, tabs, () => drawTabs(wb, tabs, state)));
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
  return { section, paintTabs, paintTable, paintStages, paintTargets: targets.paint };
}
