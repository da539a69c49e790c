"""Which values the compiler keeps in on-chip memory, so that they take no device memory: XLA:TPU's memory-space assignment, to first order.

Values are taken in the order of their benefit from on-chip memory over the root of their size: bytes times accesses, five times as much in
a loop (`memory_space_assignment`: `GetMemoryBoundedness`, `kWhileExecutionCount`). A value stays there if it fits beside those before it
for all its life and is never unused for long: not between two accesses for more than so many times what copying it would take
(`CanAllocateInAlternateMemoryNoCopy`). Others may be copied there for a while, and take device memory all the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.kernel_times import KernelTimes
from workbench.cost.tuned_constants import tuned
from workbench.hardware.hardware import Chip
from workbench.propagation.structure.program_structure import Structure

_LOOP_WEIGHT = int(tuned("loop_weight"))
_GRANULES = int(tuned("on_chip_granules"))
_SHARE = tuned("on_chip_share")
_LARGEST = tuned("on_chip_largest")
_LONGEST_GAP = int(tuned("on_chip_longest_gap"))
_BOTH_ENDS = 2
Seconds = NDArray[np.float64]


class Interval(NamedTuple):
    """One value's lifetime: region, the positions where it is written and read in rising order, and bytes."""

    region: int
    places: tuple[int, ...]
    bytes: int
    kernels: tuple[int, ...]  # that write or read it; -1 for a collective, and for a loop that takes it as a whole

    @property
    def is_carried(self) -> bool:
        """Whether loops carry it, which have to find it where they left it."""
        return len(self.places) > _BOTH_ENDS and -1 in self.kernels


@dataclass(frozen=True, slots=True, eq=False)
class OnChip:
    """On-chip memory during one step: `capacity` bytes, `copying` seconds a byte to and from device memory; seconds that pass until each
    position of the program begins and ends, a loop's body weighted as XLA does."""

    capacity: int
    copying: float
    begins: Seconds
    ends: Seconds
    waits: Seconds  # by kernel: how long it waits for device memory; the last entry, for what is no kernel, is infinite
    depths: tuple[int, ...]  # loops that each region is in
    last: Mapping[tuple[int, int], int]  # by region and position of a loop: the last position of its body

    def select_kept(self, intervals: Sequence[Interval], most: int | None = None) -> list[bool]:
        """For each interval, whether it stays on the chip: all of them where there is room for all at once (`most` of them, if known)."""
        if (self.peak_bytes(intervals) if most is None else most) <= self.capacity:
            return [True] * len(intervals)
        is_kept = [False] * len(intervals)
        occupied = np.zeros(len(self.begins), dtype=np.int64)
        for number in self._rank_intervals(intervals):
            each = intervals[number]
            life = occupied[each.places[0] : self._last_position(each) + 1]
            if life.max(initial=0) + each.bytes <= self.capacity:
                life += each.bytes
                is_kept[number] = True
        return is_kept

    def peak_bytes(self, intervals: Sequence[Interval]) -> int:
        """Bytes of all these intervals at the moment when they are most, wherever they are."""
        changes = np.zeros(len(self.begins) + 1, dtype=np.int64)
        for each in intervals:
            changes[each.places[0]] += each.bytes
            changes[self._last_position(each) + 1] -= each.bytes
        return int(changes.cumsum().max(initial=0))

    def _rank_intervals(self, intervals: Sequence[Interval]) -> list[int]:
        """The intervals that may stay, those of the highest benefit first."""
        smallest = self.capacity // _GRANULES
        worth = {
            i: self._worth(each)
            for i, each in enumerate(intervals)
            if smallest <= each.bytes <= _LARGEST * self.capacity and self._is_never_alone(each)
        }
        return sorted((i for i in worth if worth[i] > 0), key=lambda i: -worth[i])

    def _worth(self, each: Interval) -> float:
        copied = each.bytes * self.copying
        gained = sum(min(copied, self.waits[kernel]) for kernel in each.kernels)
        return float(_LOOP_WEIGHT ** self.depths[each.region] * gained / max(each.bytes, 1) ** 0.5)

    def _is_never_alone(self, each: Interval) -> bool:
        if each.is_carried:
            return True
        left = (self.ends[self.last.get((each.region, place), place)] for place in each.places)
        waits = max((self.begins[after] - before for before, after in zip(left, each.places[1:], strict=False)), default=0.0)
        return bool(waits <= _LONGEST_GAP * each.bytes * self.copying * _LOOP_WEIGHT ** self.depths[each.region])

    def _last_position(self, each: Interval) -> int:
        return self.last.get((each.region, each.places[-1]), each.places[-1])


def placeable_bytes(chip: Chip) -> int:
    """Bytes of a chip's own memory that values may stay in; 0 where it has none."""
    return int(chip.on_chip * _SHARE)


def on_chip(structure: Structure, kernels: Kernels, times: KernelTimes, extents: Sequence[tuple[int, int]], chip: Chip) -> OnChip:
    """`times` of each kernel, once; `extents` first and last position of each region."""
    depths = _loop_depths(structure)
    lasts = np.zeros(max(last for _, last in extents) + 2)
    positions, regions = (np.array(each, dtype=np.intp) for each in (kernels.positions, kernels.regions))  # a program may have none
    np.add.at(lasts, positions, times.busy * np.power(_LOOP_WEIGHT, np.array(depths)[regions]))
    ends = lasts.cumsum()
    waits = np.append(np.maximum(times.memory - np.maximum(times.dots, times.vector), 0.0), np.inf)
    return OnChip(
        placeable_bytes(chip),
        1 / chip.memory_bandwidth,
        ends - lasts,
        ends,
        waits,
        tuple(depths),
        dict(loop_ends(structure, extents)),
    )


def _loop_depths(structure: Structure) -> list[int]:
    bodies = set(structure.body_of.values())
    depths: list[int] = []
    for number, region in enumerate(structure.regions):
        outside = structure.ops[region.parent].region if region.parent >= 0 else 0
        depths.append((depths[outside] if number else 0) + (number in bodies))
    return depths


def loop_ends(structure: Structure, extents: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], int]]:
    """Where each loop stands, by its region and position, and the last of its kernels."""
    for number, region in enumerate(structure.regions):
        if region.parent >= 0:
            op = structure.ops[region.parent]
            yield (op.region, op.position), extents[number][1]


def accesses(structure: Structure, kernels: Kernels) -> list[tuple[tuple[int, int], ...]]:
    """For each value, (position, kernel) where it is read, by a kernel or by a loop as a whole, -1; after the kernel that makes it.

    Tuples of numbers, which garbage collection does not traverse.
    """
    found: list[list[tuple[int, int]]] = [[] for _ in structure.values]
    for kernel, value in zip(kernels.writers.tolist(), kernels.written.tolist(), strict=True):
        found[value].append((-1, kernel))
    for kernel, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        op, home = structure.ops[kernels.ops[kernel]], structure.values[value].region
        while op.region != home and op.region > 0:
            op = structure.ops[structure.regions[op.region].parent]
        found[value].append((op.position, kernel))
    for index in structure.control_flow:
        for value in structure.ops[index].operands:
            found[value].append((structure.ops[index].position, -1))
    return [*map(tuple, found)]
