"""Simulation of one step: kernels one after the other in the program's order, collectives beside them where the compiler overlaps them.

A collective starts when its operand is ready and the links of its mesh axes are free; what reads its result waits for it. That waiting is
exposed communication, the rest is hidden. A loop is simulated for one iteration, which begins and ends with idle links: neither XLA:TPU nor
XLA:GPU starts an iteration's collectives in the one before unless asked to.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.windowed_dots import dot_of
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

_JUST_BEFORE = 1e-4  # positions: so many kernels can be moved before one operation that they stay behind the one before it
_MOVES = 8  # of a kernel: a chain of kernels that each read from the next is moved in one go, a longer ring of them not at all


class Send(NamedTuple):
    """A collective among the kernels of a region: it may start when `after` of them are done, and kernel number `before` reads its
    result."""

    after: int
    before: int
    seconds: float
    links: tuple[str, ...]
    overlaps: bool


class Cost(NamedTuple):
    """The cost of one execution of a collective: seconds, on which links, whether computation overlaps it, and whether the compiler
    decomposes it together with a dot (see `windowed_dots`)."""

    seconds: float
    links: tuple[str, ...]
    overlaps: bool
    is_windowed: bool = False


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
    """(kernels done, a phase, number of the send, whether it is awaited). What is awaited comes first, then what starts and blocks, then
    what starts and runs beside the kernels behind it."""
    moments = []
    for number, send in enumerate(sends):
        awaited = max(send.after, send.before)
        started = send.after if send.overlaps else awaited  # one that does not overlap starts where it is needed
        blocks = awaited == started
        moments.append((started, 1 if blocks else 2, number, False))
        moments.append((awaited, int(blocks), number, True))
    return moments


@dataclass(frozen=True, slots=True)
class TimelineRegion:
    """The items of main or of a loop body in order: kernels, and loops (branches too) as one item each."""

    ends: tuple[float, ...]  # the last position of each item
    kernels: tuple[int, ...]  # the kernel's number; -1 for a loop
    ready: tuple[int, ...]  # for each item: after how many items its result can be ready at the earliest (see `_ready_positions`)
    loops: tuple[tuple[int, int], ...]  # (number of the item, operation)
    parent: int  # the region its loop is in; -1 for main
    trips: int  # iterations of one execution of its loop
    times: int
    places: Mapping[int, int]  # for each kernel its place among the items
    positions: Sequence[float]  # of every kernel of the program, see `_run_positions`


def regions_of(structure: Structure, kernels: Kernels) -> tuple[TimelineRegion, ...]:
    """The regions of a program, computed once; a region's inner ones come behind it."""
    ends = _last_positions(structure)
    positions = _run_positions(structure, kernels)
    inside: list[list[tuple[float, float, int]]] = [[] for _ in structure.regions]  # (position, end, kernel or -1 - operation)
    for number, position in enumerate(positions):
        inside[kernels.regions[number]].append((position, position, number))
    for op in structure.control_flow:
        record = structure.ops[op]
        inside[record.region].append((record.position, max(ends.get(op, 0), record.position), -1 - op))
    read: dict[int, list[int]] = {}
    for kernel, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        read.setdefault(kernel, []).append(value)
    found = []
    for region, items in zip(structure.regions, inside, strict=True):
        items.sort()
        outer = structure.ops[region.parent].region if region.parent >= 0 else -1
        found.append(
            TimelineRegion(
                tuple(accumulate((end for _, end, _ in items), max)),
                tuple(max(item, -1) for _, _, item in items),
                _ready_positions(structure, kernels, [max(item, -1) for _, _, item in items], read),
                tuple((place, -1 - item) for place, (_, _, item) in enumerate(items) if item < 0),
                outer,
                region.runs_per_step // max(structure.regions[outer].runs_per_step, 1) if outer >= 0 else 1,
                region.runs_per_step,
                {item: place for place, (_, _, item) in enumerate(items) if item >= 0},
                positions,
            )
        )
    return tuple(found)


