"""Report of each stage of a pipelined plan: memory, communication, computation and time of one of its devices per step,
its kernel graph, and its step as events.

All figures are sums over the stage's blocks as planned for the pipeline, so that they agree with its step, peaks and
traffic.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from workbench.core.schedules.schedule import Kind
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
from workbench.propagation import padding_list
from workbench.reports.kernel import COMPUTE, Event, Graph, GraphNode, GraphSend, Timeline
from workbench.reports.padding import Padding
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Value
from workbench.reports.report import Details, Report
from workbench.reports.reshard import Remedy, Reshard
from workbench.reports.simulated_pipeline import TaskSpan

FindRemedies = Callable[[Report, Reshard], tuple[Remedy, ...]]


def stage_reports(whole: Report, planned: PipelineReport, find_remedies: FindRemedies) -> tuple[Report, ...]:
    """Return one report per stage; `whole` is the plan's report, which provides propagation and hardware."""
    works = stage_work(staged_program(whole.plan.updated(hardware=whole.hardware)), planned)
    at_peak = sum(map(seconds_at_peak, works)) / len(works)
    return tuple(_stage_report(whole, work, find_remedies, at_peak) for work in works)


def _stage_report(whole: Report, work: StageWork, find_remedies: FindRemedies, at_peak: float) -> Report:
    runtime = whole.hardware.runtime if whole.hardware else XLA
    slices = ResidentSlices(work)
    over_step = StageMemory(work, slices)
    return Report(
        plan=whole.plan,
        arguments=slices.arguments,
        results=whole.results,
        collectives=stage_collectives(work),
        memory=over_step.memory(work.planned.capacity, runtime),
        flops=stage_flops(work),
        traffic=stage_traffic(work),
        kernels=count_kernels(work),
        hardware=whole.hardware,
        step_time=stage_step_time(work, whole.step_time, at_peak) if whole.step_time is not None else None,
        stage=work.device,
        details=_stage_details(whole.details, work, over_step, find_remedies),
    )


def _stage_details(of_plan: Details, work: StageWork, over_step: StageMemory, find_remedies: FindRemedies) -> Details:
    """Return the details of one stage, from the estimates of its blocks; propagation is that of the whole program."""
    return Details(
        values=partial(_stage_values, work),
        memory_curve=lambda: over_step.curve,
        alive=lambda: over_step.alive(over_step.peak),
        alive_at=over_step.alive,
        products=partial(stage_dots, work),
        timeline=partial(stage_timeline, work),
        kernels=partial(stage_kernels, work),
        graph=partial(stage_graph, work),
        pipeline=lambda: work.planned,
        source_annotations=of_plan.source_annotations,
        padding=partial(_stage_padding, work),
        propagation=of_plan.propagation,
        reshards=partial(_stage_reshards, work, find_remedies),
        resolving_edits=of_plan.resolving_edits,
    )


def _stage_values(work: StageWork) -> tuple[Value, ...]:
    counts = Counter[Value]()
    for block, estimated, times in work.runs:
        for value in list_values(estimated):
            counts[replace(value, path=block.path_of(value.path), count=1)] += value.count * times
    return tuple(replace(value, count=count) for value, count in counts.items())


def _stage_padding(work: StageWork) -> tuple[Padding, ...]:
    counts = Counter[Padding]()
    for block, estimated, times in work.runs:
        for padded in padding_list(estimated.plan, estimated.partitioned):
            counts[replace(padded, path=block.path_of(padded.path), count=1)] += padded.count * times
    totals = (replace(padding, count=count) for padding, count in counts.items())
    return tuple(sorted(totals, key=lambda padding: (-padding.wasted_bytes * padding.count, padding.path, padding.dim)))


def _stage_reshards(work: StageWork, find_remedies: FindRemedies, report: Report) -> tuple[Reshard, ...]:
    counts = Counter[Reshard]()
    for block, estimated, times in work.runs:
        for reshard in list_reshards(estimated):
            path, reader = block.path_of(reshard.path), block.path_of(reshard.reader)
            counts[replace(reshard, path=path, reader=reader, count=1)] += reshard.count * times
    totals = (replace(reshard, count=n, find_remedies=partial(find_remedies, report)) for reshard, n in counts.items())
    return tuple(sorted(totals, key=lambda reshard: (not reshard.rematerialises, -reshard.sent, reshard.path)))


# Graph of one stage: kernels of its blocks' tasks for one micro-batch, with the costs of all their executions in a step.


