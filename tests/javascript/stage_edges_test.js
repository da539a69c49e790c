// @ts-check
// Boundaries between the stages of a pipeline: where they may lie, and where a hand puts them.

import { deepEqual, equal } from "./assert.js";
import { boundsOf, movedStarts, nearestEdge } from "../../workbench/widgets/static/stage_edges.js";

Deno.test("each piece keeps one block: a boundary ends beside its neighbours, or the ends of the row", () => {
  deepEqual(boundsOf([2, 5], 9, 1), [1, 4]);
  deepEqual(boundsOf([2, 5], 9, 2), [3, 8]);
  deepEqual(boundsOf([1], 2, 1), [1, 1]);
});

Deno.test("a piece begins where it is put, as far as its neighbours let it", () => {
  deepEqual(movedStarts([2, 5], 9, 1, 3), [3, 5]);
  deepEqual(movedStarts([2, 5], 9, 1, 7), [4, 5]);
  deepEqual(movedStarts([2, 5], 9, 2, -Infinity), [2, 3]);
  deepEqual(movedStarts([2, 5], 9, 2, Infinity), [2, 8]);
});

Deno.test("what cannot move stays the same list, by which it is known that nothing moved", () => {
  const starts = [1, 2];
  equal(movedStarts(starts, 3, 1, 5), starts);
  equal(movedStarts(starts, 3, 2, 2), starts);
});

Deno.test("a boundary goes to the next block once the hand is past the middle of it", () => {
  const heights = [10, 20, 30, 40];
  equal(nearestEdge(heights, 1, [1, 3], 9), 1);
  equal(nearestEdge(heights, 1, [1, 3], 11), 2);
  equal(nearestEdge(heights, 1, [1, 3], 36), 3);
  equal(nearestEdge(heights, 3, [1, 3], -14), 3);
  equal(nearestEdge(heights, 3, [1, 3], -16), 2);
});

Deno.test("a hand beyond the last block leaves the boundary at the last place it may have", () => {
  equal(nearestEdge([10, 10, 10], 1, [1, 2], 1000), 2);
  equal(nearestEdge([10, 10, 10], 2, [1, 2], -1000), 1);
});
