"""The report of each stage of a pipelined plan: what one of its devices holds, sends and computes in a step, and how long that takes.

All figures are sums over the stage's blocks as the pipeline was planned, so that they agree with its step, its peaks and its traffic.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

from workbench.core.source_annotations import SourceAnnotations
from workbench.cost.estimate_lists import list_reshards, list_values
from workbench.pipeline.stage_reports.resident_slices import ResidentSlices
from workbench.pipeline.stage_reports.stage_figures import (
    count_kernels,
    stage_collectives,
    stage_dots,
    stage_flops,
    stage_kernels,
    stage_step_time,
    stage_traffic,
)
from workbench.pipeline.stage_reports.stage_graph import stage_graph
from workbench.pipeline.stage_reports.stage_memory import StageMemory
from workbench.pipeline.stage_reports.stage_timeline import stage_timeline
from workbench.pipeline.stage_reports.stage_work import StageWork, stage_work
from workbench.pipeline.staged_program import staged_program
from workbench.plan.edits import Edit
from workbench.propagation import padding_list
from workbench.reports.details import Details
from workbench.reports.kernel import Kernel
from workbench.reports.memory import Alive, MemoryCurve
from workbench.reports.padding import Padding
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Value
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import Conflict
from workbench.reports.report import Report
from workbench.reports.reshard import Remedy, Reshard
from workbench.reports.step_graph import Graph
from workbench.reports.step_time import DotCost
from workbench.reports.timeline import Timeline

FindRemedies = Callable[[Report, Reshard], tuple[Remedy, ...]]


def stage_reports(whole: Report, planned: PipelineReport, find_remedies: FindRemedies) -> tuple[Report, ...]:
    """One report for each stage. `whole` is the report of the plan, whose propagation and hardware they share."""
    plan = whole.plan.updated(hardware=whole.hardware)
    return tuple(
        _stage_report(whole, StageDetails(whole.details, work, find_remedies)) for work in stage_work(staged_program(plan), planned)
    )


def _stage_report(whole: Report, details: "StageDetails") -> Report:
    work = details.work
    reserved = whole.hardware.runtime.reserved if whole.hardware else 1.0
    return Report(
        plan=whole.plan,
        arguments=details.slices.arguments,
        results=whole.results,
        collectives=stage_collectives(work),
        memory=details.over_step.memory(work.planned.capacity, reserved),
        flops=stage_flops(work),
        traffic=stage_traffic(work),
        kernels=count_kernels(work),
        hardware=whole.hardware,
        step_time=stage_step_time(work, whole.step_time) if whole.step_time is not None else None,
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
