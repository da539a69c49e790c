"""Memory on one device over the step: the lifetimes of the partitioned program's values, summed; its peak, by role.

Arguments live through the step, and a carried result is written where its argument lay (donation). A value lives from the operation that
makes it to its last reader, fused ones (see `partition.structure`) not at all. A loop's values are the loop's while it runs: what is alive
inside at its worst moment is added at the loop's place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.partition.collect import Partitioned
from workbench.partition.structure import Structure
from workbench.program import Program
from workbench.report import Memory
from workbench.tensor import Role

_ROLES = tuple(Role)
_Span = tuple[int, int, int, int]  # first position, last position, bytes, role


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """What never changes with the layout: for each region its stored values as (value, first, last, role)."""

    regions: tuple[tuple[tuple[int, int, int, int], ...], ...]
    extents: tuple[tuple[int, int], ...]  # first and last position of each region


def memory(program: Program, partitioned: Partitioned, lifetimes: Lifetimes, local_bytes: Sequence[int]) -> Memory:
    """Bytes at the peak by role; `local_bytes` are those of each value of the structure."""
    totals = dict.fromkeys(_ROLES, 0)
    for value, tensor in zip(partitioned.structure.arguments, program.arguments, strict=True):
        totals[tensor.role] += local_bytes[value]
    for role, count in zip(_ROLES, _peak(partitioned, lifetimes, local_bytes), strict=True):
        totals[role] += int(count)
    return Memory({role: count for role, count in totals.items() if count})


def _peak(partitioned: Partitioned, lifetimes: Lifetimes, local_bytes: Sequence[int]) -> np.ndarray:
    """Bytes by role at the worst moment of main, arguments aside; inner regions first, each added at its loop's place."""
    structure = partitioned.structure
    freed = {
        each.source: each.first_use
        for each in partitioned.reshards
        if each.frees_source and each.source is not None and each.kind != "all-reduce"
    }
    buffers: dict[int, list[_Span]] = {}
    for each in partitioned.reshards:
        if each.kind != "all-reduce":
            buffers.setdefault(each.region, []).append((each.first_use, each.last_use, each.local_bytes, _ROLES.index(Role.ACTIVATION)))
    inner: dict[int, np.ndarray] = {}
    for region in range(len(structure.regions) - 1, 0, -1):
        peak = _region_peak(region, structure, lifetimes, local_bytes, freed, buffers.get(region, ()), inner)
        parent = structure.regions[region].parent
        if parent not in inner or peak.sum() > inner[parent].sum():
            inner[parent] = peak
    return _region_peak(0, structure, lifetimes, local_bytes, freed, buffers.get(0, ()), inner)


def _region_peak(
    region: int,
    structure: Structure,
    lifetimes: Lifetimes,
    local_bytes: Sequence[int],
    freed: dict[int, int],
    buffers: Iterable[_Span],
    inner: dict[int, np.ndarray],
) -> np.ndarray:
    start, stop = lifetimes.extents[region]
    changes = np.zeros((len(_ROLES), stop - start + 2), dtype=np.int64)
    values = structure.values
    for value, first, latest, role in lifetimes.regions[region]:
        count = local_bytes[value]
        last = min(latest, freed.get(values[value].born, latest))
        changes[role, first - start] += count
        changes[role, last - start + 1] -= count
    for first, last, count, role in buffers:
        changes[role, first - start] += count
        changes[role, min(last, stop) - start + 1] -= count
    alive = changes.cumsum(axis=1)
    for loop, peak in inner.items():
        if structure.ops[loop].region == region:
            alive[:, structure.ops[loop].position - start] += peak
    return alive[:, int(alive.sum(axis=0).argmax())]


def lifetimes_of(program: Program, structure: Structure) -> Lifetimes:
    """Made once a program."""
    extents = _extents(structure)
    carried = {structure.returned[result] for result, _ in program.carried}
    outputs = set(structure.returned) - carried
    shapes = {tensor.shape for tensor in program.arguments if tensor.role is Role.PARAMETER and tensor.shape}
    in_place = _loop_buffers_in_place(structure)
    regions: list[tuple[tuple[int, int, int, int], ...]] = []
    for number, region in enumerate(structure.regions):
        spans = []
        for index in region.values:
            value = structure.values[index]
            if value.born < 0 or not value.stored or value.alias is not None or index in carried or index in in_place:
                continue
            first = structure.ops[value.born].position
            last = extents[number][1] if index in outputs else max(value.last_use, first)
            role = _role(program, value.born, value.shape, shapes, is_output=index in outputs)
            spans.append((index, first, last, _ROLES.index(role)))
        regions.append(tuple(spans))
    return Lifetimes(tuple(regions), tuple(extents))


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


def _loop_buffers_in_place(structure: Structure) -> set[int]:
    """Results of a loop that take over the buffer they started in: what the body hands on unchanged, and what no one reads afterwards."""
    found = set()
    for loop, body in structure.body_of.items():
        op = structure.ops[loop]
        last = max(index for index, each in enumerate(structure.ops) if each.region == body)
        arguments = [index for index in structure.regions[body].values if structure.values[index].born < 0]
        for slot, result in enumerate(op.results):
            start = structure.values[op.operands[slot]]
            unchanged = structure.ops[last].operands[slot] == arguments[slot]
            dies_here = start.stored and start.born >= 0 and start.last_use == op.position and start.region == op.region
            if unchanged:
                found.add(result)
            elif dies_here:
                start.last_use = max(start.last_use, structure.values[result].last_use)
                found.add(result)
    return found
