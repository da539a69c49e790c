// @ts-check
// The sheet below the header: an export as text, a link, or the name of a plan that is saved to a gallery.

import { download, drawProblem, h } from "./dom.js";
/** @import { Sheet } from "./types/states.d.ts" */
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * Copies by the clipboard API, which exists only in secure contexts, or else by selecting the text.
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
export function drawSheet(wb, place, sheet) {
  const close = h("button", {
    class: "more close",
    type: "button",
    ariaLabel: "Close",
    title: "Close",
    data: { focus: "sheet-close" },
    onclick: () => wb.send({ verb: "close_sheet" }),
  }, "×");
  const head = h("div", { class: "legendline" }, h("h2", {}, sheet.title), h("span", { class: "muted about" }, sheet.about), close);
  if (sheet.kind === "save") return place.replaceChildren(head, drawNameForm(wb, sheet.text));
  const text = sheet.kind === "link" && sheet.text.startsWith("?") ? `${location.origin}${location.pathname}${sheet.text}` : sheet.text;
  const field = sheet.kind === "link"
    ? h("input", {
      class: "field mono address",
      readOnly: true,
      value: text,
      ariaLabel: "link to this plan",
      data: { focus: "sheet-text" },
      onfocus: () => /** @type {HTMLInputElement} */ (field).select(),
    })
    : h("pre", { class: "code", tabIndex: 0, role: "region", ariaLabel: "exported text", data: { focus: "sheet-text" } }, text);
  const copy = h(
    "button",
    { class: "btn", type: "button", data: { focus: "sheet-copy" }, onclick: () => copyText(wb, field, text, copy) },
    "Copy",
  );
  const save = sheet.name
    ? h(
      "button",
      { class: "btn", type: "button", data: { focus: "sheet-download" }, onclick: () => download(wb, sheet.name, text) },
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
    head,
    row,
    ...(sheet.kind === "link" ? [] : [drawFiles(wb, sheet), problem ?? field]),
  );
  if (sheet.kind !== "link") field.scrollTop = scrolled;
}

/**
 * The name of a plan that is saved to a gallery.
 * @param {Wb} wb
 * @param {string} name
 */
function drawNameForm(wb, name) {
  const field = h("input", {
    class: "field address",
    value: name,
    maxLength: 80,
    ariaLabel: "name of the plan",
    data: { focus: "sheet-text" },
  });
  const save = h("button", { class: "btn primary", type: "submit", data: { focus: "sheet-save" } }, "Save");
  return h(
    "form",
    {
      class: "takeaway",
      onsubmit: (event) => {
        event.preventDefault();
        if (field.value.trim()) wb.send({ verb: "save", name: field.value });
      },
    },
    field,
    save,
  );
}

/**
 * Downloads an export that is not shown in the sheet.
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
