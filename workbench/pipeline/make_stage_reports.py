"""The report of each stage of a pipelined plan: what one of its devices holds, sends and computes in a step, and how long that takes; the
graph of its kernels, and its step as events.

All figures are sums over the stage's blocks as the pipeline was planned, so that they agree with its step, its peaks and its traffic.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from workbench.core.schedules.schedule import Kind
from workbench.core.source_annotations import SourceAnnotations
from workbench.cost.estimate import Estimate
from workbench.cost.kernel_graph import graph_of
from workbench.cost.timeline_events import timeline
from workbench.cost.value_records import list_reshards, list_values
from workbench.hardware.runtime import XLA
from workbench.pipeline.stage_memory_report import StageMemory
from workbench.pipeline.stage_work import (
    UPDATE,
    ResidentSlices,
    StageBlock,
    StageWork,
    count_kernels,
    seconds_at_peak,
    stage_collectives,
    stage_dots,
    stage_flops,
    stage_kernels,
    stage_step_time,
    stage_traffic,
    stage_work,
    update_collectives,
)
from workbench.pipeline.staged_program import staged_program
from workbench.plan.edits import Edit
from workbench.propagation import padding_list
from workbench.reports.device_memory import Alive, MemoryCurve
from workbench.reports.kernel import COMPUTE, Event, Graph, GraphNode, GraphSend, Kernel, Timeline
from workbench.reports.padding import Padding
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Value
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import Conflict
from workbench.reports.report import Report
from workbench.reports.report_details import Details
from workbench.reports.reshard import Remedy, Reshard
from workbench.reports.simulated_pipeline import TaskSpan
from workbench.reports.step_time import DotCost

FindRemedies = Callable[[Report, Reshard], tuple[Remedy, ...]]


def stage_reports(whole: Report, planned: PipelineReport, find_remedies: FindRemedies) -> tuple[Report, ...]:
    """One report for each stage. `whole` is the report of the plan, whose propagation and hardware they share."""
    works = stage_work(staged_program(whole.plan.updated(hardware=whole.hardware)), planned)
    at_peak = sum(map(seconds_at_peak, works)) / len(works)
    return tuple(_stage_report(whole, StageDetails(whole.details, work, find_remedies), at_peak) for work in works)


def _stage_report(whole: Report, details: "StageDetails", at_peak: float) -> Report:
    work = details.work
    runtime = whole.hardware.runtime if whole.hardware else XLA
    return Report(
        plan=whole.plan,
        arguments=details.slices.arguments,
        results=whole.results,
        collectives=stage_collectives(work),
        memory=details.over_step.memory(work.planned.capacity, runtime),
        flops=stage_flops(work),
        traffic=stage_traffic(work),
        kernels=count_kernels(work),
        hardware=whole.hardware,
        step_time=stage_step_time(work, whole.step_time, at_peak) if whole.step_time is not None else None,
        stage=work.device,
        details=details,
    )


@dataclass(frozen=True, eq=False)
class StageDetails(Details[Report]):
    """The longer lists of one stage, from the estimates of its blocks; how shardings propagate is the whole program's, `of_plan`."""

    of_plan: Details[Report]
    work: StageWork
    find_remedies: FindRemedies

    @cached_property
    def slices(self) -> ResidentSlices:
        return ResidentSlices(self.work)

    @cached_property
    def over_step(self) -> StageMemory:
        return StageMemory(self.work, self.slices)

    def values(self) -> tuple[Value, ...]:
        counts = Counter[Value]()
        for block, estimated, times in self.work.runs:
            for each in list_values(estimated):
                counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
        return tuple(replace(each, count=count) for each, count in counts.items())

    def memory_curve(self) -> MemoryCurve:
        return self.over_step.curve

    def alive(self) -> tuple[Alive, ...]:
        return self.over_step.alive(self.over_step.peak)

    def alive_at(self, place: int) -> tuple[Alive, ...]:
        return self.over_step.alive(place)

    def products(self) -> tuple[DotCost, ...]:
        return stage_dots(self.work)

    def timeline(self) -> Timeline | None:
        return stage_timeline(self.work)

    def kernels(self) -> tuple[Kernel, ...]:
        return stage_kernels(self.work)

    def graph(self) -> Graph:
        return stage_graph(self.work)

    def pipeline(self) -> PipelineReport | None:
        return self.work.planned

    def source_annotations(self) -> SourceAnnotations:
        return self.of_plan.source_annotations()

    def padding(self) -> tuple[Padding, ...]:
        counts = Counter[Padding]()
        for block, estimated, times in self.work.runs:
            for each in padding_list(estimated.plan, estimated.partitioned):
                counts[replace(each, path=block.path_of(each.path), count=1)] += each.count * times
        found = (replace(each, count=count) for each, count in counts.items())
        return tuple(sorted(found, key=lambda each: (-each.wasted_bytes * each.count, each.path, each.dim)))

    def propagation(self) -> Propagation:
        return self.of_plan.propagation()

    def reshards(self, report: Report) -> tuple[Reshard, ...]:
        counts = Counter[Reshard]()
        for block, estimated, times in self.work.runs:
            for each in list_reshards(estimated):
                path, reader = block.path_of(each.path), block.path_of(each.reader)
                counts[replace(each, path=path, reader=reader, count=1)] += each.count * times
        found = (replace(each, count=n, find_remedies=partial(self.find_remedies, report)) for each, n in counts.items())
        return tuple(sorted(found, key=lambda each: (not each.rematerialises, -each.sent, each.path)))

    def resolving_edits(self, report: Report, conflict: Conflict) -> tuple[Edit, ...]:
        return self.of_plan.resolving_edits(report, conflict)


