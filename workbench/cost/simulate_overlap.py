"""Simulation of one step: kernels one after the other in the program's order, collectives beside them where the runtime overlaps them.

A collective starts when its operand is ready and the links of its mesh axes are free; what reads its result waits for it. That waiting is
exposed communication, the rest is hidden. A loop is simulated for one iteration, which begins and ends with idle links: neither XLA:TPU nor
XLA:GPU starts an iteration's collectives in the one before unless asked to.

Where the host calls every kernel (`Runtime`), none starts before it is called: the host runs ahead of the device as far as it can, and over
the iterations of a loop the slower of the two counts.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from workbench.cost.fusion.kernel_table import Kernels
from workbench.hardware.hardware import Chip
from workbench.hardware.runtime import XLA, Runtime
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
    """One iteration: its seconds, for each send when it starts and how long the device waits for it, and how long for the host."""

    seconds: float
    starts: tuple[float, ...]
    waits: tuple[float, ...]
    host: float = 0.0

    @property
    def exposed(self) -> float:
        return sum(self.waits)


def overlaps(kind: str, chip: Chip) -> bool:
    """Whether a device of this kind computes while such a collective is under way."""
    return kind in OVERLAPPING.get(chip.platform, ())


class HostCalls(NamedTuple):
    """When the host has called each item of a region and each of its sends: seconds from its beginning; `total` for all."""

    items: tuple[float, ...]
    sends: tuple[float, ...]
    total: float
    loops: frozenset[int] = frozenset()  # items that are loops: the host is done with them when their last iteration is called


def simulate(kernels: Sequence[float], sends: Sequence[Send], calls: HostCalls | None = None) -> SimulatedTurn:
    """List scheduling of `sends` beside `kernels` (seconds, in order), none of which starts before the host calls it.

        kernels   | k0 |   k1   |....wait....| k2 |
        links          |   send after=1, before=2  |

    >>> simulate([1.0, 2.0, 1.0], [Send(1, 2, 5.0, ("data",), overlaps=True)])
    SimulatedTurn(seconds=7.0, starts=(1.0,), waits=(3.0,), host=0.0)
    >>> simulate([1.0, 2.0, 1.0], [Send(1, 2, 5.0, ("data",), overlaps=False)]).seconds
    9.0
    >>> simulate([1.0, 1.0], [], HostCalls((0.5, 4.0), (), 4.0))
    SimulatedTurn(seconds=5.0, starts=(), waits=(), host=3.0)
    """
    clock = _Device(kernels) if calls is None else _CalledDevice(kernels, calls)
    starts, waits, ends = [0.0] * len(sends), [0.0] * len(sends), [0.0] * len(sends)
    free: dict[str, float] = {}
    for place, _, number, is_wait in sorted(_moments(sends)):
        send, now = sends[number], clock.at(place)
        if is_wait:
            waits[number] = max(0.0, ends[number] - now)
            clock.wait(waits[number])
        else:
            called = calls.sends[number] if calls else 0.0
            starts[number] = max([now, called, *(free.get(link, 0.0) for link in send.links)])
            ends[number] = starts[number] + send.seconds
            free.update(dict.fromkeys(send.links, ends[number]))
    seconds = clock.at(len(kernels))
    return SimulatedTurn(seconds, tuple(starts), tuple(waits), max(seconds - sum(kernels) - sum(waits), 0.0) if calls else 0.0)


class _Device:
    """The time on a device when so many of its kernels are done."""

    def __init__(self, kernels: Sequence[float]) -> None:
        self._done, self._waited = [0.0, *accumulate(kernels)], 0.0

    def at(self, place: int) -> float:
        return self._done[place] + self._waited

    def wait(self, seconds: float) -> None:
        self._waited += seconds


class _CalledDevice(_Device):
    """The same where the host calls each kernel."""

    def __init__(self, kernels: Sequence[float], calls: HostCalls) -> None:
        self._kernels, self._calls, self._now, self._place = kernels, calls, 0.0, 0

    def at(self, place: int) -> float:
        for item in range(self._place, place):
            called = self._calls.items[item]
            if item in self._calls.loops:
                self._now = max(self._now + self._kernels[item], called)
            else:
                self._now = max(self._now, called) + self._kernels[item]
        self._place = max(self._place, place)
        return self._now

    def wait(self, seconds: float) -> None:
        self._now += seconds


def _moments(sends: Sequence[Send]) -> list[tuple[int, int, int, bool]]:
    """(kernels done, 0 for what must be ready and 1 for what starts then, number of the send, whether it is awaited)."""
    moments = []
    for number, send in enumerate(sends):
        awaited = max(send.after, send.before)
        started = send.after if send.overlaps else awaited  # one that does not overlap starts where it is needed
        moments.append((started, 1, number, False))
        moments.append((awaited, int(awaited == started), number, True))
    return moments


@dataclass(frozen=True, slots=True)
class TimelineRegion:
    """The items of main or of a loop body in order: kernels, and loops (branches too) as one item each."""

    ends: tuple[int, ...]  # the last position of each item
    kernels: tuple[int, ...]  # the kernel's number; -1 for a loop
    ready: tuple[int, ...]  # for each item: after how many items its result can be ready at the earliest (see `_ready_positions`)
    loops: tuple[tuple[int, int], ...]  # (number of the item, operation)
    parent: int  # the region its loop is in; -1 for main
    trips: int  # iterations of one execution of its loop
    times: int
    places: Mapping[int, int]  # for each kernel its place among the items


def regions_of(structure: Structure, kernels: Kernels) -> tuple[TimelineRegion, ...]:
    """The regions of a program, computed once; a region's inner ones come behind it."""
    ends = _last_positions(structure)
    inside: list[list[tuple[int, int, int]]] = [[] for _ in structure.regions]  # (position, end, kernel or -1 - operation)
    for number, position in enumerate(kernels.positions):
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
            )
        )
    return tuple(found)


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
        """Seconds the device waits for communication in a step."""
        return sum(turn.exposed * region.times for turn, region in zip(self.turns, self.regions, strict=True))

    @property
    def host(self) -> float:
        """Seconds the device waits in a step for the host to call something."""
        return sum(turn.host * region.times for turn, region in zip(self.turns, self.regions, strict=True))

    @property
    def sent(self) -> float:
        """Seconds of all collectives, hidden or not."""
        return sum(sum(each.seconds for each in sends) * region.times for sends, region in zip(self.sends, self.regions, strict=True))


