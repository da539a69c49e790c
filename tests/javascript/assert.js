// @ts-check
// Two assertions. Those of Node would bring its types, under which a timer is no number, as it is in a browser.

/**
 * @param {unknown} found
 * @returns {string}
 */
const told = (found) => Deno.inspect(found, { depth: Infinity, sorted: true, iterableLimit: Infinity, strAbbreviateSize: Infinity });

/**
 * The very same.
 * @param {unknown} found
 * @param {unknown} expected
 */
export function equal(found, expected) {
  if (!Object.is(found, expected)) throw new Error(`found ${told(found)}, not ${told(expected)}`);
}

/**
 * Of the same parts.
 * @param {unknown} found
 * @param {unknown} expected
 */
export function deepEqual(found, expected) {
  if (told(found) !== told(expected)) throw new Error(`found ${told(found)}, not ${told(expected)}`);
}
