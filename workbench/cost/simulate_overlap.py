"""Simulate one step: kernels in program order, with collectives overlapped where the runtime does.

A collective starts when its operand is ready and the links of its mesh axes are free; readers of its result wait for
it. This waiting is exposed communication, the rest is hidden. A loop is simulated for one iteration (`simulate_turn`),
which begins and ends with idle links: neither XLA:TPU nor XLA:GPU starts an iteration's collectives in the previous one
by default.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.kept_and_deferred import Cost, is_deferred_reduction
from workbench.cost.simulate_turn import HostCalls, Send, SimulatedTurn, apply_overlap_slowdown, busiest_link, simulate, simulate_called
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
    # Asynchronous in XLA:TPU (async collective fusion, collective-permute-start); all-reduces block the core.
    "tpu": frozenset({"all-gather", "collective-permute", "reduce-scatter"}),
    # NCCL runs on its own streams, in XLA:GPU and Megatron-LM.
    "cuda": frozenset({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"}),
}
"""Collectives that overlap with computation, by platform of the chip; none on a CPU."""


_AT_ONCE = 8
"""Maximum kernels between a collective and its reader if a layer's activations are gathered or reduced; gradients are read much later,
and weights are available much earlier."""


def overlaps(kind: str, chip: Chip) -> bool:
    return kind in OVERLAPPING.get(chip.platform, ())


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedStep:
    """The simulated iteration of every region, and its sends with their indices in `Propagated.reshards`."""

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
        """Seconds per step that the device waits for communication."""
        return sum(turn.exposed * region.times for turn, region in zip(self.turns, self.regions, strict=True))

    @property
    def host(self) -> float:
        """Seconds per step that the device waits for the host."""
        return sum(turn.host * region.times for turn, region in zip(self.turns, self.regions, strict=True))

    @property
    def sent(self) -> float:
        """Seconds of all collectives, hidden or exposed."""
        return sum(sum(send.seconds for send in sends) * region.times for sends, region in zip(self.sends, self.regions, strict=True))


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
    """Simulate all regions, inner ones first.

    - `busy`: seconds of each kernel (0 if removed); `costs`: of each collective;
    - `beside`: relative speed of kernels while collectives run;
    - `weights`: the arguments of main that are parameters;
    - `sums`: for one task among many (a pipeline task), the gradients it returns: weights and gradients are then sent
      beside other tasks.
    """
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
    sends[0] = start_weight_gathers_early(sends[0]) if sums is None else sends[0]
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
        turn = apply_overlap_slowdown(turn, items, sends[number], beside) if beside < 1 else turn
        calls_of_loop[loop] = calls_of_loop.get(loop, 0.0) + (calls.total * region.trips if calls else 0.0)
        turns.append(turn)
        work.append(tuple(items))
        seconds_of_loop[loop] = seconds_of_loop.get(loop, 0.0) + turn.seconds * region.trips
    return SimulatedStep(tuple(turns[::-1]), tuple(map(tuple, sends)), tuple(map(tuple, numbers)), tuple(work[::-1]), regions)


def _simulate_turn(items: Sequence[float], sends: Sequence[Send], calls: HostCalls | None, *, is_loop: bool) -> SimulatedTurn:
    waiting = [send._replace(seconds=0.0) if send.floats else send for send in sends]
    turn = simulate(items, waiting) if calls is None else simulate_called(items, waiting, calls, is_loop=is_loop)
    return add_floating_sends(turn, sends) if any(send.floats for send in sends) else turn


def _is_read_at_once(send: Send, region: TimelineRegion) -> bool:
    return send.before - send.after <= _AT_ONCE and not any(send.after <= place < send.before for place, _ in region.loops)


def _list_calls(
    region: TimelineRegion, is_called: Sequence[bool], sends: Sequence[Send], of_loop: Mapping[int, float], runtime: Runtime
) -> HostCalls:
    """Return when the host launches each item and send, sends after their items; some items have no launch."""
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
    """Place a collective among the items of its region: after its operand's kernel, before its first reader."""
    maker = kernels.of[reshard.source] if reshard.source is not None else -1
    ready = 0  # arguments of the region are ready at once
    if reshard.source is not None:
        position = region.positions[maker] if maker >= 0 else structure.ops[reshard.source].position
        ready = bisect_right(region.ends, position)
        if maker >= 0 and kernels.regions[maker] == reshard.region:
            ready = region.ready[region.places[maker]]
    reader = kernels.of[reshard.before]
    if ends_kernel(reshard, structure, kernels):
        later_readers = readers_of(values_made_after(reshard.before, structure, kernels), kernels)
        reader = min(later_readers, key=region.positions.__getitem__, default=reader)
    needed = region.positions[reader] if reader >= 0 else _first_read(reshard, structure, kernels, region.positions)
    place = min(bisect_left(region.ends, needed), len(region.ends))
    if region.final and _is_read_last(reshard, structure, kernels, region):
        place = len(region.ends)
    if maker in (reader, -1) and reshard.source is not None:  # the part before the collective runs as a separate kernel
        ready = _ready_inside_reader(structure, kernels, region, reshard.source, place)
    dot = kernels.of[dot_of(reshard)] if cost.is_windowed else -1
    if dot in region.places:  # its shards rotate while the dot that reads or makes it runs
        place = max(place, region.places[dot] + 1)
        ready = ready if reshard.kind == "all-gather" else region.places[dot]
    return Send(min(ready, place), place, cost.seconds, cost.links, cost.overlaps)


