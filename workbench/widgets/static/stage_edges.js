// @ts-check
// Arithmetic of stage boundaries: legal positions, and the position nearest to the pointer.

/**
 * The range of legal first blocks of a piece: it and its predecessor keep at least one block each.
 * @param {number[]} starts the first block of each piece but the first
 * @param {number} count the number of blocks
 * @param {number} piece
 * @returns {[least: number, most: number]}
 */
export const boundsOf = (starts, count, piece) => [(starts[piece - 2] ?? 0) + 1, (starts[piece] ?? count) - 1];

/**
 * `starts` with one piece moved as far as its neighbours allow; the same array if nothing changes.
 * @param {number[]} starts
 * @param {number} count
 * @param {number} piece
 * @param {number} to
 * @returns {number[]}
 */
export function movedStarts(starts, count, piece, to) {
  const [least, most] = boundsOf(starts, count, piece), start = Math.max(least, Math.min(most, to));
  return start === starts[piece - 1] ? starts : starts.map((value, i) => (i === piece - 1 ? start : value));
}

/**
 * The block whose upper edge is nearest to a pointer moved down by a number of pixels from the edge of block `first`.
 * @param {number[]} heights
 * @param {number} first
 * @param {[least: number, most: number]} bounds
 * @param {number} down
 * @returns {number}
 */
export function nearestEdge(heights, first, [least, most], down) {
  let at = first, passed = 0;
  while (down > 0 && at < most && passed + heights[at] / 2 < down) passed += heights[at++];
  while (down < 0 && at > least && passed + heights[at - 1] / 2 < -down) passed += heights[--at];
  return at;
}
