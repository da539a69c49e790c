// @ts-check
// Import and export of plans: header tools, downloads, and files opened or dropped.

import { download, drawProblem, h, keepingFocus, one, painter } from "./dom.js";
import { drawSheet } from "./export_sheet.js";
/** @import { FilesState, Refusal, Sheet, Tools } from "./types/states.d.ts" */
/** @import { Kid, Paint, Wb } from "./types/board_context.d.ts" */

const MAX_FILE_BYTES = 1 << 20; // larger files are rejected unread

/**
 * @param {Wb} wb
 * @param {Tools} state
 * @returns {HTMLElement[]}
 */
export function headTools(wb, state) {
  if (!state.exchanges) return [];
  const picker = h("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    ariaLabel: "plan file",
    tabIndex: -1,
    onchange: () => {
      readFile(wb, picker.files?.[0]);
      picker.value = "";
    },
  });
  /**
   * @param {Kid | Kid[]} label
   * @param {string} verb
   * @param {string} title
   * @param {() => void} gesture
   * @param {boolean | null} [pressed]
   */
  const tool = (label, verb, title, gesture, pressed = null) =>
    h("button", {
      class: "btn tool",
      type: "button",
      title,
      ariaExpanded: pressed === null ? null : String(pressed),
      data: { verb, focus: verb },
      onclick: gesture,
    }, ...[label].flat());
  return [
    tool(
      ["History", h("span", { class: "badge" }, `${state.count}`)],
      "history",
      "Previous plans: restore, name, compare",
      () => wb.send({ verb: "history", open: !state.open }),
      state.open,
    ),
    ...(state.saves
      ? [tool("Save", "save", state.path ? `Save to ${state.path}` : "Save this plan as a file", () => wb.send({ verb: "save" }))]
      : []),
    ...(state.starts
      ? [
        tool("New…", "new_plan", "Start another plan: your model, the zoo, your machines", () => wb.send({ verb: "new_plan", open: true })),
      ]
      : []),
    tool("Open…", "open_file", "Open a *.plan.json file; it can also be dropped here", () => picker.click()),
    tool(
      "Export",
      "export",
      "Code (JAX script, PartitionSpecs, logical axis rules), report page, trace or picture",
      () => wb.send(state.sheet === "export" ? { verb: "close_sheet" } : { verb: "export" }),
      state.sheet === "export",
    ),
    tool(
      "Link",
      "link",
      "Link to this plan",
      () => wb.send(state.sheet === "link" ? { verb: "close_sheet" } : { verb: "link" }),
      state.sheet === "link",
    ),
    picker,
  ];
}

/**
 * @param {Wb} wb
 * @param {File | undefined} file
 */
async function readFile(wb, file) {
  if (!file) return;
  const text = file.size > MAX_FILE_BYTES ? null : await file.text();
  wb.send({ verb: "open_file", name: file.name, text });
}

/**
 * Opens a file dropped anywhere on the card.
 * @param {Wb} wb
 */
function acceptFiles(wb) {
  /**
   * @param {DragEvent} event
   * @returns {boolean}
   */
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  /** @param {boolean} on */
  const aim = (on) => wb.card.classList.toggle("receiving", on);
  wb.card.addEventListener("dragover", (event) => {
    if (carries(event)) {
      event.preventDefault();
      aim(true);
    }
  });
  wb.card.addEventListener("dragleave", (event) => {
    if (!wb.card.contains(/** @type {Node | null} */ (event.relatedTarget))) aim(false);
  });
  wb.card.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    event.stopPropagation();
    aim(false);
    readFile(wb, event.dataTransfer?.files[0]);
  });
}

/**
 * @param {string} text
 * @param {string | undefined} type
 */
const decoded = (text, type) => new Blob([Uint8Array.from(atob(text), (character) => character.charCodeAt(0))], { type });

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {{ refusal: Refusal | null; word: string }} state
 */
function drawNotice(wb, place, { refusal, word }) {
  const dismiss = () =>
    h("button", { class: "more close", type: "button", ariaLabel: "Dismiss", onclick: () => wb.send({ verb: "dismiss" }) }, "×");
  place.hidden = !refusal && !word;
  if (refusal) {
    place.replaceChildren(h("div", { class: "told bad", role: "alert" }, ...drawProblem(refusal), dismiss()));
  } else place.replaceChildren(...(word ? [h("div", { class: "told", role: "status" }, h("p", {}, word), dismiss())] : []));
}

/** @param {Wb} wb */
export function filesSection(wb) {
  const notice = h("div", { class: "notice", hidden: true });
  const sheet = h("section", { class: "sheet", ariaLabel: "Exported text", hidden: true });
  const section = h("div", {}, sheet);
  sheet.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      wb.send({ verb: "close_sheet" });
    }
  });
  /** @type {number | null} */
  let downloaded = null; // sequence number of the last download
  let first = true;
  /** @type {Paint<{ refusal: Refusal | null; word: string; seq: number }>} */
  const paintNotice = painter((state) => keepingFocus(wb.root, notice, () => drawNotice(wb, notice, state)));
  /** @type {Paint<Sheet | null>} */
  const paintSheet = painter((state) =>
    keepingFocus(wb.root, sheet, () => {
      const opened = sheet.hidden && state;
      sheet.hidden = !state;
      if (!state) return sheet.replaceChildren();
      drawSheet(wb, sheet, state);
      if (opened) one(sheet, "[data-focus=sheet-text]")?.focus({ preventScroll: true });
    })
  );
  /**
   * @param {FilesState} state
   * @param {Refusal | null} refusal
   * @param {number} seq
   */
  const paint = (state, refusal, seq) => {
    paintNotice({ refusal, word: state.word, seq });
    paintSheet(state.sheet);
    const mine = state.download && [wb.view, ""].includes(state.download.view) ? state.download : null;
    if (mine && mine.seq !== downloaded && !first) {
      download(wb, mine.name, mine.base64 === undefined ? mine.text : decoded(mine.base64, mine.media));
    }
    downloaded = mine ? mine.seq : downloaded;
    first = false;
  };
  acceptFiles(wb);
  return { section, notice, paint };
}
