"""Replace the collectives that Shardy inserted in a plan with those of XLA's partitioner."""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size
from workbench.propagation import Propagated
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure, operations_at_places
from workbench.reports.partitioned import GatheredWhole, Partitioned, PartitionedCollective
from workbench.spmd.match_xla_reshards import JoinedCollective, attach_warnings, replace_edge_collectives


def with_xla_collectives(propagated: Propagated, answer: Partitioned, mesh: Mesh) -> Propagated:
    """Return the plan's propagation with XLA's collectives, from which memory, time and figures are derived."""
    collectives = merge_all_to_alls(answer.collectives, mesh)
    joiner = _Joiner(propagated.structure, (place for collective in collectives for place in (collective.made_by, collective.read_by)))
    joined = [joiner.join_collective(collective) for collective in collectives]
    edges = attach_warnings(
        replace_edge_collectives(propagated, joined, mesh), _locate_warnings(propagated.structure, answer.gathered_whole), mesh
    )
    return replace(propagated, reshards=[collective.reshard for collective in joined], edges=edges)


def merge_all_to_alls(collectives: Sequence[PartitionedCollective], mesh: Mesh) -> list[PartitionedCollective]:
    """Merge all-to-alls that XLA writes once per array of a device group: together they are the payload."""
    merged: list[PartitionedCollective] = []
    for collective, run in itertools.groupby(collectives):
        count, parts = len(list(run)), math.prod(axis_size(axis, mesh) for axis in collective.axes)
        if collective.kind == "all-to-all" and count % parts == 0:
            merged += [replace(collective, payload=collective.payload * parts, result=collective.result * parts)] * (count // parts)
        else:
            merged += [collective] * count
    return merged


def _locate_warnings(structure: Structure, warned: Sequence[GatheredWhole]) -> list[tuple[int | None, GatheredWhole]]:
    return list(zip(operations_at_places(structure, [warning.operation for warning in warned]), warned, strict=True))


class _Joiner:
    def __init__(self, structure: Structure, places: Iterable[int]) -> None:
        self._structure = structure
        numbers = sorted(set(places))
        self._operations = dict(zip(numbers, operations_at_places(structure, numbers), strict=True))

    def join_collective(self, each: PartitionedCollective) -> JoinedCollective:
        return JoinedCollective(self._make_reshard(each), self._operations[each.made_by], self._operations[each.read_by])

    def _make_reshard(self, each: PartitionedCollective) -> InsertedCollective:
        """Place a collective before its reader, else after its maker, else at the end of the step."""
        source, before = self._operations[each.made_by], self._operations[each.read_by]
        if before is None:
            before = self._first_reader(source) if source is not None else len(self._structure.ops) - 1
        region = self._find_region(before if each.read_by >= 0 or source is None else source, each.count)
        first_use = self._structure.ops[before].position
        return InsertedCollective(
            each.kind,
            each.axes,
            each.result,
            each.payload,
            before,
            region,
            source,
            each.frees_operand,
            first_use,
            self._last_use(before, first_use),
            (self._structure.heights[before],),
            times=each.count,
        )

    def _first_reader(self, source: int) -> int:
        results = set(self._structure.ops[source].results)
        region = self._structure.ops[source].region
        following = (
            number for number in range(source + 1, len(self._structure.ops)) if results & set(self._structure.ops[number].operands)
        )
        reader = next(following, source)
        return reader if self._structure.ops[reader].region == region else source

    def _find_region(self, operation: int, count: int) -> int:
        """Return main or the innermost loop around the operation that runs as often: XLA hoists loop invariants."""
        regions = self._structure.regions
        region = innermost = self._structure.ops[operation].region
        while regions[region].runs_per_step != count and regions[region].parent >= 0:
            region = self._structure.ops[regions[region].parent].region
        return region if regions[region].runs_per_step == count else innermost

    def _last_use(self, reader: int, first_use: int) -> int:
        values = (self._structure.values[result] for result in self._structure.ops[reader].results)
        return max((first_use, *(value.last_use for value in values if not value.stored)))
