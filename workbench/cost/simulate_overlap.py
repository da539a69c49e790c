"""Simulation of one step: kernels one after the other in the program's order, collectives beside them where the compiler overlaps them.

A collective starts when its operand is ready and the links of its mesh axes are free; what reads its result waits for it. That waiting is
exposed communication, the rest is hidden. A loop is simulated for one iteration, which begins and ends with idle links: neither XLA:TPU nor
XLA:GPU starts an iteration's collectives in the one before unless asked to.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.timeline_regions import TimelineRegion
from workbench.hardware.hardware import Chip
from workbench.propagation import Propagated
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure

OVERLAPPING = {
    # XLA:TPU starts and awaits these apart (async collective fusion, collective-permute-start); all-reduces block the core.
    "tpu": frozenset({"all-gather", "collective-permute", "reduce-scatter"}),
    # NCCL runs on streams of its own, under XLA:GPU and Megatron-LM alike.
    "cuda": frozenset({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"}),
}
"""Kinds of collectives that overlap with computation, by the platform of a chip's target; none on a CPU."""


class Send(NamedTuple):
    """A collective among the kernels of a region: it may start when `after` of them are done, and kernel number `before` reads its
    result."""

    after: int
    before: int
    seconds: float
    links: tuple[str, ...]
    overlaps: bool


class Cost(NamedTuple):
    """The cost of one execution of a collective: seconds, on which links, whether computation overlaps it, and whether the compiler may
    decompose it together with a dot (a windowed einsum; Wang et al. 2023)."""

    seconds: float
    links: tuple[str, ...]
    overlaps: bool
    is_windowable: bool = False


@dataclass(frozen=True, slots=True)
class SimulatedTurn:
    """One iteration: its seconds, and for each send when it starts and how long the device waits for it."""

    seconds: float
    starts: tuple[float, ...]
    waits: tuple[float, ...]

    @property
    def exposed(self) -> float:
        return sum(self.waits)


def overlaps(kind: str, chip: Chip) -> bool:
    """Whether a device of this kind computes while such a collective is under way."""
    return kind in OVERLAPPING.get(chip.platform, ())


def simulate(kernels: Sequence[float], sends: Sequence[Send]) -> SimulatedTurn:
    """List scheduling of `sends` beside `kernels` (seconds, in order).

        kernels   | k0 |   k1   |....wait....| k2 |
        links          |   send after=1, before=2  |

    >>> simulate([1.0, 2.0, 1.0], [Send(1, 2, 5.0, ("data",), overlaps=True)])
    SimulatedTurn(seconds=7.0, starts=(1.0,), waits=(3.0,))
    >>> simulate([1.0, 2.0, 1.0], [Send(1, 2, 5.0, ("data",), overlaps=False)]).seconds
    9.0
    """
    done = [0.0, *accumulate(kernels)]
    starts, waits, ends = [0.0] * len(sends), [0.0] * len(sends), [0.0] * len(sends)
    free: dict[str, float] = {}
    waited = 0.0
    for place, _, number, is_wait in sorted(_moments(sends)):
        send, now = sends[number], done[place] + waited
        if is_wait:
            waits[number] = max(0.0, ends[number] - now)
            waited += waits[number]
        else:
            starts[number] = max([now, *(free.get(link, 0.0) for link in send.links)])
            ends[number] = starts[number] + send.seconds
            free.update(dict.fromkeys(send.links, ends[number]))
    return SimulatedTurn(done[-1] + waited, tuple(starts), tuple(waits))


def _moments(sends: Sequence[Send]) -> list[tuple[int, int, int, bool]]:
    """(kernels done, 0 for what must be ready and 1 for what starts then, number of the send, whether it is awaited)."""
    moments = []
    for number, send in enumerate(sends):
        awaited = max(send.after, send.before)
        started = send.after if send.overlaps else awaited  # one that does not overlap starts where it is needed
        moments.append((started, 1, number, False))
        moments.append((awaited, int(awaited == started), number, True))
    return moments


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedStep:
    """Every region's iteration, and the collectives of its sends (by their place in `Propagated.reshards`)."""

    turns: tuple[SimulatedTurn, ...]
    sends: tuple[tuple[Send, ...], ...]
    reshards: tuple[tuple[int, ...], ...]
    busy: tuple[tuple[float, ...], ...]  # seconds of each region's items
    regions: tuple[TimelineRegion, ...]

    @property
    def seconds(self) -> float:
        return self.turns[0].seconds

    @property
    def exposed(self) -> float:
        """Seconds the device waits in a step."""
        return sum(turn.exposed * region.times for turn, region in zip(self.turns, self.regions, strict=True))

    @property
    def sent(self) -> float:
        """Seconds of all collectives, hidden or not."""
        return sum(sum(each.seconds for each in sends) * region.times for sends, region in zip(self.sends, self.regions, strict=True))


