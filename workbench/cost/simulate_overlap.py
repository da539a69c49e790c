"""Simulation of one step: kernels one after the other in the program's order, collectives beside them where the runtime overlaps them.

A collective starts when its operand is ready and the links of its mesh axes are free; what reads its result waits for it. That waiting is
exposed communication, the rest is hidden. A loop is simulated for one iteration, which begins and ends with idle links: neither XLA:TPU nor
XLA:GPU starts an iteration's collectives in the one before unless asked to.

One iteration is simulated by `simulate_turn`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.kept_and_deferred import Cost, is_summed_last
from workbench.cost.simulate_turn import HostCalls, Send, SimulatedTurn, busiest_link, simulate, simulate_called, slow_beside
from workbench.cost.timeline_regions import TimelineRegion
from workbench.cost.windowed_dots import dot_of
from workbench.hardware.hardware import Chip
from workbench.hardware.runtime import XLA, Runtime
from workbench.propagation import Propagated
from workbench.propagation.module.operation_kinds import CONTROL_FLOW
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.program_structure import Structure, TracedValue, returned_values
from workbench.propagation.structure.stored_values import PASSING

OVERLAPPING = {
    # XLA:TPU starts and awaits these apart (async collective fusion, collective-permute-start); all-reduces block the core.
    "tpu": frozenset({"all-gather", "collective-permute", "reduce-scatter"}),
    # NCCL runs on streams of its own, under XLA:GPU and Megatron-LM alike.
    "cuda": frozenset({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"}),
}
"""Kinds of collectives that overlap with computation, by the platform of a chip's target; none on a CPU."""


_AT_ONCE = 8
"""Kernels between a collective and what reads its result: no more stand there where a layer's activations are gathered or summed; gradients
are read far behind, weights were there long before."""


def overlaps(kind: str, chip: Chip) -> bool:
    """Whether a device of this kind computes while such a collective is under way."""
    return kind in OVERLAPPING.get(chip.platform, ())


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
    beside: float = 1.0,
    weights: frozenset[int] = frozenset(),
    sums: frozenset[int] | None = None,
) -> SimulatedStep:
    """Simulate all regions, inner ones first; `busy` are the seconds of each kernel (0 if it was dropped), `costs` those of each
    collective; `beside` is the share of their speed that kernels keep while collectives run; `weights` are main's arguments that are.
    `sums`: where the program is one task among many, the gradients it returns: weights and gradients are then sent beside other tasks."""
    sends: list[list[Send]] = [[] for _ in regions]
    numbers: list[list[int]] = [[] for _ in regions]
    for number, (reshard, cost) in enumerate(zip(partitioned.reshards, costs, strict=True)):
        region = regions[reshard.region]
        send = _make_send(reshard, cost, partitioned.structure, kernels, region)
        can_float = runtime.waits_at_once and floats(reshard, partitioned.structure, kernels, region, weights, sums or frozenset())
        if sums is not None and runtime.exchanges_beside and reshard.kind == "all-to-all":
            send = send._replace(floats=True, overlaps=True)
        elif can_float and (runtime.prefetches or region.parent < 0):
            send = send._replace(floats=runtime.prefetches, overlaps=runtime.prefetches)
        elif runtime.waits_at_once and not cost.is_windowed and _is_read_at_once(send, region):
            send = send._replace(overlaps=False)
        sends[reshard.region].append(send)
        numbers[reshard.region].append(number)
    sends[0] = start_ahead(sends[0]) if sums is None else sends[0]
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
        called = [busy > 0 and kernel not in kernels.continuing for kernel, busy in zip(region.kernels, items, strict=True)]
        calls = _list_calls(region, called, sends[number], calls_of_loop, runtime) if runtime.waits_for_host else None
        turn = _simulate_turn(items, sends[number], calls, is_loop=loop >= 0)
        turn = slow_beside(turn, items, sends[number], beside) if beside < 1 else turn
        calls_of_loop[loop] = calls_of_loop.get(loop, 0.0) + (calls.total * region.trips if calls else 0.0)
        turns.append(turn)
        work.append(tuple(items))
        seconds_of_loop[loop] = seconds_of_loop.get(loop, 0.0) + turn.seconds * region.trips
    return SimulatedStep(tuple(turns[::-1]), tuple(map(tuple, sends)), tuple(map(tuple, numbers)), tuple(work[::-1]), regions)