def _is_read_last(reshard: InsertedCollective, structure: Structure, kernels: Kernels, region: TimelineRegion) -> bool:
    """Return whether a collective's readers, through slices and pads, run at the end of the region."""
    first = reshard.before
    if kernels.of[first] >= 0 or not reshard.sent_by_operation:
        return region.places.get(kernels.of[first]) in region.final
    values, readers = set(structure.ops[first].results), set[int]()
    for number in range(first + 1, len(structure.ops)):
        op = structure.ops[number]
        if op.region == structure.ops[first].region and not values.isdisjoint(op.operands):
            if kernels.of[number] < 0:
                values.update(op.results)
            else:
                readers.add(region.places.get(kernels.of[number], -1))
    return bool(readers) and readers <= region.final


def _first_read(reshard: InsertedCollective, structure: Structure, kernels: Kernels, positions: Sequence[float]) -> float:
    """Return where a collective's result is read if only a free operation (transpose or reshape) takes it."""
    if reshard.source is None:
        return reshard.first_use
    places = [positions[kernel] for kernel in readers_of(structure.ops[reshard.source].results, kernels)]
    return max(min((position for position in places if position >= reshard.first_use), default=reshard.first_use), reshard.first_use)


def _ready_inside_reader(structure: Structure, kernels: Kernels, region: TimelineRegion, source: int, place: int) -> int:
    """Return after how many items elementwise work fused into its reader can run separately; `place` if it is a dot."""
    own_kernel, latest, pending = kernels.of[source], 0, [source]
    while pending:
        op = structure.ops[pending.pop()]
        if op.work.flops:
            return place
        for maker in (structure.values[operand].maker for operand in op.operands):
            kernel = kernels.of[maker] if maker >= 0 else own_kernel
            if maker >= 0 and kernel in (own_kernel, -1) and structure.ops[maker].region == structure.ops[source].region:
                pending.append(maker)
            elif kernel in region.places and kernel != own_kernel:
                latest = max(latest, region.ready[region.places[kernel]])
    return latest


# Collectives independent of the other work of a loop iteration; a runtime that prefetches overlaps them with other iterations.
#
# Examples: weights gathered ahead of their layer (FSDP's forward and backward prefetch), and gradients reduced while earlier layers
# compute theirs (DDP and FSDP; Li et al. 2020, PyTorch Distributed, section 3.2.3; Zhao et al. 2023, PyTorch FSDP, section
# 3.3.2). Over the iterations of a loop they cost the link time beyond the kernels.

_MOST = 64  # maximum operations between an argument and the gathered value
_LONGEST = 64  # operations searched for the end of a hand-written kernel
_AHEAD = 8  # matrices and scales of a Transformer layer