def stage_graph(work: StageWork) -> Graph:
    """Chain the forward tasks of the blocks, then their backward tasks; inputs from other tasks are no nodes."""
    nodes: list[GraphNode] = []
    edges: list[tuple[int, int]] = []
    sends: list[GraphSend] = []
    last_node = -1
    for block, graph in _graphs(work):
        numbers = [number for number, node in enumerate(graph.nodes) if not node.is_input or node.path.startswith("batch")]
        index_of = {number: len(nodes) + index for index, number in enumerate(numbers)}
        nodes += [replace(graph.nodes[number], path=block.path_of(graph.nodes[number].path)) for number in numbers]
        inside = [(index_of[a], index_of[b]) for a, b in graph.edges if a in index_of and b in index_of]
        edges += inside
        edges += [(last_node, entry) for entry in _entries(graph, index_of)] if last_node >= 0 else []
        sends += [_moved(send, index_of, block) for send in graph.sends]
        last_node = max(index_of.values(), default=last_node)
    return Graph(tuple(nodes), tuple(edges), tuple(sends))


def _graphs(work: StageWork) -> Iterator[tuple[StageBlock, Graph]]:
    for backward in (False, True):
        for block in work.blocks[::-1] if backward else work.blocks:
            estimate, times = block.runs[backward]
            seconds = () if estimate.times is None else estimate.times.busy + estimate.times.launch
            graph = graph_of(estimate.plan.program, estimate.partitioned, estimate.kernels, estimate.plan.mesh, seconds, estimate.simulated)
            yield block, _repeated(graph, times)


def _repeated(graph: Graph, times: int) -> Graph:
    nodes = tuple(replace(node, count=node.count * times, seconds=node.seconds * times, flops=node.flops * times) for node in graph.nodes)
    sends = tuple(
        replace(send, count=send.count * times, sent=send.sent * times, seconds=send.seconds * times, exposed=send.exposed * times)
        for send in graph.sends
    )
    return Graph(nodes, graph.edges, sends)


def _entries(graph: Graph, place: dict[int, int]) -> Iterator[int]:
    """Yield the kernels that read a result of an earlier task: an input that is not part of the batch."""
    outside = {number for number, node in enumerate(graph.nodes) if node.is_input and number not in place}
    yield from dict.fromkeys(place[reader] for maker, reader in graph.edges if maker in outside and reader in place)


def _moved(send: GraphSend, place: dict[int, int], block: StageBlock) -> GraphSend:
    return replace(send, maker=place.get(send.maker, -1), reader=place.get(send.reader, -1), path=block.path_of(send.path))


# The step of one stage as events: kernels and collectives of its blocks per task, sends to other stages, and the update.


def stage_timeline(work: StageWork) -> Timeline | None:
    """Return all events of a step on one device of the stage; `None` without hardware."""
    if work.staged.plan.hardware is None:
        return None
    step = work.planned.simulated
    blocks = _TaskEvents(work)
    events = [event for span in step.devices[work.device] for event in blocks.of_task(span)]
    begin, end = step.update_span(work.device)
    for collective in update_collectives(work):
        events.append(
            Event("+".join(collective.axes), begin, collective.seconds, collective.path, collective.kind, exposed=collective.seconds)
        )
        begin += collective.seconds
    if end > begin:
        events.append(Event(COMPUTE, begin, end - begin, UPDATE, UPDATE))
    events += _transfers(work)
    return Timeline(step.seconds, tuple(sorted(events, key=lambda event: (event.start, event.stream))))


class _TaskEvents:
    """Events of each block's tasks, relative to the start; created once and shifted to the start of each execution."""

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
            estimate = block.backward if backward else block.forward
            assert estimate.simulated is not None, "with hardware every task is simulated"
            events = timeline(estimate.plan.program, estimate.partitioned, estimate.kernels, estimate.simulated).events
            self._known[key] = tuple(replace(event, path=block.path_of(event.path)) for event in events)
        return self._known[key]


def _seconds(estimated: Estimate) -> float:
    return estimated.step_time.total if estimated.step_time is not None else 0.0


def _halves(blocks: Sequence[StageBlock], start: float, span: TaskSpan) -> Iterator[Event]:
    """Yield one event per block for half of a backward task, whose kernels the planner does not know."""
    total = sum(_seconds(block.backward) for block in blocks) or 1.0
    available = span.end - start
    name = "gradient of the input" if span.task.kind is Kind.BACKWARD_INPUT else "gradient of the weights"
    for block in blocks:
        seconds = available * _seconds(block.backward) / total
        yield Event(COMPUTE, start, seconds, f"grad/{block.path}", name)
        start += seconds


def _transfers(work: StageWork) -> Iterator[Event]:
    step, axis = work.planned.simulated, work.staged.spec.axis
    stages = set(step.stages_of(work.device))
    for arrival in step.arrivals:
        if arrival.task.stage in stages and arrival.end > arrival.start:
            what = "activations" if arrival.task.kind is Kind.FORWARD else "gradients"
            path = f"{what} of micro-batch {arrival.task.micro_batch} to stage {work.staged.spec.device_of(arrival.stage)}"
            yield Event(axis, arrival.start, arrival.end - arrival.start, path, "send")
