// @ts-check
// Browser storage for page preferences, and for pending gestures and the open tab across a reconnect; only pages with a board id in their
// address restore the latter.

/** @import { Kept } from "./types/board_context.d.ts" */

const STORAGE_KEY = "workbench.cut";
const MAX_AGE_MS = 3600000;

/** @param {Omit<Kept, "board" | "at">} kept */
export function keepThroughCut(kept) {
  const board = document.documentElement.dataset.board;
  if (!board) return;
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ ...kept, board, at: Date.now() }));
  } catch { /* storage is unavailable */ }
}

/** @returns {Kept | null} */
export function keptThroughCut() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null");
    if (!kept || kept.board !== document.documentElement.dataset.asked) return null;
    sessionStorage.removeItem(STORAGE_KEY);
    return Date.now() - kept.at < MAX_AGE_MS ? kept : null;
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
  } catch { /* storage is unavailable */ }
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