def floats(
    reshard: InsertedCollective,
    structure: Structure,
    kernels: Kernels,
    region: TimelineRegion,
    weights: frozenset[int],
    sums: frozenset[int] = frozenset(),
) -> bool:
    """Return whether nothing in the iteration needs a collective: it is of weights, or only read later or by `sums`."""
    if reshard.source is None:
        return region.parent < 0 and reshard.kind == "all-gather" and structure.arguments[reshard.result] in weights
    sent = structure.ops[reshard.source].results[reshard.result]
    if region.parent < 0 and sums and is_deferred_reduction(reshard, structure, sums):
        return True
    if region.parent < 0:
        return reshard.kind == "all-gather" and is_made_of_arguments(structure, sent, among=weights)
    if is_made_of_arguments(structure, sent, unchanged=region.unchanged):
        return True
    reader = kernels.of[reshard.before]
    if reader < 0:
        later_readers = readers_of(structure.ops[reshard.source].results, kernels)
    elif ends_kernel(reshard, structure, kernels):
        made = values_made_after(reshard.before, structure, kernels)
        if not made.isdisjoint(returned_values(structure, reshard.region)):  # read at the start of the next iteration
            return False
        later_readers = readers_of(made, kernels)
    else:
        return False
    return all(kernels.regions[kernel] != reshard.region for kernel in later_readers)


def readers_of(values: Iterable[int], kernels: Kernels) -> list[int]:
    return kernels.readers[np.isin(kernels.read, list(values))].tolist()


def ends_kernel(reshard: InsertedCollective, structure: Structure, kernels: Kernels) -> bool:
    """Return whether a hand-written kernel ends with the reduced value, such as the gradient of a norm's scale."""
    if reshard.source is None or not structure.ops[reshard.source].custom_kernel:
        return False
    return reshard.kind in ("all-reduce", "reduce-scatter") and kernels.of[reshard.before] == kernels.of[reshard.source]


def values_made_after(first: int, structure: Structure, kernels: Kernels) -> set[int]:
    """Return the values that an operation's kernel makes from this operation on."""
    made = set(structure.ops[first].results)
    for number in range(first + 1, min(first + _LONGEST, len(structure.ops))):
        if kernels.of[number] == kernels.of[first] and not made.isdisjoint(structure.ops[number].operands):
            made.update(structure.ops[number].results)
    return made


def is_made_of_arguments(
    structure: Structure, value: int, *, unchanged: frozenset[int] = frozenset(), among: frozenset[int] | None = None
) -> bool:
    """Return whether a value depends only on arguments of main (`among` these, if given).

    In a loop, only on values that iterations pass on unchanged and the iteration number. This holds for weights, not
    for stacks written by an earlier loop.
    """
    pending = [value]
    for _ in range(_MOST):
        if not pending:
            return True
        number = pending.pop()
        current = structure.values[number]
        if current.maker >= 0:
            maker = structure.ops[current.maker]
            if maker.kind in CONTROL_FLOW:
                return False
            pending.extend(maker.operands[current.result : current.result + 1] if maker.kind in PASSING else maker.operands)
        elif current.region > 0 and number in unchanged:
            pending.append(structure.ops[structure.regions[current.region].parent].operands[current.result])
        elif (current.region > 0 and not _counts(current)) or (current.region == 0 and among is not None and number not in among):
            return False
    return False


def _counts(value: TracedValue) -> bool:
    return not value.shape and "float" not in value.dtype


def start_weight_gathers_early(sends: Sequence[Send]) -> list[Send]:
    """Return main's sends with floating ones (gathers of weights) started about a layer (`_AHEAD`) earlier.

    >>> [send.after for send in start_weight_gathers_early([Send(7 * i, 7 * i + 1, 1.0, ("data",), False, floats=True) for i in range(10)])]
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 8]
    """
    result, order = list(sends), sorted((i for i, send in enumerate(sends) if send.floats), key=lambda number: sends[number].before)
    for place, number in enumerate(order):
        after = sends[order[place - _AHEAD]].before if place >= _AHEAD else 0
        result[number] = sends[number]._replace(after=after, overlaps=True, floats=False)
    return result


def add_floating_sends(turn: SimulatedTurn, sends: Sequence[Send]) -> SimulatedTurn:
    """Add floating sends to a simulated `turn`: each link needs its time for all sends in each iteration."""
    waited = max(busiest_link(sends, [send.seconds for send in sends]) - turn.seconds, 0.0)
    total = sum(send.seconds for send in sends if send.floats) or 1.0
    waits = tuple(wait + waited * send.seconds / total * send.floats for wait, send in zip(turn.waits, sends, strict=True))
    return replace(turn, seconds=turn.seconds + waited, waits=waits)