def _simulate_turn(items: Sequence[float], sends: Sequence[Send], calls: HostCalls | None, *, is_loop: bool) -> SimulatedTurn:
    waiting = [send._replace(seconds=0.0) if send.floats else send for send in sends]
    turn = simulate(items, waiting) if calls is None else simulate_called(items, waiting, calls, is_loop=is_loop)
    return simulate_beside_others(turn, sends) if any(send.floats for send in sends) else turn


def _is_read_at_once(send: Send, region: TimelineRegion) -> bool:
    return send.before - send.after <= _AT_ONCE and not any(send.after <= place < send.before for place, _ in region.loops)


def _list_calls(
    region: TimelineRegion, is_called: Sequence[bool], sends: Sequence[Send], of_loop: Mapping[int, float], runtime: Runtime
) -> HostCalls:
    """When the host has called each item and send of a region: one after the other, a send behind the items that it waits for. An item that
    is not called was dropped, or is a part of an earlier call."""
    loops = dict(region.loops)
    costs = [of_loop.get(loops[i], 0.0) if i in loops else runtime.dispatch * is_one for i, is_one in enumerate(is_called)]
    waiting = sorted(range(len(sends)), key=lambda number: sends[number].after)
    now, called, called_sends = 0.0, [], [0.0] * len(sends)
    for item in range(len(costs) + 1):
        while waiting and min(sends[waiting[0]].after, len(costs)) <= item:
            now += runtime.collective_dispatch
            called_sends[waiting.pop(0)] = now
        if item < len(costs):
            now += costs[item]
            called.append(now)
    return HostCalls(tuple(called), tuple(called_sends), now, frozenset(loops))


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
    if ends_kernel(reshard, structure, kernels):
        behind = readers_of(made_behind(reshard.before, structure, kernels), kernels)
        reader = min(behind, key=region.positions.__getitem__, default=reader)
    needed = region.positions[reader] if reader >= 0 else _first_read(reshard, structure, kernels, region.positions)
    place = min(bisect_left(region.ends, needed), len(region.ends))
    if region.final and _is_read_last(reshard, structure, kernels, region):
        place = len(region.ends)
    if maker in (reader, -1) and reshard.source is not None:  # what lies before the collective is a kernel of its own after all
        made = _ready_inside_reader(structure, kernels, region, reshard.source, place)
    dot = kernels.of[dot_of(reshard)] if cost.is_windowed else -1
    if dot in region.places:  # its shards go around while the dot that reads or makes it runs
        place = max(place, region.places[dot] + 1)
        made = made if reshard.kind == "all-gather" else region.places[dot]
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


def _first_read(reshard: InsertedCollective, structure: Structure, kernels: Kernels, positions: Sequence[float]) -> float:
    """Where a collective's result is read that only a free operation, a transpose or a reshape, takes up."""
    if reshard.source is None:
        return reshard.first_use
    places = [positions[kernel] for kernel in readers_of(structure.ops[reshard.source].results, kernels)]
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


# Collectives of a loop's iteration that need not wait for it, nor it for them: a runtime that prefetches has them beside other iterations.
#
# So are weights gathered before their layer is reached (FSDP's forward and backward prefetch), and gradients summed while the layers before
# compute theirs (DDP's and FSDP's reduction; Li et al. 2020, PyTorch Distributed, section 3.2.3; Zhao et al. 2023, PyTorch FSDP, section
# 3.3.2). Over the iterations of a loop such a collective costs what the links need beyond the kernels.

_MOST = 64  # operations between an argument and what is gathered of it
_LONGEST = 64  # operations among which the last ones of a hand-written kernel are looked for
_AHEAD = 8  # matrices and scales of a layer of a Transformer