# The graph of one stage: the kernels of its blocks' tasks for one micro-batch, with the costs of all their executions in a step.


def stage_graph(work: StageWork) -> Graph:
    """The forward tasks of its blocks one after the other, then their backward tasks; inputs of a task that another makes are no nodes."""
    nodes: list[GraphNode] = []
    edges: list[tuple[int, int]] = []
    sends: list[GraphSend] = []
    last = -1
    for block, graph in _graphs(work):
        kept = [number for number, node in enumerate(graph.nodes) if not node.is_input or node.path.startswith("batch")]
        place = {number: len(nodes) + index for index, number in enumerate(kept)}
        nodes += [replace(graph.nodes[number], path=block.path_of(graph.nodes[number].path)) for number in kept]
        inside = [(place[a], place[b]) for a, b in graph.edges if a in place and b in place]
        edges += inside
        edges += [(last, entry) for entry in _entries(graph, place)] if last >= 0 else []
        sends += [_moved(each, place, block) for each in graph.sends]
        last = max(place.values(), default=last)
    return Graph(tuple(nodes), tuple(edges), tuple(sends))


def _graphs(work: StageWork) -> Iterator[tuple[StageBlock, Graph]]:
    for backward in (False, True):
        for block in work.blocks[::-1] if backward else work.blocks:
            found, times = block.runs[backward]
            seconds = () if found.times is None else found.times.busy + found.times.launch
            graph = graph_of(found.plan.program, found.partitioned, found.kernels, found.plan.mesh, seconds, found.simulated)
            yield block, _repeated(graph, times)


def _repeated(graph: Graph, times: int) -> Graph:
    """Every figure of a graph for all executions of its task."""
    nodes = tuple(replace(each, count=each.count * times, seconds=each.seconds * times, flops=each.flops * times) for each in graph.nodes)
    sends = tuple(
        replace(each, count=each.count * times, sent=each.sent * times, seconds=each.seconds * times, exposed=each.exposed * times)
        for each in graph.sends
    )
    return Graph(nodes, graph.edges, sends)


def _entries(graph: Graph, place: dict[int, int]) -> Iterator[int]:
    """The kernels that read what an earlier task made: an input that is no part of the batch."""
    outside = {number for number, node in enumerate(graph.nodes) if node.is_input and number not in place}
    yield from dict.fromkeys(place[reader] for maker, reader in graph.edges if maker in outside and reader in place)


