"""Predict which values stay in on-chip memory and take no device memory: XLA:TPU's memory-space assignment, to first
order.

Values are ranked by benefit over the square root of size: bytes times accesses, times five in a loop
(`memory_space_assignment`: `GetMemoryBoundedness`, `kWhileExecutionCount`). A value stays if it fits beside
higher-ranked values for its whole life, and no gap between accesses exceeds a multiple of its copy time
(`CanAllocateInAlternateMemoryNoCopy`). Values that are copied in temporarily still take device memory.
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
_CROWDED = tuned("on_chip_crowded")
_BOTH_ENDS = 2
Seconds = NDArray[np.float64]


class Interval(NamedTuple):
    """One value's lifetime: region, sorted positions where it is written and read, and bytes."""

    region: int
    places: tuple[int, ...]
    bytes: int
    kernels: tuple[int, ...]  # that write or read it; -1 for a collective, or a loop that takes it whole

    @property
    def is_carried(self) -> bool:
        """Return whether loops carry it and need it at the same address."""
        return len(self.places) > _BOTH_ENDS and -1 in self.kernels


@dataclass(frozen=True, slots=True, eq=False)
class OnChip:
    """On-chip memory during one step; `copying` is seconds per byte, `begins` and `ends` are seconds by position."""

    capacity: int
    copying: float
    begins: Seconds
    ends: Seconds
    waits: Seconds  # wait for device memory by kernel; the last entry, for other accesses, is infinite
    depths: tuple[int, ...]  # loop depth of each region
    last: Mapping[tuple[int, int], int]  # (region, position) of a loop -> last position of its body

    def select_kept(self, intervals: Sequence[Interval], most: int | None = None) -> list[bool]:
        """Return whether each interval stays on the chip; all do if they fit at once (peak `most`, if known)."""
        peak = self.peak_bytes(intervals) if most is None else most
        if peak <= self.capacity:
            return [True] * len(intervals)
        is_kept = [False] * len(intervals)
        occupied = np.zeros(len(self.begins), dtype=np.int64)
        for number in self._rank_intervals(intervals, is_crowded=peak > _CROWDED * self.capacity):
            interval = intervals[number]
            life = occupied[interval.places[0] : self._last_position(interval) + 1]
            if life.max(initial=0) + interval.bytes <= self.capacity:
                life += interval.bytes
                is_kept[number] = True
        return is_kept

    def peak_bytes(self, intervals: Sequence[Interval]) -> int:
        """Return the peak sum of bytes of these intervals."""
        changes = np.zeros(len(self.begins) + 1, dtype=np.int64)
        for interval in intervals:
            changes[interval.places[0]] += interval.bytes
            changes[self._last_position(interval) + 1] -= interval.bytes
        return int(changes.cumsum().max(initial=0))

    def _rank_intervals(self, intervals: Sequence[Interval], *, is_crowded: bool) -> list[int]:
        """Rank by worth; values with long gaps come last, and are evicted for prefetched copies if the memory `is_crowded`."""
        smallest = self.capacity // _GRANULES
        ranks = {
            i: (self._is_never_alone(interval), self._worth(interval))
            for i, interval in enumerate(intervals)
            if smallest <= interval.bytes <= _LARGEST * self.capacity
        }
        placed = (i for i, (is_never_alone, worth) in ranks.items() if worth > 0 and (is_never_alone or not is_crowded))
        return sorted(placed, key=ranks.__getitem__, reverse=True)

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
    """Return the bytes of on-chip memory available to values; 0 if the chip has none."""
    return int(chip.on_chip * _SHARE)


def on_chip(structure: Structure, kernels: Kernels, times: KernelTimes, extents: Sequence[tuple[int, int]], chip: Chip) -> OnChip:
    """Build the on-chip memory model; `times` are per execution, `extents` the first and last position of each region."""
    depths = _loop_depths(structure)
    lasts = np.zeros(max(last for _, last in extents) + 2)
    positions, regions = (np.array(column, dtype=np.intp) for column in (kernels.positions, kernels.regions))  # may be empty
    np.add.at(lasts, positions, times.busy * np.power(_LOOP_WEIGHT, np.array(depths)[regions]))
    ends = lasts.cumsum()
    waits = np.append(np.maximum(times.memory - np.maximum(times.dots, times.vector), 0.0), np.inf)
    return OnChip(
        placeable_bytes(chip), 1 / chip.memory_bandwidth, ends - lasts, ends, waits, tuple(depths), dict(loop_ends(structure, extents))
    )


def _loop_depths(structure: Structure) -> list[int]:
    bodies = set(structure.body_of.values())
    depths: list[int] = []
    for number, region in enumerate(structure.regions):
        outside = structure.ops[region.parent].region if region.parent >= 0 else 0
        depths.append((depths[outside] if number else 0) + (number in bodies))
    return depths


def loop_ends(structure: Structure, extents: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield each loop's (region, position) with the last position of its body."""
    for number, region in enumerate(structure.regions):
        if region.parent >= 0:
            op = structure.ops[region.parent]
            yield (op.region, op.position), extents[number][1]


def accesses(structure: Structure, kernels: Kernels) -> list[tuple[tuple[int, int], ...]]:
    """Return each value's accesses (position, kernel or -1 for a loop), as tuples that garbage collection skips."""
    by_value: list[list[tuple[int, int]]] = [[] for _ in structure.values]
    for kernel, value in zip(kernels.writers.tolist(), kernels.written.tolist(), strict=True):
        by_value[value].append((-1, kernel))
    for kernel, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        op, home = structure.ops[kernels.ops[kernel]], structure.values[value].region
        while op.region != home and op.region > 0:
            op = structure.ops[structure.regions[op.region].parent]
        by_value[value].append((op.position, kernel))
    for index in structure.control_flow:
        for value in structure.ops[index].operands:
            by_value[value].append((structure.ops[index].position, -1))
    return [*map(tuple, by_value)]