def floats(
    reshard: InsertedCollective,
    structure: Structure,
    kernels: Kernels,
    region: TimelineRegion,
    weights: frozenset[int],
    sums: frozenset[int] = frozenset(),
) -> bool:
    """Whether a collective is of weights alone; or, in a loop, nothing of the iteration waits for its result; or the results `sums` of
    main alone do."""
    if reshard.source is None:
        return region.parent < 0 and reshard.kind == "all-gather" and structure.arguments[reshard.result] in weights
    sent = structure.ops[reshard.source].results[reshard.result]
    if region.parent < 0 and sums and is_summed_last(reshard, structure, sums):
        return True
    if region.parent < 0:
        return reshard.kind == "all-gather" and is_made_of_arguments(structure, sent, among=weights)
    if is_made_of_arguments(structure, sent, unchanged=region.unchanged):
        return True
    reader = kernels.of[reshard.before]
    if reader < 0:
        behind = readers_of(structure.ops[reshard.source].results, kernels)
    elif ends_kernel(reshard, structure, kernels):
        made = made_behind(reshard.before, structure, kernels)
        if not made.isdisjoint(returned_values(structure, reshard.region)):  # the next iteration begins with it
            return False
        behind = readers_of(made, kernels)
    else:
        return False
    return all(kernels.regions[each] != reshard.region for each in behind)


def readers_of(values: Iterable[int], kernels: Kernels) -> list[int]:
    """The kernels that read any of these values."""
    return kernels.readers[np.isin(kernels.read, list(values))].tolist()


def ends_kernel(reshard: InsertedCollective, structure: Structure, kernels: Kernels) -> bool:
    """Whether a hand-written kernel is done when it has made what a collective sums up: the gradient of a norm's scale, say."""
    if reshard.source is None or not structure.ops[reshard.source].custom_kernel:
        return False
    return reshard.kind in ("all-reduce", "reduce-scatter") and kernels.of[reshard.before] == kernels.of[reshard.source]


def made_behind(first: int, structure: Structure, kernels: Kernels) -> set[int]:
    """What the kernel of an operation makes from it on."""
    made = set(structure.ops[first].results)
    for number in range(first + 1, min(first + _LONGEST, len(structure.ops))):
        if kernels.of[number] == kernels.of[first] and not made.isdisjoint(structure.ops[number].operands):
            made.update(structure.ops[number].results)
    return made


def is_made_of_arguments(
    structure: Structure, value: int, *, unchanged: frozenset[int] = frozenset(), among: frozenset[int] | None = None
) -> bool:
    """Whether a value is computed from arguments of main alone, `among` these if any are given; in a loop from those that its iterations
    pass on as they are (`unchanged`) and the number of the iteration. So are weights, and not what an earlier loop has stacked."""
    pending = [value]
    for _ in range(_MOST):
        if not pending:
            return True
        number = pending.pop()
        each = structure.values[number]
        if each.maker >= 0:
            maker = structure.ops[each.maker]
            if maker.kind in CONTROL_FLOW:
                return False
            pending.extend(maker.operands[each.result : each.result + 1] if maker.kind in PASSING else maker.operands)
        elif each.region > 0 and number in unchanged:
            pending.append(structure.ops[structure.regions[each.region].parent].operands[each.result])
        elif (each.region > 0 and not _counts(each)) or (each.region == 0 and among is not None and number not in among):
            return False
    return False


def _counts(value: TracedValue) -> bool:
    """Whether it may be the number of an iteration."""
    return not value.shape and "float" not in value.dtype


def start_ahead(sends: Sequence[Send]) -> list[Send]:
    """`sends` of main, where what floats, the gathers of weights, starts about a layer ahead: each as soon as the one `_AHEAD` before it is
    needed.

    >>> [send.after for send in start_ahead([Send(7 * i, 7 * i + 1, 1.0, ("data",), False, floats=True) for i in range(10)])]
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 8]
    """
    found, order = list(sends), sorted((i for i, send in enumerate(sends) if send.floats), key=lambda number: sends[number].before)
    for place, number in enumerate(order):
        after = sends[order[place - _AHEAD]].before if place >= _AHEAD else 0
        found[number] = sends[number]._replace(after=after, overlaps=True, floats=False)
    return found


def simulate_beside_others(turn: SimulatedTurn, sends: Sequence[Send]) -> SimulatedTurn:
    """`turn`, simulated without the sends that float, with them: each link needs its time for all sends in each iteration."""
    waited = max(busiest_link(sends, [send.seconds for send in sends]) - turn.seconds, 0.0)
    total = sum(send.seconds for send in sends if send.floats) or 1.0
    waits = tuple(wait + waited * send.seconds / total * send.floats for wait, send in zip(turn.waits, sends, strict=True))
    return replace(turn, seconds=turn.seconds + waited, waits=waits)