def _run_positions(structure: Structure, kernels: Kernels) -> tuple[float, ...]:
    """Where each kernel runs among the traced operations: at its last one, but before the first kernel of its region that reads from it.

    The dot of a residual stream that a loop keeps for the backward pass is one kernel with the update of what is kept, at the iteration's
    end, and runs before the layer that reads the stream all the same. Of two that read from each other, a dot and what its epilogue waits
    for, neither is moved.
    """
    positions = list(map(float, kernels.positions))
    makers: dict[int, set[int]] = {}
    for reader, value in zip(kernels.readers.tolist(), kernels.read.tolist(), strict=True):
        maker = _find_maker(structure, kernels, value)
        if maker not in (-1, reader) and kernels.regions[maker] == kernels.regions[reader]:
            makers.setdefault(reader, set()).add(maker)
    pending = sorted(makers, key=positions.__getitem__)
    moves = dict.fromkeys(range(len(positions)), _MOVES)
    while pending:
        reader = pending.pop()
        for maker in makers.get(reader, ()):
            is_mutual = reader in makers.get(maker, ())
            if positions[maker] >= positions[reader] and not is_mutual and moves[maker]:
                positions[maker] = positions[reader] - _JUST_BEFORE
                pending.append(maker)
                moves[maker] -= 1
    return tuple(positions)


def _ready_positions(structure: Structure, kernels: Kernels, items: Sequence[int], read: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    """After how many items of a region each item's result can be ready. A dot or a loop is done where it stands; elementwise work is done
    as soon as its operands are ready, if a collective waits for it: XLA's schedulers move it forward, the cast of a weight that is
    gathered, say, to the beginning of the iteration."""
    multiplies = {each.kernel for each in kernels.dots}
    places = {kernel: place for place, kernel in enumerate(items) if kernel >= 0}
    ready: list[int] = []
    for place, kernel in enumerate(items):
        if kernel < 0 or kernel in multiplies:
            ready.append(place + 1)
            continue
        makers = (places.get(_find_maker(structure, kernels, value), -1) for value in read.get(kernel, ()))
        ready.append(max((ready[maker] for maker in makers if 0 <= maker < place), default=0))
    return tuple(ready)


def _find_maker(structure: Structure, kernels: Kernels, value: int) -> int:
    """The kernel that makes a value, or what it is a part of; -1 if it is present from the start."""
    while (born := structure.values[value].maker) >= 0:
        if kernels.of[born] >= 0 or not structure.ops[born].operands:
            return kernels.of[born]
        value = structure.ops[born].operands[0]
    return -1


def _last_positions(structure: Structure) -> dict[int, int]:
    """The last position inside each control-flow operation."""
    ends: dict[int, int] = {}
    for op in structure.ops:
        region = op.region
        while (parent := structure.regions[region].parent) >= 0:
            ends[parent] = max(ends.get(parent, 0), op.position)
            region = structure.ops[parent].region
    return ends


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
        position = region.positions[maker] if maker >= 0 else structure.ops[reshard.source].position
        made = bisect_right(region.ends, position)
        if maker >= 0 and kernels.regions[maker] == reshard.region:
            made = region.ready[region.places[maker]]
    reader = kernels.of[reshard.before]
    needed = region.positions[reader] if reader >= 0 else _first_read(reshard, structure, kernels, region.positions)
    place = min(bisect_left(region.ends, needed), len(region.ends))
    if maker in (reader, -1) and reshard.source is not None:  # what lies before the collective is a kernel of its own after all
        made = _ready_inside_reader(structure, kernels, region, reshard.source, place)
    dot = kernels.of[dot_of(reshard)] if cost.is_windowed else -1
    if dot in region.places:  # its shards go around while the dot that reads or makes it runs
        place = max(place, region.places[dot] + 1)
        made = made if reshard.kind == "all-gather" else region.places[dot]
    return Send(min(made, place), place, cost.seconds, cost.links, cost.overlaps)


def _first_read(reshard: InsertedCollective, structure: Structure, kernels: Kernels, positions: Sequence[float]) -> float:
    """Where a collective's result is read that only a free operation, a transpose or a reshape, takes up."""
    if reshard.source is None:
        return reshard.first_use
    values = np.isin(kernels.read, structure.ops[reshard.source].results)
    places = [positions[kernel] for kernel in kernels.readers[values].tolist()]
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
