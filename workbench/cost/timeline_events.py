"""Convert a simulated step to timeline events."""

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
    """Return the events of main and of each loop's first iteration, and one event for a loop's other iterations."""
    named = replace(kernels, ops=_name_kernels(kernels, partitioned))
    events = sorted(_events(0, 0.0, program, partitioned, named, simulated), key=lambda event: (event.start, event.stream))
    return Timeline(simulated.seconds, tuple(events))


def _name_kernels(kernels: Kernels, partitioned: Propagated) -> tuple[int, ...]:
    """Return the operation shown for each kernel: its largest dot, or the last fused operation."""
    dots = sorted(kernels.dots, key=lambda dot: partitioned.local_flops.get(dot.op, 0))
    largest = {dot.kernel: dot.op for dot in dots if partitioned.local_flops.get(dot.op)}
    return tuple(largest.get(number, op) for number, op in enumerate(kernels.ops))


def _events(
    number: int, offset: float, program: Program, partitioned: Propagated, kernels: Kernels, simulated: SimulatedStep
) -> Iterator[Event]:
    region, turn, sends = simulated.regions[number], simulated.turns[number], simulated.sends[number]
    for send, start, wait, position in zip(sends, turn.starts, turn.waits, simulated.reshards[number], strict=True):
        collective = partitioned.reshards[position]
        operation = program.operations[collective.sender]
        stream = "+".join(dict.fromkeys(map(base_axis, collective.axes)))
        yield Event(stream, offset + start, send.seconds, operation.path, collective.kind, region.times, wait)
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
    """Yield the events of a loop's or branch's regions in sequence, each with its first iteration."""
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
    """Return each item's start: the time of all previous items and waits."""
    waited = [0.0] * (len(busy) + 1)
    for send, wait in zip(sends, waits, strict=True):
        waited[max(send.after, send.before)] += wait
    return [done + so_far for done, so_far in zip([0.0, *accumulate(busy)][:-1], list(accumulate(waited))[:-1], strict=True)]
