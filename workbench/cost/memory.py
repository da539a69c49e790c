"""Memory of one device over the step, by role, from the lifetimes of the partitioned program's values.

Arguments live throughout the step, and a carried result overwrites its argument (donation). A value lives from its
operation to its last reader; fused values (see `propagation.structure` and `cost.fusion`) take no memory. A loop's peak
is added at the loop's position. Values in on-chip memory, and values that temporarily use a result's buffer, are not
counted.
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
_OPTIMIZER = "optimizer/"  # scope of the update, where a gathered weight overwrites the previous one


@dataclass(slots=True)
class _Life:
    """The lifetime of a value, or of a buffer without a value, in a region."""

    region: int
    first: int
    last: int
    bytes: int
    path: str = ""
    value: int = -1
    places: tuple[int, ...] = ()  # positions where it is written and read
    kernels: tuple[int, ...] = (-1,)  # kernels that write or read it, see `on_chip`

    @property
    def interval(self) -> Interval:
        return Interval(self.region, self.places or (self.first, max(self.first, self.last)), self.bytes, self.kernels)


class MemoryOverStep:
    """Memory of one device over a step; `on_chip` places values on the chip, `buckets` are bytes of runtime buffers."""

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
        self._freed = np.full(
            len(self._structure.ops) + 1, np.iinfo(np.int64).max
        )  # operation -> position where a collective reuses its memory
        self._buffers = [*self._collective_buffers(), *self._cast_buffers(beside_chip=on_chip is not None), *self._transposed_buffers()]
        if buckets:
            self._buffers.append(_Life(0, *lifetimes.extents[0], buckets, "buckets of gradients and gathered weights"))
        self._working = 0
        self._placed: list[tuple[int, int, int]] = []  # main's values on the chip: first and last position, bytes
        self._exclude_unallocated(on_chip)
        self._gathered = self._gather_whole()
        self._inner: dict[int, tuple[int, Integers]] = {}  # loop -> region with the highest peak, and its bytes by role
        for region in range(len(self._structure.regions) - 1, 0, -1):
            alive = self._live_bytes(region)
            worst = alive[:, int(alive.sum(axis=0).argmax())]
            parent = self._structure.regions[region].parent
            if parent not in self._inner or worst.sum() > self._inner[parent][1].sum():
                self._inner[parent] = region, worst
        self._main = self._live_bytes(0)
        self._main[_OUTPUT] = self._results  # allocated from the start
        self._main += self._argument_bytes()[:, None]

    def _collective_buffers(self) -> Iterator[_Life]:
        """Yield results of collectives; a collective that is its operand's last reader frees that memory."""
        reduced: set[tuple[int | None, int]] = set()
        for collective in self._partitioned.reshards:
            if collective.kind == "all-reduce":
                if self._lifetimes.reduces_in_place or (collective.source, collective.before) in reduced:
                    continue  # reduced in place, also over several axes in sequence
                reduced.add((collective.source, collective.before))
            operation = self._program.operations[collective.sender]
            if self._updates_in_place and operation.path.startswith(_OPTIMIZER):
                continue
            yield _Life(
                collective.region,
                collective.first_use,
                collective.last_use,
                collective.local_bytes,
                f"{operation.path} ({collective.kind})",
            )
            if collective.frees_source and collective.source is not None:
                self._freed[collective.source] = collective.first_use

    def _cast_buffers(self, *, beside_chip: bool) -> Iterator[_Life]:
        """Yield casts of stacked weights for loops; chips with on-chip memory keep them to the end of the last loop."""
        for cast in self._lifetimes.casts:
            path = self._program.operations[cast.operation].path
            size = int(self._sizes[cast.stack] * cast.share)
            yield _Life(0, cast.first, cast.last_of_all if beside_chip else cast.last, size, path)

    def _transposed_buffers(self) -> Iterator[_Life]:
        for index, value, first in self._lifetimes.transposed:
            op = self._structure.ops[index]
            yield _Life(op.region, first, op.position, int(self._sizes[value]), self._program.operations[index].path)

    def _exclude_unallocated(self, on_chip: OnChip | None) -> None:
        """Zero the bytes of values that stay on the chip or fit into a result's buffer."""
        if on_chip is None and not self._results:
            return
        lives = [*self._value_lives(beside_chip=on_chip is not None), *self._buffers]
        if on_chip is not None:
            intervals = [life.interval for life in lives]
            self._working = on_chip.peak_bytes(intervals)
            placed = [life for life, stays in zip(lives, on_chip.select_kept(intervals, self._working), strict=True) if stays]
            self._placed = [(life.first, life.last, life.bytes) for life in placed if life.region == 0]
            for life in placed:
                self._zero_bytes(life)
        for life in self._lives_in_results(lives):
            self._zero_bytes(life)

    def _zero_bytes(self, life: _Life) -> None:
        life.bytes = 0
        if life.value >= 0:
            self._sizes[life.value] = 0

    def _value_lives(self, *, beside_chip: bool) -> Iterator[_Life]:
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
        """Yield values that use a result's buffer before it is written, largest first, as XLA reuses allocations."""
        spans = self._lifetimes.regions[0]
        rows = [
            (int(self._sizes[value]), int(first) + self._is_view(value))
            for value, first, role in zip(spans.values, spans.first, spans.roles, strict=True)
            if role == _OUTPUT
        ]
        ends = self._lifetimes.loop_ends
        by_size = sorted((life for life in lives if life.bytes), key=lambda life: -life.bytes)
        for room, until in sorted(rows, reverse=True):
            occupied = np.zeros(until + 1, dtype=bool)
            for life in by_size:
                last = ends.get((life.region, life.last), life.last)
                if 0 < life.bytes <= room and last < until and not occupied[life.first : last + 1].any():
                    occupied[life.first : last + 1] = True
                    yield life

    def _is_view(self, value: int) -> bool:
        return self._structure.ops[self._structure.values[value].maker].kind in VIEWING

    @property
    def bytes_anywhere(self) -> int:
        """Peak bytes of temporaries including on-chip memory; 0 if the chip has none."""
        return self._working

    def on_chip(self) -> list[int]:
        """Return the bytes of main's values on the chip, by position as in `curve`."""
        start, sizes = self._lifetimes.extents[0][0], np.zeros(self._main.shape[1], dtype=np.int64)
        for first, last, size in self._placed:
            sizes[first - start : last - start + 1] += size
        return sizes.tolist()

    def memory(self) -> Memory:
        totals = zip(ROLES, map(int, self._main[:, self._peak_position()]), strict=True)
        by_role = {role: count for role, count in totals if count}
        computed = sum(count for role, count in by_role.items() if role not in (*ARGUMENT_ROLES, Role.OUTPUT))
        return Memory(by_role, working=max(self._working, computed))

    def curve(self) -> MemoryCurve:
        start = self._lifetimes.extents[0][0]
        paths = [""] * self._main.shape[1]
        for operation, op in zip(self._program.operations, self._structure.ops, strict=True):
            if op.region == 0:
                paths[op.position - start] = operation.path
        by_role = {role: tuple(row.tolist()) for role, row in zip(ROLES, self._main, strict=True) if row.any()}
        return MemoryCurve(tuple(paths), by_role)

    def alive(self, place: int | None = None) -> tuple[Alive, ...]:
        """Return the values alive at a position of main, default the peak; largest first."""
        merged: dict[tuple[str, Role], list[int]] = {}
        arguments = zip(self._program.arguments, self._structure.arguments, strict=True)
        on_device = ((tensor, value) for tensor, value in arguments if not self._structure.values[value].on_host)
        held = [(tensor.path, tensor.role, int(self._sizes[value])) for tensor, value in on_device]
        for path, role, count in (*held, *self._live_at(0, self._peak_position() if place is None else place)):
            sums = merged.setdefault((path, role), [0, 0])
            sums[0] += count
            sums[1] += 1
        alive = [Alive(path, role, count, number) for (path, role), (count, number) in merged.items() if count]
        return tuple(sorted(alive, key=lambda entry: (-entry.bytes, entry.path)))

    def _peak_position(self) -> int:
        return int(self._main.sum(axis=0).argmax())

    def _argument_bytes(self) -> Integers:
        held = np.zeros(len(ROLES), dtype=np.int64)
        for value, tensor in zip(self._structure.arguments, self._program.arguments, strict=True):
            if not self._structure.values[value].on_host:
                held[ROLES.index(tensor.role)] += self._sizes[value]
        return held

    def _gather_whole(self) -> dict[int, list[tuple[int, int]]]:
        """Return (position, bytes) by region of values gathered whole, e.g. for a sharded FFT, beside the collectives."""
        by_region: dict[int, list[tuple[int, int]]] = {}
        gathers = {collective.before: collective for collective in self._partitioned.reshards if collective.kind == "all-gather"}
        for index in dict.fromkeys((*self._lifetimes.gathering, *self._partitioned.unpartitioned)):
            op, is_whole = self._structure.ops[index], index in self._partitioned.unpartitioned
            if op.windows is not None and not is_whole:  # most exchange halos; gathered operands are read as far as the windows reach
                whole = gathers[index].local_bytes + int(self._sizes[op.results[0]]) if index in gathers else 0
            else:
                touched = (*(() if index in gathers else op.operands[:1]), *op.results)
                values = [
                    self._structure.values[value] for value in touched if self._is_sharded(value, () if is_whole else op.crossing_dims)
                ]
                whole = sum(tiled_bytes(value.shape, value.dtype) for value in values)
            if whole:
                by_region.setdefault(op.region, []).append((op.position, whole))
        return by_region

    def _is_sharded(self, value: int, dims: tuple[int, ...]) -> bool:
        value_dims = self._partitioned.dims[value]
        return value_dims is not None and any(axes for dim, axes in enumerate(value_dims) if dim in dims or not dims)

    def _last_positions(self, spans: Spans) -> Integers:
        return np.maximum(np.minimum(spans.last, self._freed[self._lifetimes.born[spans.values]]), spans.first)

    def _live_bytes(self, region: int) -> Integers:
        start, stop = self._lifetimes.extents[region]
        spans = self._lifetimes.regions[region]
        width = max(stop - start + 2, 1)
        changes = np.zeros(len(ROLES) * width, dtype=np.int64)
        counts = self._sizes[spans.values]
        np.add.at(changes, spans.roles * width + spans.first - start, counts)
        np.add.at(changes, spans.roles * width + self._last_positions(spans) - start + 1, -counts)
        table = changes.reshape(len(ROLES), width)
        for buffer in self._buffers:
            if buffer.region == region:
                table[_ACTIVATION, buffer.first - start] += buffer.bytes
                table[_ACTIVATION, min(buffer.last, stop) - start + 1] -= buffer.bytes
        for position, count in self._gathered.get(region, ()):
            table[_ACTIVATION, position - start] += count
            table[_ACTIVATION, position - start + 1] -= count
        alive: Integers = table.cumsum(axis=1)
        for loop, (_, peak) in self._inner.items():
            if self._structure.ops[loop].region == region:
                alive[:, self._structure.ops[loop].position - start] += peak
        return alive

    def _live_at(self, region: int, place: int) -> Iterator[tuple[str, Role, int]]:
        """Yield (path, role, bytes) of each value alive at a position of a region, including inner loops."""
        start, stop = self._lifetimes.extents[region]
        position, spans = start + place, self._lifetimes.regions[region]
        is_output = spans.roles == _OUTPUT  # outputs are allocated throughout
        is_alive = (spans.first <= position) & (position <= self._last_positions(spans)) | is_output
        for index in np.flatnonzero(is_alive):
            value = int(spans.values[index])
            named_after = self._lifetimes.stacked.get(value, self._structure.values[value].maker)
            yield self._program.operations[named_after].path, ROLES[spans.roles[index]], int(self._sizes[value])
        for buffer in self._buffers:
            if buffer.region == region and buffer.first <= position <= min(buffer.last, stop):
                yield buffer.path, Role.ACTIVATION, buffer.bytes
        for loop, (inner, _) in self._inner.items():
            if self._structure.ops[loop].region == region and self._structure.ops[loop].position == position:
                yield from self._live_at(inner, int(self._live_bytes(inner).sum(axis=0).argmax()))
