"""XLA's answer in the terms of the planner: its collectives among the operations of the program, in place of those that Shardy inserted."""

from bisect import bisect_right
from dataclasses import replace

from workbench.partition import Propagated
from workbench.partition.reshards import Reshard
from workbench.partition.structure import Structure
from workbench.partitioned import Partitioned, PartitionedCollective


def with_answer(propagated: Propagated, answer: Partitioned) -> Propagated:
    """What is known of a plan, with the collectives that XLA makes: what follows from them (memory, time, pictures) follows from these."""
    joiner = _Joiner(propagated.structure)
    return replace(propagated, reshards=[joiner.reshard(each) for each in answer.collectives])


class _Joiner:
    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        ops = structure.ops
        self._numbers = sorted(range(len(ops)), key=lambda number: ops[number].position)
        self._positions = [ops[number].position for number in self._numbers]

    def reshard(self, each: PartitionedCollective) -> Reshard:
        """Where nothing is known of a collective's reader it is what follows its maker, and the end of the step where neither is known."""
        source = self._operation(each.made_by)
        before = self._operation(each.read_by)
        if before is None:
            before = self._after(source) if source is not None else len(self._structure.ops) - 1
        region = self._region(before if each.read_by >= 0 or source is None else source, each.count)
        first_use = self._structure.ops[before].position
        return Reshard(
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

    def _operation(self, place: int) -> int | None:
        """The operation at a place of the program as traced, or what the planner has left of it: the one before."""
        if place < 0:
            return None
        return self._numbers[max(bisect_right(self._positions, place) - 1, 0)]

    def _after(self, source: int) -> int:
        """The first operation that reads what another makes."""
        made = set(self._structure.ops[source].results)
        region = self._structure.ops[source].region
        following = (number for number in range(source + 1, len(self._structure.ops)) if made & set(self._structure.ops[number].operands))
        found = next(following, source)
        return found if self._structure.ops[found].region == region else source

    def _region(self, operation: int, count: int) -> int:
        """Main or the loop that runs as often, from where the operation stands outwards: XLA moves out what no turn changes."""
        regions = self._structure.regions
        region = here = self._structure.ops[operation].region
        while regions[region].times != count and regions[region].parent >= 0:
            region = self._structure.ops[regions[region].parent].region
        return region if regions[region].times == count else here

    def _last_use(self, reader: int, first_use: int) -> int:
        """Until when the reader keeps what it reads: till its last reader's place if it is fused into that."""
        values = (self._structure.values[result] for result in self._structure.ops[reader].results)
        return max((first_use, *(each.last_use for each in values if not each.stored)))
