// @ts-check
// Where the boundary between two pieces of a pipeline may lie, and where a hand puts it: arithmetic alone.

/**
 * The first and the last block that a piece may begin with: it and the piece before it keep one each.
 * @param {number[]} starts of each piece but the first, the place of its first block
 * @param {number} count how many blocks there are
 * @param {number} piece
 * @returns {[least: number, most: number]}
 */
export const boundsOf = (starts, count, piece) => [(starts[piece - 2] ?? 0) + 1, (starts[piece] ?? count) - 1];

/**
 * The starts with one piece beginning at another block, as far as its neighbours let it; the same ones if it cannot move.
 * @param {number[]} starts
 * @param {number} count
 * @param {number} piece
 * @param {number} to
 * @returns {number[]}
 */
export function movedStarts(starts, count, piece, to) {
  const [least, most] = boundsOf(starts, count, piece), start = Math.max(least, Math.min(most, to));
  return start === starts[piece - 1] ? starts : starts.map((each, i) => (i === piece - 1 ? start : each));
}

/**
 * The block whose upper edge is nearest to a hand that went down by so many pixels from the edge of block `first`.
 * @param {number[]} heights
 * @param {number} first
 * @param {[least: number, most: number]} bounds
 * @param {number} down
 * @returns {number}
 */
export function nearestEdge(heights, first, [least, most], down) {
  let at = first, gone = 0;
  while (down > 0 && at < most && gone + heights[at] / 2 < down) gone += heights[at++];
  while (down < 0 && at > least && gone + heights[at - 1] / 2 < -down) gone += heights[--at];
  return at;
}
