// @ts-check
// A time in words.

/**
 * As `format_seconds` of Python writes them.
 * @param {number} seconds
 * @returns {string}
 */
export function clock(seconds) {
  for (const [unit, scale] of /** @type {[string, number][]} */ ([["s", 1], ["ms", 1e3], ["µs", 1e6]])) {
    const value = seconds * scale;
    if (value >= 1 || unit === "µs") return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
  }
  return "";
}
