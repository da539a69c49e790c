"""The step of one stage as events: each task with the kernels and collectives of its blocks, what it sends to other stages, the update."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from workbench.core.schedules.tasks import Kind
from workbench.cost.estimate import Estimate
from workbench.cost.timeline_events import timeline
from workbench.pipeline.stage_reports.stage_figures import UPDATE, update_collectives
from workbench.pipeline.stage_reports.stage_work import StageBlock, StageWork
from workbench.reports.simulated_pipeline import TaskSpan
from workbench.reports.timeline import COMPUTE, Event, Timeline


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