def simulate_step(
    partitioned: Propagated,
    kernels: Kernels,
    regions: tuple[TimelineRegion, ...],
    busy: Sequence[float],
    costs: Sequence[Cost],
    runtime: Runtime = XLA,
) -> SimulatedStep:
    """Simulate all regions, inner ones first; `busy` are the seconds of each kernel (0 if it was dropped), `costs` those of each
    collective."""
    sends: list[list[Send]] = [[] for _ in regions]
    numbers: list[list[int]] = [[] for _ in regions]
    for number, (reshard, cost) in enumerate(zip(partitioned.reshards, costs, strict=True)):
        sends[reshard.region].append(_make_send(reshard, cost, partitioned.structure, kernels, regions[reshard.region]))
        numbers[reshard.region].append(number)
    seconds_of_loop: dict[int, float] = {}
    calls_of_loop: dict[int, float] = {}
    turns: list[SimulatedTurn] = []
    work: list[tuple[float, ...]] = []
    for number in range(len(regions) - 1, -1, -1):
        region = regions[number]
        items = [busy[kernel] if kernel >= 0 else 0.0 for kernel in region.kernels]
        for place, op in region.loops:
            items[place] = seconds_of_loop.get(op, 0.0)
        loop = partitioned.structure.regions[number].parent
        if runtime.waits_for_host:
            calls = _list_calls(region, items, sends[number], calls_of_loop, runtime)
            turn = _simulate_called(items, sends[number], calls, is_loop=loop >= 0)
            calls_of_loop[loop] = calls_of_loop.get(loop, 0.0) + calls.total * region.trips
        else:
            turn = simulate(items, sends[number])
        turns.append(turn)
        work.append(tuple(items))
        seconds_of_loop[loop] = seconds_of_loop.get(loop, 0.0) + turn.seconds * region.trips
    return SimulatedStep(tuple(turns[::-1]), tuple(map(tuple, sends)), tuple(map(tuple, numbers)), tuple(work[::-1]), regions)


def _list_calls(
    region: TimelineRegion, items: Sequence[float], sends: Sequence[Send], of_loop: Mapping[int, float], runtime: Runtime
) -> HostCalls:
    """When the host has called each item and send of a region: one after the other, a send behind the items that it waits for."""
    loops = dict(region.loops)
    costs = [of_loop.get(loops[i], 0.0) if i in loops else runtime.dispatch * (busy > 0) for i, busy in enumerate(items)]
    waiting = sorted(range(len(sends)), key=lambda number: sends[number].after)
    now, called, called_sends = 0.0, [], [0.0] * len(sends)
    for item in range(len(items) + 1):
        while waiting and min(sends[waiting[0]].after, len(items)) <= item:
            now += runtime.collective_dispatch
            called_sends[waiting.pop(0)] = now
        if item < len(items):
            now += costs[item]
            called.append(now)
    return HostCalls(tuple(called), tuple(called_sends), now, frozenset(loops))


def _simulate_called(items: Sequence[float], sends: Sequence[Send], calls: HostCalls, *, is_loop: bool) -> SimulatedTurn:
    """One turn where the host calls everything. Over the iterations of a loop the host is ahead, or the device waits for it in each."""
    if not is_loop:
        return simulate(items, sends, calls)
    turn = simulate(items, sends)
    waited = max(calls.total - turn.seconds, 0.0)
    return replace(turn, seconds=turn.seconds + waited, host=waited)


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
    if maker in (reader, -1) and reshard.source is not None:  # what lies before the collective is a kernel of its own after all
        made = _ready_inside_reader(structure, kernels, region, reshard.source, place)
    if cost.is_windowable:  # its shards go around while the dot that reads or makes it runs
        multiplies = {each.kernel for each in kernels.dots}
        place += reshard.kind == "all-gather" and reader in multiplies and place < len(region.ends)
        made -= reshard.kind == "reduce-scatter" and maker in multiplies and made > 0
    return Send(min(made, place), place, cost.seconds, cost.links, cost.overlaps)


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
