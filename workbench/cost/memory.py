"""Memory on one device over the step: the lifetimes of the partitioned program's values, summed; its peak, by role.

Arguments live through the step, and a carried result is written where its argument lay (donation). A value lives from the operation that
makes it to its last reader, fused ones (see `partition.structure` and `partition.fusion`) not at all. A loop's values are the loop's while
it runs: what is alive inside at its worst moment is added at the loop's place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.cost.on_chip import Interval, OnChip, accesses
from workbench.cost.tiles import laid_out_bytes
from workbench.partition import Partitioned
from workbench.partition.fusion import VIEWING
from workbench.partition.kernels import Kernels
from workbench.partition.reshards import Reshard
from workbench.partition.structure import Structure, Value
from workbench.program import Program
from workbench.report import Alive, Memory, MemoryCurve
from workbench.tensor import Role

_ROLES = tuple(Role)
_ACTIVATION, _OUTPUT = _ROLES.index(Role.ACTIVATION), _ROLES.index(Role.OUTPUT)
_ON_WHOLE_ARRAYS = ("stablehlo.fft", "stablehlo.reduce_window", "stablehlo.custom_call")
Integers = NDArray[np.int64]


class Spans(NamedTuple):
    """Stored values of a region: value, first and last position, role; one array each."""

    values: Integers
    first: Integers
    last: Integers
    roles: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """What never changes with the layout."""

    regions: tuple[Spans, ...]
    extents: tuple[tuple[int, int], ...]  # first and last position of each region
    born: Integers  # the operation that makes each value, -1 for an argument
    gathering: tuple[int, ...]  # operations XLA runs on whole arrays
    reduces_in_place: bool  # an all-reduce's result lies where its operand did
    accesses: Sequence[Sequence[int]]  # positions where each value is read


class MemoryOverStep:
    """What is alive on one device at each place of a step.

    `local_bytes` are those of each value of the structure, `on_chip` what of activations the compiler keeps in memory on the chip.
    """

    def __init__(self, program: Program, partitioned: Partitioned, lifetimes: Lifetimes, local_bytes: Sequence[int], on_chip: OnChip | None = None) -> None:
        self._program, self._partitioned, self._lifetimes = program, partitioned, lifetimes
        self._structure = partitioned.structure
        self._sizes = np.asarray(local_bytes, dtype=np.int64)
        self._buffers: dict[int, list[Reshard]] = {}
        freed = np.full(len(self._structure.ops) + 1, np.iinfo(np.int64).max)  # by operation: where a collective takes its result's place
        reduced: set[tuple[int | None, int]] = set()
        for each in partitioned.reshards:
            if each.kind == "all-reduce":
                if lifetimes.reduces_in_place or (each.source, each.before) in reduced:
                    continue  # in the same buffer; as is what is reduced over other axes again
                reduced.add((each.source, each.before))
            self._buffers.setdefault(each.region, []).append(each)
            if each.frees_source and each.source is not None:
                freed[each.source] = each.first_use
        self._freed = freed
        if on_chip is not None:
            self._place_on_chip(on_chip)
        self._gathered = self._gather_whole()
        self._inner: dict[int, tuple[int, Integers]] = {}  # by loop: its worst region, and what is alive there by role
        for region in range(len(self._structure.regions) - 1, 0, -1):
            alive = self._alive(region)
            worst = alive[:, int(alive.sum(axis=0).argmax())]
            parent = self._structure.regions[region].parent
            if parent not in self._inner or worst.sum() > self._inner[parent][1].sum():
                self._inner[parent] = region, worst
        self._main = self._alive(0)
        self._main[_OUTPUT] += self._room_for_results()
        self._main += self._arguments()[:, None]

    def _place_on_chip(self, on_chip: OnChip) -> None:
        """Leave out what stays on the chip."""
        lifetimes, owners, intervals = self._lifetimes, [], []
        for region, spans in enumerate(lifetimes.regions):
            lives = zip(spans.values.tolist(), spans.first.tolist(), self._last(spans).tolist(), spans.roles.tolist(), strict=True)
            for value, first, last, role in lives:
                if role != _OUTPUT:
                    places = sorted({first, last, *(each for each in lifetimes.accesses[value] if first < each < last)})
                    intervals.append(Interval(region, tuple(places), int(self._sizes[value])))
                    owners.append(value)
        moved = [each for group in self._buffers.values() for each in group]
        intervals += [Interval(each.region, (each.first_use, max(each.first_use,each.last_use)), each.local_bytes) for each in moved]
        placed = on_chip.kept(intervals)
        self._sizes[[value for value, is_placed in zip(owners, placed, strict=False) if is_placed]] = 0
        stays = {id(each) for each, is_placed in zip(moved, placed[len(owners) :], strict=True) if is_placed}
        self._buffers = {region: [each for each in group if id(each) not in stays] for region, group in self._buffers.items()}

    def memory(self) -> Memory:
        """Bytes at the peak by role."""
        totals = zip(_ROLES, map(int, self._main[:, self._worst()]), strict=True)
        return Memory({role: count for role, count in totals if count})

    def curve(self) -> MemoryCurve:
        """Bytes by role at each place of main."""
        start = self._lifetimes.extents[0][0]
        paths = [""] * self._main.shape[1]
        for operation, op in zip(self._program.operations, self._structure.ops, strict=True):
            if op.region == 0:
                paths[op.position - start] = operation.path
        by_role = {role: tuple(row.tolist()) for role, row in zip(_ROLES, self._main, strict=True) if row.any()}
        return MemoryCurve(tuple(paths), by_role)

    def alive(self, place: int | None = None) -> tuple[Alive, ...]:
        """What is there at a place of main, or at the peak; the largest first."""
        merged: dict[tuple[str, Role], list[int]] = {}
        arguments = zip(self._program.arguments, self._structure.arguments, strict=True)
        held = [(tensor.path, tensor.role, int(self._sizes[value])) for tensor, value in arguments]
        for path, role, count in (*held, *self._alive_at(0, self._worst() if place is None else place)):
            sums = merged.setdefault((path, role), [0, 0])
            sums[0] += count
            sums[1] += 1
        alive = [Alive(path, role, count, number) for (path, role), (count, number) in merged.items() if count]
        return tuple(sorted(alive, key=lambda each: (-each.bytes, each.path)))

    def _worst(self) -> int:
        return int(self._main.sum(axis=0).argmax())

    def _arguments(self) -> Integers:
        held = np.zeros(len(_ROLES), dtype=np.int64)
        for value, tensor in zip(self._structure.arguments, self._program.arguments, strict=True):
            if not self._structure.values[value].on_host:
                held[_ROLES.index(tensor.role)] += self._sizes[value]
        return held

    def _gather_whole(self) -> dict[int, list[tuple[int, int]]]:
        """By region, (position, bytes): XLA gathers what an FFT, a top-k or a running sum reads along a dimension that is cut."""
        found: dict[int, list[tuple[int, int]]] = {}
        for index in self._lifetimes.gathering:
            op = self._structure.ops[index]
            values = [value for value in (op.operands[0], *op.results) if self._is_cut(value, op.shifted)]
            whole = sum(laid_out_bytes(self._structure.values[value].shape, self._structure.values[value].dtype) for value in values)
            if values:
                found.setdefault(op.region, []).append((op.position, whole))
        return found

    def _is_cut(self, value: int, dims: tuple[int, ...]) -> bool:
        lies = self._partitioned.dims[value]
        return lies is not None and any(axes for dim, axes in enumerate(lies) if dim in dims or not dims)

    def _room_for_results(self) -> Integers:
        """Bytes set apart at each place of main for results that are not there yet, less what smaller values find room in meanwhile."""
        start, stop = self._lifetimes.extents[0]
        spans = self._lifetimes.regions[0]
        room = np.zeros(stop - start + 2, dtype=np.int64)
        results = spans.roles == _OUTPUT
        if not results.any():
            return room
        sizes = self._sizes[spans.values]
        room[0] = sizes[results].sum()
        np.subtract.at(room, spans.first[results] - start, sizes[results])
        small = ~results & (sizes <= sizes[results].max())
        used = np.zeros(stop - start + 2, dtype=np.int64)
        np.add.at(used, spans.first[small] - start, sizes[small])
        np.subtract.at(used, self._last(spans)[small] - start + 1, sizes[small])
        free: Integers = np.maximum(room.cumsum() - used.cumsum(), 0)
        return free

    def _last(self, spans: Spans) -> Integers:
        return np.maximum(np.minimum(spans.last, self._freed[self._lifetimes.born[spans.values]]), spans.first)

    def _alive(self, region: int) -> Integers:
        """Bytes by role at each position of a region."""
        start, stop = self._lifetimes.extents[region]
        spans = self._lifetimes.regions[region]
        width = max(stop - start + 2, 1)
        changes = np.zeros(len(_ROLES) * width, dtype=np.int64)
        counts = self._sizes[spans.values]
        np.add.at(changes, spans.roles * width + spans.first - start, counts)
        np.add.at(changes, spans.roles * width + self._last(spans) - start + 1, -counts)
        table = changes.reshape(len(_ROLES), width)
        for each in self._buffers.get(region, ()):
            table[_ACTIVATION, each.first_use - start] += each.local_bytes
            table[_ACTIVATION, min(each.last_use, stop) - start + 1] -= each.local_bytes
        for position, count in self._gathered.get(region, ()):
            table[_ACTIVATION, position - start] += count
            table[_ACTIVATION, position - start + 1] -= count
        alive: Integers = table.cumsum(axis=1)
        for loop, (_, peak) in self._inner.items():
            if self._structure.ops[loop].region == region:
                alive[:, self._structure.ops[loop].position - start] += peak
        return alive

    def _alive_at(self, region: int, place: int) -> Iterator[tuple[str, Role, int]]:
        """(path, role, bytes) of each value alive at a place of a region, those of the loop that runs there too."""
        start, stop = self._lifetimes.extents[region]
        position, spans = start + place, self._lifetimes.regions[region]
        for index in np.flatnonzero((spans.first <= position) & (position <= self._last(spans))):
            value = int(spans.values[index])
            born = self._structure.values[value].born
            yield self._program.operations[born].path, _ROLES[spans.roles[index]], int(self._sizes[value])
        for each in self._buffers.get(region, ()):
            if each.first_use <= position <= min(each.last_use, stop):
                operation = self._program.operations[each.source if each.source is not None else each.before]
                yield f"{operation.path} ({each.kind})", Role.ACTIVATION, each.local_bytes
        for loop, (inner, _) in self._inner.items():
            if self._structure.ops[loop].region == region and self._structure.ops[loop].position == position:
                yield from self._alive_at(inner, int(self._alive(inner).sum(axis=0).argmax()))


def lifetimes_of(program: Program, structure: Structure, kernels: Kernels, *, recomputes: bool = False) -> Lifetimes:
    """Made once a program; `kept` are the stored values and the positions up to which they are read, if not as the structure has them."""
    kept = kernels.kept if recomputes else None
    extents = _extents(structure)
    last_use = {i: value.last_use for i, value in enumerate(structure.values) if _is_stored(value)} if kept is None else dict(kept)
    returned = [value if kept is None else _viewed(structure, value) for value in structure.returned]
    carried = {returned[result] for result, _ in program.carried}
    outputs = set(returned) - carried
    shapes = {tensor.shape for tensor in program.arguments if tensor.role is Role.PARAMETER and tensor.shape}
    in_place = _loop_buffers_in_place(structure, last_use)
    regions = []
    for number, region in enumerate(structure.regions):
        spans = []
        for index in region.values:
            value = structure.values[index]
            if value.born < 0 or index not in last_use or value.on_host or index in carried or index in in_place:
                continue
            first = structure.ops[value.born].position
            last = extents[number][1] if index in outputs else min(max(last_use[index], first), extents[number][1])
            role = _role(program, value.born, value.shape, shapes, is_output=index in outputs)
            spans.append((index, first, last, _ROLES.index(role)))
        columns = np.array(spans, dtype=np.int64).reshape(-1, 4)
        regions.append(Spans(*(columns[:, i] for i in range(4))))
    born = np.array([value.born for value in structure.values], dtype=np.int64)
    gathering = tuple(index for index, op in enumerate(structure.ops) if op.kind in _ON_WHOLE_ARRAYS and not op.placement)
    return Lifetimes(tuple(regions), tuple(extents), born, gathering, recomputes, accesses(structure, kernels))


def _viewed(structure: Structure, value: int) -> int:
    """What a value is a view of."""
    while (born := structure.values[value].born) >= 0 and structure.ops[born].kind in VIEWING and len(structure.ops[born].results) == 1:
        value = structure.ops[born].operands[0]
    return value


def _is_stored(value: Value) -> bool:
    return value.stored and value.alias is None


def _role(program: Program, born: int, shape: tuple[int, ...], parameters: set[tuple[int, ...]], *, is_output: bool) -> Role:
    path = program.operations[born].path
    if is_output:
        return Role.OUTPUT
    # What has a parameter's shape in the backward pass or the optimiser is a gradient or made of one.
    return Role.GRADIENT if shape in parameters and path.startswith(("grad/", "optimizer/")) else Role.ACTIVATION


def _extents(structure: Structure) -> list[tuple[int, int]]:
    extents = [(max(op.position for op in structure.ops), 0)] * len(structure.regions)
    for op in structure.ops:
        region = op.region
        while region >= 0:
            first, last = extents[region]
            extents[region] = min(first, op.position), max(last, op.position)
            parent = structure.regions[region].parent
            region = structure.ops[parent].region if parent >= 0 else -1
    return extents


def _loop_buffers_in_place(structure: Structure, last_use: dict[int, int]) -> set[int]:
    """Results of a loop that take over the buffer they started in: what the body hands on unchanged, and what no one reads afterwards.

    `last_use` of what they take over is moved to theirs.
    """
    found = set()
    for loop, body in structure.body_of.items():
        op = structure.ops[loop]
        last = max(index for index, each in enumerate(structure.ops) if each.region == body)
        arguments = [index for index in structure.regions[body].values if structure.values[index].born < 0]
        for slot, result in enumerate(op.results):
            start = structure.values[op.operands[slot]]
            unchanged = structure.ops[last].operands[slot] == arguments[slot]
            dies_here = start.born >= 0 and last_use.get(op.operands[slot]) == op.position and start.region == op.region
            if unchanged:
                found.add(result)
            elif dies_here:
                last_use[op.operands[slot]] = max(op.position, last_use.get(result, -1))
                found.add(result)
    return found
