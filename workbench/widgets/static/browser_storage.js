// @ts-check
// What the browser keeps, where it is allowed to: what a person chose on this page; and through a cut of the connection, after which a served
// page is loaded again, what was on its way and which tab was open. Only a page that finds its board again, by the id in its address, keeps
// anything through a cut; a notebook's board is never cut from its page.

/** @import { Kept } from "./types/board_context.d.ts" */

const CUT = "workbench.cut";
const CUT_KEPT = 3600000; // milliseconds

/** @param {Omit<Kept, "board" | "at">} kept */
export function keepThroughCut(kept) {
  const board = document.documentElement.dataset.board;
  if (!board) return;
  try {
    sessionStorage.setItem(CUT, JSON.stringify({ ...kept, board, at: Date.now() }));
  } catch { /* a browser that keeps nothing */ }
}

/** @returns {Kept | null} */
export function keptThroughCut() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(CUT) ?? "null");
    if (!kept || kept.board !== document.documentElement.dataset.asked) return null;
    sessionStorage.removeItem(CUT);
    return Date.now() - kept.at < CUT_KEPT ? kept : null;
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string} value
 */
export function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch { /* a browser that keeps nothing */ }
}

/**
 * @param {string} key
 * @returns {string | null}
 */
export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
