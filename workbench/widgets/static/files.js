// @ts-check
// Plans in and out: the tools of the head, a sheet with text to take away, downloads, files that are opened or dropped here.

import { download, drawProblem, h, keepingFocus, one, painter } from "./dom.js";
/** @import { FilesState, Refusal, Sheet, Tools } from "./types/states.d.ts" */
/** @import { Kid, Paint, Wb } from "./types/board_context.d.ts" */

const MOST_FILE = 1 << 20; // what is larger is no plan, and is not read

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
        tool("New…", "new_plan", "Begin another plan: your model, the zoo, your machines", () => wb.send({ verb: "new_plan", open: true })),
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
  const text = file.size > MOST_FILE ? null : await file.text();
  wb.send({ verb: "open_file", name: file.name, text });
}

/**
 * A file dropped anywhere on the card is opened.
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
const decoded = (text, type) => new Blob([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], { type });

/**
 * The clipboard, or what there is without one (a page that is not served from this machine has none).
 * @param {Wb} wb
 * @param {HTMLElement} field
 * @param {string} text
 * @param {HTMLElement} button
 */
export async function copyText(wb, field, text, button) {
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    field.focus();
    if ("select" in field) /** @type {HTMLInputElement} */ (field).select();
    copied = "select" in field ? document.execCommand("copy") : false;
  }
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  button.textContent = copied ? "Copied" : "Press Ctrl-C";
  wb.say(copied ? "Copied" : "Not copied: press control C");
  setTimeout(() => {
    button.textContent = before;
  }, 1600);
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {Sheet} sheet
 */
function drawSheet(wb, place, sheet) {
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close",
    title: "Close",
    data: { focus: "sheet-close" },
    onclick: () => wb.send({ verb: "close_sheet" }),
  }, "×");
  const whole = sheet.kind === "link" && sheet.text.startsWith("?") ? `${location.origin}${location.pathname}${sheet.text}` : sheet.text;
  const field = sheet.kind === "link"
    ? h("input", {
      class: "field mono address",
      readOnly: true,
      value: whole,
      ariaLabel: "link to this plan",
      data: { focus: "sheet-text" },
      onfocus: () => /** @type {HTMLInputElement} */ (field).select(),
    })
    : h("pre", { class: "code", tabIndex: 0, role: "region", ariaLabel: "exported text", data: { focus: "sheet-text" } }, whole);
  const copy = h(
    "button",
    { class: "btn", type: "button", data: { focus: "sheet-copy" }, onclick: () => copyText(wb, field, whole, copy) },
    "Copy",
  );
  const save = sheet.name
    ? h(
      "button",
      { class: "btn", type: "button", data: { focus: "sheet-download" }, onclick: () => download(wb, sheet.name, whole) },
      `Download ${sheet.name}`,
    )
    : null;
  const forms = h(
    "div",
    { class: "forms", role: "group", ariaLabel: "Form of the export" },
    ...sheet.forms.map((form) =>
      h("button", {
        class: "btn",
        type: "button",
        ariaPressed: String(form.open),
        data: { focus: `form-${form.key}`, form: form.key },
        onclick: () => wb.send({ verb: "export", form: form.key }),
      }, form.label)
    ),
  );
  const problem = sheet.problem && h("div", { class: "told bad", role: "alert" }, ...drawProblem(sheet.problem));
  const row = h(
    "div",
    { class: "takeaway" },
    sheet.kind === "link" ? field : forms,
    h("span", { class: "grow" }),
    ...(problem ? [] : [copy, save]),
  );
  const scrolled = place.querySelector("pre")?.scrollTop ?? 0;
  place.replaceChildren(
    h("div", { class: "legendline" }, h("h2", {}, sheet.title), h("span", { class: "muted about" }, sheet.about), close),
    row,
    ...(sheet.kind === "link" ? [] : [drawFiles(wb, sheet), problem ?? field]),
  );
  if (sheet.kind !== "link") field.scrollTop = scrolled;
}

/**
 * What is taken away as a file, without being shown.
 * @param {Wb} wb
 * @param {Sheet} sheet
 */
function drawFiles(wb, sheet) {
  return h(
    "div",
    { class: "takeaway files", role: "group", ariaLabel: "Files to download" },
    h("span", { class: "muted" }, "As a file:"),
    ...sheet.files.map(({ key, label, about }) =>
      h("button", {
        class: "btn",
        type: "button",
        title: about,
        data: { focus: `file-${key}`, file: key },
        onclick: () => wb.send({ verb: "export", form: key }),
      }, label)
    ),
  );
}

/**
 * @param {Wb} wb
 * @param {HTMLElement} place
 * @param {{ refusal: Refusal | null; word: string }} given
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
  let taken = null; // the download that was taken last
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
    if (mine && mine.seq !== taken && !first) {
      download(wb, mine.name, mine.base64 === undefined ? mine.text : decoded(mine.base64, mine.media));
    }
    taken = mine ? mine.seq : taken;
    first = false;
  };
  acceptFiles(wb);
  return { section, notice, paint };
}
