// @ts-check
// Files that a person takes away.

import { h } from "./dom.js";
/** @import { Wb } from "./types/board_context.d.ts" */

/**
 * Saves a file as the browser saves one. The link is on the page as it is clicked: VS Code sees such clicks, and saves for a browser that in
 * there cannot.
 * @param {Wb} wb
 * @param {string} name
 * @param {string | Blob} content
 */
export function download(wb, name, content) {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type: "text/plain" }) : content);
  const link = h("a", { href: url, download: name, hidden: true });
  wb.root.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
