"""A simulated step as events for a timeline."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from workbench.core.program import Program
from workbench.core.sharding import base_axis
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.simulate_overlap import SimulatedStep
from workbench.cost.simulate_turn import Send
from workbench.propagation import Propagated
from workbench.reports.kernel import COMPUTE, Event, Timeline


def timeline(program: Program, partitioned: Propagated, kernels: Kernels, simulated: SimulatedStep) -> Timeline:
    """Kernels and collectives of main, and of each loop's first iteration at the loop's place; one event for its other iterations."""
    named = replace(kernels, ops=_name_kernels(kernels, partitioned))
    events = sorted(_events(0, 0.0, program, partitioned, named, simulated), key=lambda each: (each.start, each.stream))
    return Timeline(simulated.seconds, tuple(events))


def _name_kernels(kernels: Kernels, partitioned: Propagated) -> tuple[int, ...]:
    """The operation each kernel is shown as: the largest dot in it, else the last operation that was fused into it."""
    dots = sorted(kernels.dots, key=lambda each: partitioned.local_flops.get(each.op, 0))
    largest = {each.kernel: each.op for each in dots if partitioned.local_flops.get(each.op)}
    return tuple(largest.get(number, op) for number, op in enumerate(kernels.ops))


def _events(
    number: int, offset: float, program: Program, partitioned: Propagated, kernels: Kernels, simulated: SimulatedStep
) -> Iterator[Event]:
    region, turn, sends = simulated.regions[number], simulated.turns[number], simulated.sends[number]
    for send, start, wait, position in zip(sends, turn.starts, turn.waits, simulated.reshards[number], strict=True):
        each = partitioned.reshards[position]
        operation = program.operations[each.sender]
        stream = "+".join(dict.fromkeys(map(base_axis, each.axes)))
        yield Event(stream, offset + start, send.seconds, operation.path, each.kind, region.times, wait)
    starts = turn.begins or _start_times(simulated.busy[number], sends, turn.waits)
    loops = dict(region.loops)
    for position, (kernel, start, seconds) in enumerate(zip(region.kernels, starts, simulated.busy[number], strict=True)):
        if kernel >= 0:
            operation = program.operations[kernels.ops[kernel]]
            yield Event(COMPUTE, offset + start, seconds, operation.path, operation.kind, region.times)
        else:
            yield from _loop_events(loops[position], offset + start, region.times, program, partitioned, kernels, simulated)


def _loop_events(
    op: int, start: float, times: int, program: Program, partitioned: Propagated, kernels: Kernels, simulated: SimulatedStep
) -> Iterator[Event]:
    """The regions of one loop or branch one after the other, each with its first iteration."""
    for number, region in enumerate(partitioned.structure.regions):
        if region.parent != op:
            continue
        yield from _events(number, start, program, partitioned, kernels, simulated)
        first, trips = simulated.turns[number].seconds, simulated.regions[number].trips
        if trips > 1 and first:
            operation = program.operations[op]
            yield Event(COMPUTE, start + first, first * (trips - 1), operation.path, "loop", times)
        start += first * trips


def _start_times(busy: Sequence[float], sends: Sequence[Send], waits: Sequence[float]) -> list[float]:
    """When each item starts: the time of all items before it, and of the waits up to it."""
    waited = [0.0] * (len(busy) + 1)
    for send, wait in zip(sends, waits, strict=True):
        waited[max(send.after, send.before)] += wait
    return [done + so_far for done, so_far in zip([0.0, *accumulate(busy)][:-1], list(accumulate(waited))[:-1], strict=True)]
