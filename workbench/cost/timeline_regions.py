"""The regions of a step (main and loop bodies) as ordered items for `simulate_overlap`, independent of the layout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from workbench.cost.fusion.kernel_table import Kernels
from workbench.propagation.structure.program_structure import Structure, invariant_arguments

_JUST_BEFORE = 1e-4  # positions; small enough to move many kernels between two operations
_MOVES = 8  # maximum moves per kernel, which ends cycles of kernels that read from each other


@dataclass(frozen=True, slots=True)
class TimelineRegion:
    """The items of main or a loop body in order: kernels, and loops or branches as one item each."""

    ends: tuple[float, ...]  # last position of each item
    kernels: tuple[int, ...]  # kernel of each item; -1 for a loop
    ready: tuple[int, ...]  # number of items after which each item's result can be ready (see `_ready_positions`)
    loops: tuple[tuple[int, int], ...]  # (item, operation)
    parent: int  # region of its loop; -1 for main
    trips: int  # iterations per execution of its loop
    times: int
    places: Mapping[int, int]  # kernel -> item
    positions: Sequence[float]  # of every kernel, see `_run_positions`
    unchanged: frozenset[int]  # loop arguments that every iteration passes on unchanged
    final: frozenset[int]  # items of elementwise work first read by the next iteration or after the loop


def regions_of(structure: Structure, kernels: Kernels) -> tuple[TimelineRegion, ...]:
    """Return the regions of a program, outer ones first."""
    ends = _last_positions(structure)
    positions, unchanged = _run_positions(structure, kernels), invariant_arguments(structure)
    inside: list[list[tuple[float, float, int]]] = [[] for _ in structure.regions]  # (position, end, kernel or -1 - operation)
    for number, position in enumerate(positions):
        inside[kernels.regions[number]].append((position, position, number))
    for op in structure.control_flow:
        record = structure.ops[op]
        inside[record.region].append((record.position, max(ends.get(op, 0), record.position), -1 - op))
    read: dict[int, list[int]] = {}
    for kernel, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        read.setdefault(kernel, []).append(value)
    result = []
    for region, items in zip(structure.regions, inside, strict=True):
        items.sort()
        outer = structure.ops[region.parent].region if region.parent >= 0 else -1
        result.append(
            TimelineRegion(
                tuple(accumulate((end for _, end, _ in items), max)),
                tuple(max(item, -1) for _, _, item in items),
                _ready_positions(structure, kernels, [max(item, -1) for _, _, item in items], read),
                tuple((place, -1 - item) for place, (_, _, item) in enumerate(items) if item < 0),
                outer,
                region.runs_per_step // max(structure.regions[outer].runs_per_step, 1) if outer >= 0 else 1,
                region.runs_per_step,
                {item: place for place, (_, _, item) in enumerate(items) if item >= 0},
                positions,
                unchanged,
                _final_places(structure, kernels, [item for _, _, item in items], read) if outer >= 0 else frozenset(),
            )
        )
    return tuple(result)


def _run_positions(structure: Structure, kernels: Kernels) -> tuple[float, ...]:
    """Return where each kernel runs: at its last operation, but before its first reader in the region.

    For example, the dot of a residual stream that a loop saves for the backward pass forms one kernel with the update
    of the stack at the iteration's end, but runs before the layer that reads the stream. Two kernels that read from
    each other, such as a dot and the input of its epilogue, are not moved.
    """
    positions = list(map(float, kernels.positions))
    makers: dict[int, set[int]] = {}
    for reader, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        maker = _find_maker(structure, kernels, value)
        if maker not in (-1, reader) and kernels.regions[maker] == kernels.regions[reader]:
            makers.setdefault(reader, set()).add(maker)
    pending = sorted(makers, key=positions.__getitem__)
    moves = dict.fromkeys(range(len(positions)), _MOVES)
    while pending:
        reader = pending.pop()
        for maker in makers.get(reader, ()):
            is_mutual = reader in makers.get(maker, ())
            if positions[maker] >= positions[reader] and not is_mutual and moves[maker]:
                positions[maker] = positions[reader] - _JUST_BEFORE
                pending.append(maker)
                moves[maker] -= 1
    return tuple(positions)


def _ready_positions(structure: Structure, kernels: Kernels, items: Sequence[int], read: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """Return after how many items of a region each item's result can be ready.

    Elementwise work needed by a collective is done early: XLA's schedulers move it forward, such as a weight's cast.
    """
    multiplies = {dot.kernel for dot in kernels.dots}
    places = {kernel: place for place, kernel in enumerate(items) if kernel >= 0}
    ready: list[int] = []
    for place, kernel in enumerate(items):
        if kernel < 0 or kernel in multiplies:
            ready.append(place + 1)
            continue
        makers = (places.get(_find_maker(structure, kernels, value), -1) for value in read.get(kernel, ()))
        ready.append(max((ready[maker] for maker in makers if 0 <= maker < place), default=0))
    return tuple(ready)


def _final_places(structure: Structure, kernels: Kernels, items: Sequence[int], read: Mapping[int, Sequence[int]]) -> frozenset[int]:
    """Return elementwise work first read after the iteration, which XLA's schedulers leave to the end."""
    multiplies = {dot.kernel for dot in kernels.dots}
    needed = {_find_maker(structure, kernels, value) for item in items if item >= 0 for value in read.get(item, ())}
    needed |= {_find_maker(structure, kernels, value) for item in items if item < 0 for value in structure.ops[-1 - item].operands}
    return frozenset(place for place, item in enumerate(items) if item >= 0 and item not in multiplies and item not in needed)


def _find_maker(structure: Structure, kernels: Kernels, value: int) -> int:
    """Return the kernel that makes a value or its whole; -1 if it exists from the start."""
    while (maker := structure.values[value].maker) >= 0:
        if kernels.of[maker] >= 0 or not structure.ops[maker].operands:
            return kernels.of[maker]
        value = structure.ops[maker].operands[0]
    return -1


def _last_positions(structure: Structure) -> dict[int, int]:
    ends: dict[int, int] = {}
    for op in structure.ops:
        region = op.region
        while (parent := structure.regions[region].parent) >= 0:
            ends[parent] = max(ends.get(parent, 0), op.position)
            region = structure.ops[parent].region
    return ends
