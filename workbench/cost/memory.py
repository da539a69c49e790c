"""Memory on one device over the step: the lifetimes of the partitioned program's values, summed; its peak, by role.

Arguments are alive throughout the step, and a carried result is written over its argument (donation). A value is alive from the operation
that makes it to its last reader, a fused one (see `propagation.structure` and `cost.fusion`) not at all. A loop's values are the loop's
while it runs: what is alive inside at its worst moment is added at the loop's position. Left out is what the compiler keeps on the chip,
and what uses, for a while, the memory that is set apart for a result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.cost.lifetimes import ROLES, Integers, Lifetimes, Spans
from workbench.cost.on_chip_memory import Interval, OnChip
from workbench.cost.tile_padding import tiled_bytes
from workbench.propagation import Propagated
from workbench.propagation.structure.stored_values import VIEWING
from workbench.reports.device_memory import ARGUMENT_ROLES, Alive, Memory, MemoryCurve

_ACTIVATION, _OUTPUT = ROLES.index(Role.ACTIVATION), ROLES.index(Role.OUTPUT)
_OPTIMIZER = "optimizer/"  # the scope of the update: a weight that is gathered there is written over the one before


@dataclass(slots=True)
class _Life:
    """What is alive in a region from one position to another: a value of the program, or a buffer that belongs to none."""

    region: int
    first: int
    last: int
    bytes: int
    path: str = ""
    value: int = -1
    places: tuple[int, ...] = ()  # where it is written and read
    kernels: tuple[int, ...] = (-1,)  # that write or read it, see `on_chip`

    @property
    def interval(self) -> Interval:
        return Interval(self.region, self.places or (self.first, max(self.first, self.last)), self.bytes, self.kernels)


class MemoryOverStep:
    """What is alive on one device at each position of a step.

    `local_bytes` are those of each value of the structure; `on_chip` says which of them stay in memory on the chip, where it has any;
    `updates_in_place` as in `Runtime`; `buckets` are bytes of its buffers, throughout the step.
    """

    def __init__(
        self,
        program: Program,
        partitioned: Propagated,
        lifetimes: Lifetimes,
        local_bytes: Sequence[int],
        on_chip: OnChip | None = None,
        *,
        updates_in_place: bool = False,
        buckets: int = 0,
    ) -> None:
        self._updates_in_place = updates_in_place
        self._program, self._partitioned, self._lifetimes = program, partitioned, lifetimes
        self._structure = partitioned.structure
        self._sizes = np.asarray(local_bytes, dtype=np.int64)
        self._results = int(sum(self._sizes[spans.values[spans.roles == _OUTPUT]].sum() for spans in lifetimes.regions))
        self._freed = np.full(len(self._structure.ops) + 1, np.iinfo(np.int64).max)  # by operation: where a collective takes its memory
        self._buffers = [*self._collective_buffers(), *self._cast_buffers(beside_chip=on_chip is not None), *self._transposed_buffers()]
        if buckets:
            self._buffers.append(_Life(0, *lifetimes.extents[0], buckets, "buckets of gradients and gathered weights"))
        self._working = 0
        self._exclude_unallocated(on_chip)
        self._gathered = self._gather_whole()
        self._inner: dict[int, tuple[int, Integers]] = {}  # by loop: its worst region, and the bytes alive there by role
        for region in range(len(self._structure.regions) - 1, 0, -1):
            alive = self._live_bytes(region)
            worst = alive[:, int(alive.sum(axis=0).argmax())]
            parent = self._structure.regions[region].parent
            if parent not in self._inner or worst.sum() > self._inner[parent][1].sum():
                self._inner[parent] = region, worst
        self._main = self._live_bytes(0)
        self._main[_OUTPUT] = self._results  # set apart from the start
        self._main += self._argument_bytes()[:, None]

    def _collective_buffers(self) -> Iterator[_Life]:
        """Results of collectives; one that is its operand's last reader reuses that memory from then on."""
        reduced: set[tuple[int | None, int]] = set()
        for each in self._partitioned.reshards:
            if each.kind == "all-reduce":
                if self._lifetimes.reduces_in_place or (each.source, each.before) in reduced:
                    continue  # in the same buffer; as is what is reduced over other axes again
                reduced.add((each.source, each.before))
            operation = self._program.operations[each.sender]
            if self._updates_in_place and operation.path.startswith(_OPTIMIZER):
                continue
            yield _Life(each.region, each.first_use, each.last_use, each.local_bytes, f"{operation.path} ({each.kind})")
            if each.frees_source and each.source is not None:
                self._freed[each.source] = each.first_use

    def _cast_buffers(self, *, beside_chip: bool) -> Iterator[_Life]:
        """Stacked weights as cast for a loop's dots. Chips with on-chip memory keep them to the end of the last loop."""
        for each in self._lifetimes.casts:
            path = self._program.operations[each.operation].path
            size = int(self._sizes[each.stack] * each.share)
            yield _Life(0, each.first, each.last_of_all if beside_chip else each.last, size, path)

    def _transposed_buffers(self) -> Iterator[_Life]:
        for index, value, first in self._lifetimes.transposed:
            op = self._structure.ops[index]
            yield _Life(op.region, first, op.position, int(self._sizes[value]), self._program.operations[index].path)

    def _exclude_unallocated(self, on_chip: OnChip | None) -> None:
        """Count no bytes for what stays on the chip, or fits into memory set apart for a result."""
        if on_chip is None and not self._results:
            return
        lives = [*self._value_lives(beside_chip=on_chip is not None), *self._buffers]
        if on_chip is not None:
            intervals = [each.interval for each in lives]
            self._working = on_chip.peak_bytes(intervals)
            for each, is_placed in zip(lives, on_chip.select_kept(intervals, self._working), strict=True):
                if is_placed:
                    self._zero_bytes(each)
        for each in self._lives_in_results(lives):
            self._zero_bytes(each)

    def _zero_bytes(self, life: _Life) -> None:
        life.bytes = 0
        if life.value >= 0:
            self._sizes[life.value] = 0

    def _value_lives(self, *, beside_chip: bool) -> Iterator[_Life]:
        """Values of the program; what writes and reads them is asked for beside memory on the chip only."""
        for region, spans in enumerate(self._lifetimes.regions):
            rows = zip(spans.values.tolist(), spans.first.tolist(), self._last_positions(spans).tolist(), spans.roles.tolist(), strict=True)
            for value, first, last, role in rows:
                if role != _OUTPUT and not beside_chip:
                    yield _Life(region, first, last, int(self._sizes[value]), value=value)
                elif role != _OUTPUT:
                    read = self._lifetimes.accesses[value]
                    places = tuple(sorted({first, *(place for place, _ in read if first < place < last), last}))
                    kernels = tuple(kernel for _, kernel in read)
                    yield _Life(region, first, last, int(self._sizes[value]), value=value, places=places, kernels=kernels)

    def _lives_in_results(self, lives: Sequence[_Life]) -> Iterator[_Life]:
        """Values that use a result's memory before that is made: one after the other, the largest first, as XLA reuses an allocation."""
        spans = self._lifetimes.regions[0]
        rows = [
            (int(self._sizes[value]), int(first) + self._is_view(value))
            for value, first, role in zip(spans.values, spans.first, spans.roles, strict=True)
            if role == _OUTPUT
        ]
        ends = self._lifetimes.loop_ends
        by_size = sorted((each for each in lives if each.bytes), key=lambda each: -each.bytes)
        for room, until in sorted(rows, reverse=True):
            occupied = np.zeros(until + 1, dtype=bool)
            for each in by_size:
                last = ends.get((each.region, each.last), each.last)
                if 0 < each.bytes <= room and last < until and not occupied[each.first : last + 1].any():
                    occupied[each.first : last + 1] = True
                    yield each

    def _is_view(self, value: int) -> bool:
        """Whether a value shares its operand's memory."""
        return self._structure.ops[self._structure.values[value].maker].kind in VIEWING

    @property
    def bytes_anywhere(self) -> int:
        """Bytes of temporaries at their worst moment, with those that stay on the chip; 0 where it has no memory of its own."""
        return self._working

    def memory(self) -> Memory:
        """Bytes at the peak by role."""
        totals = zip(ROLES, map(int, self._main[:, self._peak_position()]), strict=True)
        by_role = {role: count for role, count in totals if count}
        computed = sum(count for role, count in by_role.items() if role not in (*ARGUMENT_ROLES, Role.OUTPUT))
        return Memory(by_role, working=max(self._working, computed))

    def curve(self) -> MemoryCurve:
        """Bytes by role at each position of main."""
        start = self._lifetimes.extents[0][0]
        paths = [""] * self._main.shape[1]
        for operation, op in zip(self._program.operations, self._structure.ops, strict=True):
            if op.region == 0:
                paths[op.position - start] = operation.path
        by_role = {role: tuple(row.tolist()) for role, row in zip(ROLES, self._main, strict=True) if row.any()}
        return MemoryCurve(tuple(paths), by_role)

    def alive(self, place: int | None = None) -> tuple[Alive, ...]:
        """The values alive at a position of main, or at the peak; the largest first."""
        merged: dict[tuple[str, Role], list[int]] = {}
        arguments = zip(self._program.arguments, self._structure.arguments, strict=True)
        here = ((tensor, value) for tensor, value in arguments if not self._structure.values[value].on_host)
        held = [(tensor.path, tensor.role, int(self._sizes[value])) for tensor, value in here]
        for path, role, count in (*held, *self._live_at(0, self._peak_position() if place is None else place)):
            sums = merged.setdefault((path, role), [0, 0])
            sums[0] += count
            sums[1] += 1
        alive = [Alive(path, role, count, number) for (path, role), (count, number) in merged.items() if count]
        return tuple(sorted(alive, key=lambda each: (-each.bytes, each.path)))

    def _peak_position(self) -> int:
        return int(self._main.sum(axis=0).argmax())

    def _argument_bytes(self) -> Integers:
        held = np.zeros(len(ROLES), dtype=np.int64)
        for value, tensor in zip(self._structure.arguments, self._program.arguments, strict=True):
            if not self._structure.values[value].on_host:
                held[ROLES.index(tensor.role)] += self._sizes[value]
        return held

    def _gather_whole(self) -> dict[int, list[tuple[int, int]]]:
        """By region, (position, bytes): what XLA gathers whole for an FFT, a top-k or a cumulative sum that is sharded, besides what is
        sent."""
        found: dict[int, list[tuple[int, int]]] = {}
        brought = {each.before: each for each in self._partitioned.reshards if each.kind == "all-gather"}
        for index in dict.fromkeys((*self._lifetimes.gathering, *self._partitioned.unpartitioned)):
            op, is_whole = self._structure.ops[index], index in self._partitioned.unpartitioned
            if (
                op.windows is not None and not is_whole
            ):  # most exchange borders; of what is gathered each reads all that its windows reach over
                whole = brought[index].local_bytes + int(self._sizes[op.results[0]]) if index in brought else 0
            else:
                touched = (*(() if index in brought else op.operands[:1]), *op.results)
                values = [
                    self._structure.values[value] for value in touched if self._is_sharded(value, () if is_whole else op.crossing_dims)
                ]
                whole = sum(tiled_bytes(value.shape, value.dtype) for value in values)
            if whole:
                found.setdefault(op.region, []).append((op.position, whole))
        return found

    def _is_sharded(self, value: int, dims: tuple[int, ...]) -> bool:
        lies = self._partitioned.dims[value]
        return lies is not None and any(axes for dim, axes in enumerate(lies) if dim in dims or not dims)

    def _last_positions(self, spans: Spans) -> Integers:
        return np.maximum(np.minimum(spans.last, self._freed[self._lifetimes.born[spans.values]]), spans.first)

    def _live_bytes(self, region: int) -> Integers:
        """Bytes by role at each position of a region."""
        start, stop = self._lifetimes.extents[region]
        spans = self._lifetimes.regions[region]
        width = max(stop - start + 2, 1)
        changes = np.zeros(len(ROLES) * width, dtype=np.int64)
        counts = self._sizes[spans.values]
        np.add.at(changes, spans.roles * width + spans.first - start, counts)
        np.add.at(changes, spans.roles * width + self._last_positions(spans) - start + 1, -counts)
        table = changes.reshape(len(ROLES), width)
        for each in self._buffers:
            if each.region == region:
                table[_ACTIVATION, each.first - start] += each.bytes
                table[_ACTIVATION, min(each.last, stop) - start + 1] -= each.bytes
        for position, count in self._gathered.get(region, ()):
            table[_ACTIVATION, position - start] += count
            table[_ACTIVATION, position - start + 1] -= count
        alive: Integers = table.cumsum(axis=1)
        for loop, (_, peak) in self._inner.items():
            if self._structure.ops[loop].region == region:
                alive[:, self._structure.ops[loop].position - start] += peak
        return alive

    def _live_at(self, region: int, place: int) -> Iterator[tuple[str, Role, int]]:
        """(path, role, bytes) of each value alive at a place of a region, those of the loop that runs there too."""
        start, stop = self._lifetimes.extents[region]
        position, spans = start + place, self._lifetimes.regions[region]
        is_there = (spans.first <= position) & (position <= self._last_positions(spans)) | (spans.roles == _OUTPUT)  # set apart
        for index in np.flatnonzero(is_there):
            value = int(spans.values[index])
            named_after = self._lifetimes.stacked.get(value, self._structure.values[value].maker)
            yield self._program.operations[named_after].path, ROLES[spans.roles[index]], int(self._sizes[value])
        for each in self._buffers:
            if each.region == region and each.first <= position <= min(each.last, stop):
                yield each.path, Role.ACTIVATION, each.bytes
        for loop, (inner, _) in self._inner.items():
            if self._structure.ops[loop].region == region and self._structure.ops[loop].position == position:
                yield from self._live_at(inner, int(self._live_bytes(inner).sum(axis=0).argmax()))