def simulate_step(
    partitioned: Propagated, kernels: Kernels, regions: tuple[TimelineRegion, ...], busy: Sequence[float], costs: Sequence[Cost]
) -> SimulatedStep:
    """Simulate all regions, inner ones first; `busy` are the seconds of each kernel, `costs` those of each collective."""
    sends: list[list[Send]] = [[] for _ in regions]
    numbers: list[list[int]] = [[] for _ in regions]
    for number, (reshard, cost) in enumerate(zip(partitioned.reshards, costs, strict=True)):
        sends[reshard.region].append(_make_send(reshard, cost, partitioned.structure, kernels, regions[reshard.region]))
        numbers[reshard.region].append(number)
    seconds_of_loop: dict[int, float] = {}
    turns: list[SimulatedTurn] = []
    work: list[tuple[float, ...]] = []
    for number in range(len(regions) - 1, -1, -1):
        region = regions[number]
        items = [busy[kernel] if kernel >= 0 else 0.0 for kernel in region.kernels]
        for place, op in region.loops:
            items[place] = seconds_of_loop.get(op, 0.0)
        turn = simulate(items, sends[number])
        turns.append(turn)
        work.append(tuple(items))
        loop = partitioned.structure.regions[number].parent
        seconds_of_loop[loop] = seconds_of_loop.get(loop, 0.0) + turn.seconds * region.trips
    return SimulatedStep(tuple(turns[::-1]), tuple(map(tuple, sends)), tuple(map(tuple, numbers)), tuple(work[::-1]), regions)


def _make_send(reshard: InsertedCollective, cost: Cost, structure: Structure, kernels: Kernels, region: TimelineRegion) -> Send:
    """Where a collective is among the items of its region: behind the kernel that makes its operand, before the first that reads it."""
    maker = kernels.of[reshard.source] if reshard.source is not None else -1
    made = 0  # an argument of the region is ready from the start
    if reshard.source is not None:
        position = kernels.positions[maker] if maker >= 0 else structure.ops[reshard.source].position
        made = bisect_right(region.ends, position)
        if maker >= 0 and kernels.regions[maker] == reshard.region:
            made = region.ready[region.places[maker]]
    reader = kernels.of[reshard.before]
    needed = kernels.positions[reader] if reader >= 0 else _first_read(reshard, structure, kernels)
    place = min(bisect_left(region.ends, needed), len(region.ends))
    if region.final and _is_read_last(reshard, structure, kernels, region):
        place = len(region.ends)
    if maker in (reader, -1) and reshard.source is not None:  # what lies before the collective is a kernel of its own after all
        made = _ready_inside_reader(structure, kernels, region, reshard.source, place)
    if cost.is_windowable:  # its shards go around while the dot that reads or makes it runs
        multiplies = {each.kernel for each in kernels.dots}
        place += reshard.kind == "all-gather" and reader in multiplies and place < len(region.ends)
        made -= reshard.kind == "reduce-scatter" and maker in multiplies and made > 0
    return Send(min(made, place), place, cost.seconds, cost.links, cost.overlaps)


def _is_read_last(reshard: InsertedCollective, structure: Structure, kernels: Kernels, region: TimelineRegion) -> bool:
    """Whether what reads a collective's result is done at the end of the region; where a slice or pad sends, what takes up its result."""
    first = reshard.before
    if kernels.of[first] >= 0 or not reshard.sent_by_operation:
        return region.places.get(kernels.of[first]) in region.final
    values, found = set(structure.ops[first].results), set[int]()
    for number in range(first + 1, len(structure.ops)):
        op = structure.ops[number]
        if op.region == structure.ops[first].region and not values.isdisjoint(op.operands):
            if kernels.of[number] < 0:
                values.update(op.results)
            else:
                found.add(region.places.get(kernels.of[number], -1))
    return bool(found) and found <= region.final


def _first_read(reshard: InsertedCollective, structure: Structure, kernels: Kernels) -> int:
    """Where a collective's result is read that only a free operation, a transpose or a reshape, takes up."""
    if reshard.source is None:
        return reshard.first_use
    values = np.isin(kernels.read, structure.ops[reshard.source].results)
    places = [kernels.positions[kernel] for kernel in kernels.readers[values].tolist()]
    return max(min((each for each in places if each >= reshard.first_use), default=reshard.first_use), reshard.first_use)


def _ready_inside_reader(structure: Structure, kernels: Kernels, region: TimelineRegion, source: int, place: int) -> int:
    """After how many items elementwise work that was taken into its reader's kernel can be done by itself; `place` if it is a product."""
    own, latest, pending = kernels.of[source], 0, [source]
    while pending:
        op = structure.ops[pending.pop()]
        if op.work.flops:
            return place
        for born in (structure.values[operand].maker for operand in op.operands):
            kernel = kernels.of[born] if born >= 0 else own
            if born >= 0 and kernel in (own, -1) and structure.ops[born].region == structure.ops[source].region:
                pending.append(born)
            elif kernel in region.places and kernel != own:
                latest = max(latest, region.ready[region.places[kernel]])
    return latest
