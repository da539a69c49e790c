"""XLA's answer in the planner's terms: its collectives among the operations of the program, in place of those that Shardy inserted."""

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


def with_answer(propagated: Propagated, answer: Partitioned, mesh: Mesh) -> Propagated:
    """The plan's propagation with XLA's collectives; what follows from them (memory, time, figures) follows from these."""
    collectives = merge_all_to_alls(answer.collectives, mesh)
    joiner = _Joiner(propagated.structure, (place for each in collectives for place in (each.made_by, each.read_by)))
    joined = [joiner.join_collective(each) for each in collectives]
    edges = attach_warnings(
        replace_edge_collectives(propagated, joined, mesh), _locate_warnings(propagated.structure, answer.gathered_whole), mesh
    )
    return replace(propagated, reshards=[each.reshard for each in joined], edges=edges)


def merge_all_to_alls(collectives: Sequence[PartitionedCollective], mesh: Mesh) -> list[PartitionedCollective]:
    """Merge all-to-alls that XLA writes as one of as many arrays as a group has devices: together they are what is sent."""
    found: list[PartitionedCollective] = []
    for each, same in itertools.groupby(collectives):
        count, parts = len(list(same)), math.prod(axis_size(axis, mesh) for axis in each.axes)
        if each.kind == "all-to-all" and count % parts == 0:
            found += [replace(each, payload=each.payload * parts, result=each.result * parts)] * (count // parts)
        else:
            found += [each] * count
    return found


def _locate_warnings(structure: Structure, warned: Sequence[GatheredWhole]) -> list[tuple[int | None, GatheredWhole]]:
    return list(zip(operations_at_places(structure, [each.operation for each in warned]), warned, strict=True))


class _Joiner:
    def __init__(self, structure: Structure, places: Iterable[int]) -> None:
        self._structure = structure
        known = sorted(set(places))
        self._operations = dict(zip(known, operations_at_places(structure, known), strict=True))

    def join_collective(self, each: PartitionedCollective) -> JoinedCollective:
        """A collective with the operations at its ends, as far as they are known."""
        return JoinedCollective(self._make_reshard(each), self._operations[each.made_by], self._operations[each.read_by])

    def _make_reshard(self, each: PartitionedCollective) -> InsertedCollective:
        """Place a collective. If its reader is unknown, it is what follows its maker; if neither is known, it is at the end of the step."""
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
        """The first operation that reads what another makes."""
        made = set(self._structure.ops[source].results)
        region = self._structure.ops[source].region
        following = (number for number in range(source + 1, len(self._structure.ops)) if made & set(self._structure.ops[number].operands))
        found = next(following, source)
        return found if self._structure.ops[found].region == region else source

    def _find_region(self, operation: int, count: int) -> int:
        """Main or the loop that runs as often, from the operation's own region outwards: XLA moves out of loops what no iteration
        changes."""
        regions = self._structure.regions
        region = here = self._structure.ops[operation].region
        while regions[region].runs_per_step != count and regions[region].parent >= 0:
            region = self._structure.ops[regions[region].parent].region
        return region if regions[region].runs_per_step == count else here

    def _last_use(self, reader: int, first_use: int) -> int:
        """Until when the reader keeps its operand: its last reader's position if it is fused into that."""
        values = (self._structure.values[result] for result in self._structure.ops[reader].results)
        return max((first_use, *(each.last_use for each in values if not each.stored)))
