"""The regions of a step, main and the bodies of its loops, as items in order, for `simulate_overlap`; no layout changes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from workbench.cost.fusion.kernel_table import Kernels
from workbench.propagation.structure.program_structure import Structure, unchanged_arguments

_JUST_BEFORE = 1e-4  # positions: so many kernels can be moved before one operation that they stay behind the one before it
_MOVES = 8  # of a kernel: a chain of kernels that each read from the next is moved in one go, a longer ring of them not at all


@dataclass(frozen=True, slots=True)
class TimelineRegion:
    """The items of main or of a loop body in order: kernels, and loops (branches too) as one item each."""

    ends: tuple[float, ...]  # the last position of each item
    kernels: tuple[int, ...]  # the kernel's number; -1 for a loop
    ready: tuple[int, ...]  # for each item: after how many items its result can be ready at the earliest (see `_ready_positions`)
    loops: tuple[tuple[int, int], ...]  # (number of the item, operation)
    parent: int  # the region its loop is in; -1 for main
    trips: int  # iterations of one execution of its loop
    times: int
    places: Mapping[int, int]  # for each kernel its place among the items
    positions: Sequence[float]  # of every kernel of the program, see `_run_positions`
    unchanged: frozenset[int]  # arguments of this loop, and of others, that every iteration passes on as they are
    final: frozenset[int]  # places of elementwise work of a loop that the next iteration, or what follows the loop, is the first to read


def regions_of(structure: Structure, kernels: Kernels) -> tuple[TimelineRegion, ...]:
    """The regions of a program, computed once; a region's inner ones come behind it."""
    ends = _last_positions(structure)
    positions, unchanged = _run_positions(structure, kernels), unchanged_arguments(structure)
    inside: list[list[tuple[float, float, int]]] = [[] for _ in structure.regions]  # (position, end, kernel or -1 - operation)
    for number, position in enumerate(positions):
        inside[kernels.regions[number]].append((position, position, number))
    for op in structure.control_flow:
        record = structure.ops[op]
        inside[record.region].append((record.position, max(ends.get(op, 0), record.position), -1 - op))
    read: dict[int, list[int]] = {}
    for kernel, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        read.setdefault(kernel, []).append(value)
    found = []
    for region, items in zip(structure.regions, inside, strict=True):
        items.sort()
        outer = structure.ops[region.parent].region if region.parent >= 0 else -1
        found.append(
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
    return tuple(found)


def _run_positions(structure: Structure, kernels: Kernels) -> tuple[float, ...]:
    """Where each kernel runs among the traced operations: at its last one, but before the first kernel of its region that reads from it.

    The dot of a residual stream that a loop keeps for the backward pass is one kernel with the update of what is kept, at the iteration's
    end, and runs before the layer that reads the stream all the same. Of two that read from each other, a dot and what its epilogue waits
    for, neither is moved.
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
    """After how many items of a region each item's result can be ready. A dot or a loop is done where it stands; elementwise work is done
    as soon as its operands are ready, if a collective waits for it: XLA's schedulers move it forward, the cast of a weight that is
    gathered, say, to the beginning of the iteration."""
    multiplies = {each.kernel for each in kernels.dots}
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
    """Elementwise work that nothing else in its iteration reads: XLA's schedulers leave it to the end, and so what it waits for. A block
    that a ring passes on, say, is put together there, wherever the program says so."""
    multiplies = {each.kernel for each in kernels.dots}
    needed = {_find_maker(structure, kernels, value) for item in items if item >= 0 for value in read.get(item, ())}
    needed |= {_find_maker(structure, kernels, value) for item in items if item < 0 for value in structure.ops[-1 - item].operands}
    return frozenset(place for place, item in enumerate(items) if item >= 0 and item not in multiplies and item not in needed)


def _find_maker(structure: Structure, kernels: Kernels, value: int) -> int:
    """The kernel that makes a value, or what it is a part of; -1 if it is present from the start."""
    while (born := structure.values[value].maker) >= 0:
        if kernels.of[born] >= 0 or not structure.ops[born].operands:
            return kernels.of[born]
        value = structure.ops[born].operands[0]
    return -1


def _last_positions(structure: Structure) -> dict[int, int]:
    """The last position inside each control-flow operation."""
    ends: dict[int, int] = {}
    for op in structure.ops:
        region = op.region
        while (parent := structure.regions[region].parent) >= 0:
            ends[parent] = max(ends.get(parent, 0), op.position)
            region = structure.ops[parent].region
    return ends
