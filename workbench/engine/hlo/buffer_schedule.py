"""Values of a scheduled program, the buffers they share, and the live range of each buffer.

A value is a tree of buffers, a tuple's branches its elements; positions are indices in the schedule.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.spmd.hlo_instruction import HloInstruction
from workbench.spmd.hlo_shapes import Array

Tree = int | tuple["Tree", ...]  # numbers of buffers


@dataclass(slots=True)
class HloValue:
    """What one instruction makes, or a loop's state on one side of the loop's boundary; alive from `born` to `last`, positions in the
    schedule."""

    array: Array
    maker: HloInstruction
    born: int
    last: int
    is_given: bool = False  # an argument of the program, or a constant: there before the step
    is_result: bool = False  # of the program


@dataclass(frozen=True, slots=True)
class Buffer:
    """Values that share one allocation. Between two of them it is free for others: a loop's state after its last use in the body and before
    its next value is made."""

    values: tuple[HloValue, ...]

    @property
    def bytes(self) -> int:
        return max(each.array.padded_bytes for each in self.values)

    @property
    def space(self) -> int:
        return max(self.values, key=lambda each: each.array.padded_bytes).array.space

    @property
    def is_given(self) -> bool:
        return any(each.is_given for each in self.values)

    @property
    def is_result(self) -> bool:
        """Whether it is allocated for a result; a result that shares an argument's buffer is that argument's."""
        return not self.is_given and any(each.is_result for each in self.values)

    @property
    def is_temporary(self) -> bool:
        return not self.is_given and not self.is_result

    @property
    def makers(self) -> Iterator[HloInstruction]:
        """The instructions whose values share this buffer, in the order of the schedule."""
        return (each.maker for each in sorted(self.values, key=lambda each: each.born))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The live ranges of the buffer: first and last positions, not overlapping."""
        merged: list[tuple[int, int]] = []
        for born, last in sorted((each.born, each.last) for each in self.values):
            if merged and born <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            else:
                merged.append((born, last))
        return merged


@dataclass(frozen=True)
class BufferSchedule:
    """Instructions in the order they run, loop bodies once, and the buffers."""

    steps: Sequence[HloInstruction]
    buffers: Sequence[Buffer]


def leaves(tree: Tree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        for each in tree:
            yield from leaves(each)


def subtree_at(tree: Tree, path: Iterable[int]) -> Tree:
    """The branch at an index path."""
    for index in path:
        if isinstance(tree, tuple) and index < len(tree):
            tree = tree[index]
    return tree