def _moved(send: GraphSend, place: dict[int, int], block: StageBlock) -> GraphSend:
    return replace(send, maker=place.get(send.maker, -1), reader=place.get(send.reader, -1), path=block.path_of(send.path))


# The step of one stage as events: each task with the kernels and collectives of its blocks, what it sends to other stages, the update.


def stage_timeline(work: StageWork) -> Timeline | None:
    """All events of a step on one device of the stage; `None` without hardware."""
    if work.staged.plan.hardware is None:
        return None
    step = work.planned.simulated
    blocks = _TaskEvents(work)
    events = [event for span in step.devices[work.device] for event in blocks.of_task(span)]
    begin, end = step.update_span(work.device)
    for each in update_collectives(work):
        events.append(Event("+".join(each.axes), begin, each.seconds, each.path, each.kind, exposed=each.seconds))
        begin += each.seconds
    if end > begin:
        events.append(Event(COMPUTE, begin, end - begin, UPDATE, UPDATE))
    events += _transfers(work)
    return Timeline(step.seconds, tuple(sorted(events, key=lambda each: (each.start, each.stream))))


class _TaskEvents:
    """The events of one execution of each block's tasks, from 0; made once, and moved to where a task begins."""

    def __init__(self, work: StageWork) -> None:
        self._work = work
        self._known: dict[tuple[str, bool], tuple[Event, ...]] = {}

    def of_task(self, span: TaskSpan) -> Iterator[Event]:
        blocks = [block for block in self._work.blocks if block.number == span.task.stage]
        start = span.start
        if span.task.kind is Kind.FORWARD or span.recompute:
            yield from self._in_sequence(blocks, start, backward=False)
            start += span.recompute
        if span.task.kind is Kind.BACKWARD:
            yield from self._in_sequence(blocks[::-1], start, backward=True)
        elif span.task.kind is not Kind.FORWARD:
            yield from _halves(blocks[::-1], start, span)

    def _in_sequence(self, blocks: Sequence[StageBlock], start: float, *, backward: bool) -> Iterator[Event]:
        for block in blocks:
            for event in self._events(block, backward=backward):
                yield replace(event, start=start + event.start)
            start += _seconds(block.backward if backward else block.forward)

    def _events(self, block: StageBlock, *, backward: bool) -> tuple[Event, ...]:
        key = block.path, backward
        if key not in self._known:
            found = block.backward if backward else block.forward
            assert found.simulated is not None, "with hardware every task is simulated"
            events = timeline(found.plan.program, found.partitioned, found.kernels, found.simulated).events
            self._known[key] = tuple(replace(event, path=block.path_of(event.path)) for event in events)
        return self._known[key]


def _seconds(estimated: Estimate) -> float:
    return estimated.step_time.total if estimated.step_time is not None else 0.0


def _halves(blocks: Sequence[StageBlock], start: float, span: TaskSpan) -> Iterator[Event]:
    """Half of a backward task as one event for each block: the planner knows the share of a half, not which of the kernels it has."""
    whole = sum(_seconds(block.backward) for block in blocks) or 1.0
    rest = span.end - start
    name = "gradient of the input" if span.task.kind is Kind.BACKWARD_INPUT else "gradient of the weights"
    for block in blocks:
        seconds = rest * _seconds(block.backward) / whole
        yield Event(COMPUTE, start, seconds, f"grad/{block.path}", name)
        start += seconds


def _transfers(work: StageWork) -> Iterator[Event]:
    """What the stage sends to others, on the links of the pipeline's mesh axis, beside its work."""
    step, axis = work.planned.simulated, work.staged.spec.axis
    own = set(step.stages_of(work.device))
    for each in step.arrivals:
        if each.task.stage in own and each.end > each.start:
            what = "activations" if each.task.kind is Kind.FORWARD else "gradients"
            path = f"{what} of micro-batch {each.task.micro_batch} to stage {work.staged.spec.device_of(each.stage)}"
            yield Event(axis, each.start, each.end - each.start, path, "send")
