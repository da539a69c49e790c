"""`analyze`: from a plan to a report. Pure: the same plan gives the same report; nothing executes, nothing is traced again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.conflict_remedies import resolving_edits
from workbench.analysis.diagnose import diagnose
from workbench.analysis.diagnose_pipeline import with_pipeline
from workbench.analysis.gpu_step_intervals import has_published_runs, interval_for
from workbench.analysis.prediction_intervals import ranges_of
from workbench.analysis.remedies import Analyze, find_remedies
from workbench.core.source_annotations import SourceAnnotations
from workbench.cost.estimate import Estimate, estimate
from workbench.cost.kernel_graph import graph_of
from workbench.cost.step_flops import list_dots
from workbench.cost.timeline_events import timeline
from workbench.cost.value_records import kernel_list, list_reshards, list_values
from workbench.errors import PipelineError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.pipeline.balance import apply_edit
from workbench.pipeline.make_stage_reports import stage_reports
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.pipeline.staged_program import as_spmd_program
from workbench.plan.edits import Edit, SetHardware
from workbench.plan.plan import Plan
from workbench.propagation import padding_list, propagation_of, source_annotations
from workbench.reports.device_memory import Alive, MemoryCurve
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.kernel import Graph, Kernel, Timeline
from workbench.reports.padding import Padding
from workbench.reports.partitioned import Partitioned
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Value
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import Conflict
from workbench.reports.report import Report
from workbench.reports.report_details import Details, Range
from workbench.reports.reshard import Remedy, Reshard
from workbench.reports.step_time import DotCost


def analyze(plan: Plan, hardware: Hardware | None = None, answer: Partitioned | None = None) -> Report:
    """Everything the planner knows of a plan: Shardy's propagation, and its cost on one device; the step time if the hardware is known.

    With the partitioner's `answer` to the plan, its collectives replace the planned ones, and so do all figures that depend on them; where
    it came from the hardware's own compiler, memory and kernels are also that compiler's. A pipeline of `engine:spmd` is another program,
    and is planned as that; it has no answer. Raises `PartitionError` where Shardy refuses the plan.
    """
    if plan.pipeline is None or plan.pipeline.engine != "spmd":
        return _analyze(plan, hardware, answer)
    try:
        run = as_spmd_program(plan)
    except PipelineError:  # its notes say why
        return _analyze(plan, hardware, None)
    return one_program_report(plan, _analyze(run, hardware, None), lambda: _analyze(plan, hardware, None))


def _analyze(plan: Plan, hardware: Hardware | None, answer: Partitioned | None) -> Report:
    found = estimate(plan, hardware, answer)
    report = Report(
        plan=plan,
        arguments=found.arguments,
        results=found.results,
        collectives=found.collectives,
        memory=found.memory,
        flops=found.flops,
        traffic=found.traffic,
        kernels=int(found.kernels.times.sum()),
        host_traffic=found.host_traffic,
        step_time=found.step_time,
        hardware=found.hardware,
        partitioned=answer,
        details=PlannedDetails(found, analyze),
    )
    report = _with_calibration(report)
    report = diagnose(report, found.planned, found.partitioned.edges)  # edits are tried on Shardy's propagation, and compared with that
    report = report if plan.pipeline is None else _of_pipelined_step(report)
    return with_compiled(report, answer.scheduled) if answer is not None and answer.scheduled is not None else report


def _of_pipelined_step(report: Report) -> Report:
    """The report with the figures of the pipelined step: those of one device are of the fullest stage's, operations are of all stages. It
    stays that of the program as one where that cannot be partitioned so."""
    if report.staged_pipeline is None:
        return report
    stages, shown = report.stages, report.fullest
    flops = replace(
        report.flops,
        unique=sum(each.flops.unique for each in stages),
        per_device=sum(each.flops.per_device for each in stages) // len(stages),
    )
    figures = {name: getattr(shown, name) for name in ("collectives", "memory", "traffic", "kernels", "step_time")}
    found = replace(report, flops=flops, **figures)
    vars(found).update(pipeline=report.pipeline, _stages=stages)  # they do not depend on what was replaced
    return found


def _with_calibration(report: Report) -> Report:
    """The report whose step time says *not calibrated* where no run like it was published, under a runtime of which others were."""
    time, hardware = report.step_time, report.hardware
    if time is None or hardware is None or not has_published_runs(hardware) or interval_for(report) is not None:
        return report
    return replace(report, step_time=replace(time, calibrated="", shares_of=""))


# The report of a pipeline of `engine:spmd`: of the one program that all devices run, the shifting buffer, planned as any program is.
#
# What a person edits stays that of the program as traced: its intermediate values, how shardings propagate to them, what it states of them.


def one_program_report(plan: Plan, ran: Report, analyze_traced: Callable[[], Report]) -> Report:
    """`ran` as the report of `plan`: it is that of the program which runs in place of the plan's own."""
    return replace(ran, plan=plan, is_one_program=True, details=OneProgramDetails(plan, ran, analyze_traced))


@dataclass(frozen=True, eq=False)
class OneProgramDetails(Details[Report]):
    """What devices do is of the program that runs, `ran`; the rest is of the traced program, analyzed when first asked for."""

    plan: Plan
    ran: Report
    analyze_traced: Callable[[], Report]

    @cached_property
    def traced(self) -> Details[Report]:
        return self.analyze_traced().details

    def values(self) -> tuple[Value, ...]:
        return self.traced.values()

    def memory_curve(self) -> MemoryCurve:
        return self.ran.memory_curve

    def alive(self) -> tuple[Alive, ...]:
        return self.ran.alive

    def alive_at(self, place: int) -> tuple[Alive, ...]:
        return self.ran.alive_at(place)

    def products(self) -> tuple[DotCost, ...]:
        return self.ran.products

    def timeline(self) -> Timeline | None:
        return self.ran.timeline

    def kernels(self) -> tuple[Kernel, ...]:
        return self.ran.kernel_costs

    def graph(self) -> Graph:
        return self.ran.graph

    def pipeline(self) -> PipelineReport | None:
        return self.traced.pipeline()

    def source_annotations(self) -> SourceAnnotations:
        return self.traced.source_annotations()

    def padding(self) -> tuple[Padding, ...]:
        return self.ran.padding

    def propagation(self) -> Propagation:
        return self.traced.propagation()

    def reshards(self, report: Report) -> tuple[Reshard, ...]:
        del report
        return tuple(replace(each, find_remedies=partial(self._find_remedies, each)) for each in self.ran.reshards)

    def _find_remedies(self, found: Reshard, _: Reshard) -> tuple[Remedy, ...]:
        return tuple(each for each in found.remedies if self._applies(each.edit))

    def notes(self, report: Report) -> tuple[Diagnostic, ...]:
        mine = tuple(replace(each, known=(), find=partial(self._find_edits, each)) for each in report.diagnostics)
        return with_pipeline(replace(report, diagnostics=mine))

    def resolving_edits(self, report: Report, conflict: Conflict) -> tuple[Edit, ...]:
        return self.traced.resolving_edits(report, conflict)

    def _find_edits(self, found: Diagnostic) -> tuple[Edit, ...]:
        return tuple(filter(self._applies, found.edits))

    def _applies(self, edit: Edit) -> bool:
        """Whether an edit of the program that runs is one of the plan, too: values of the shifting buffer have no part in that."""
        try:
            apply_edit(self.plan, edit)
        except WorkbenchError:
            return False
        return True


# The longer lists of a report, made from its estimate when they are first requested.


@dataclass(frozen=True, slots=True)
class PlannedDetails(Details[Report]):
    """Details of a plan's estimate. `analyze` makes the report of another plan."""

    estimate: Estimate
    analyze: Analyze

    @property
    def _plan(self) -> Plan:
        return self.estimate.plan

    def values(self) -> tuple[Value, ...]:
        return list_values(self.estimate)

    def memory_curve(self) -> MemoryCurve:
        return self.estimate.over_step.curve()

    def alive(self) -> tuple[Alive, ...]:
        return self.estimate.over_step.alive()

    def alive_at(self, place: int) -> tuple[Alive, ...]:
        return self.estimate.over_step.alive(place)

    def products(self) -> tuple[DotCost, ...]:
        return list_dots(self._plan.program, self._plan.mesh, self.estimate.partitioned)

    def timeline(self) -> Timeline | None:
        estimate = self.estimate
        return (
            None if estimate.simulated is None else timeline(self._plan.program, estimate.partitioned, estimate.kernels, estimate.simulated)
        )

    def kernels(self) -> tuple[Kernel, ...]:
        estimate = self.estimate
        return () if estimate.times is None else kernel_list(self._plan.program, estimate.partitioned, estimate.kernels, estimate.times)

    def graph(self) -> Graph:
        estimate, plan = self.estimate, self._plan
        seconds = () if estimate.times is None else estimate.times.busy + estimate.times.launch
        return graph_of(plan.program, estimate.partitioned, estimate.kernels, plan.mesh, seconds, estimate.simulated)

    def pipeline(self) -> PipelineReport | None:
        """The stages of a pipeline are programs of their own, estimated separately."""
        plan, hardware = self._plan, self.estimate.hardware
        if plan.pipeline is None:
            return None
        return pipeline_report(plan if plan.hardware == hardware else SetHardware(hardware).apply(plan))

    def stages(self, report: Report) -> tuple[Report, ...]:
        """Raises `PipelineError` also where the pipeline is to be one program and cannot: no device runs its stages otherwise."""
        planned = report.pipeline
        if planned is not None and planned.is_in_step:
            as_spmd_program(self._plan)
        return (report,) if planned is None else stage_reports(report, planned, partial(find_remedies, self.analyze))

    def source_annotations(self) -> SourceAnnotations:
        return source_annotations(self._plan.program)

    def padding(self) -> tuple[Padding, ...]:
        return padding_list(self._plan, self.estimate.partitioned)

    def propagation(self) -> Propagation:
        return propagation_of(self._plan, self.estimate.partitioned.dims)

    def reshards(self, report: Report) -> tuple[Reshard, ...]:
        return tuple(replace(each, find_remedies=partial(find_remedies, self.analyze, report)) for each in list_reshards(self.estimate))

    def notes(self, report: Report) -> tuple[Diagnostic, ...]:
        pipeline = self._plan.pipeline
        return report.diagnostics if pipeline is None else with_pipeline(report, self.estimate.flops.duplication / pipeline.stages)

    def ranges(self, report: Report) -> Mapping[str, Range]:
        return ranges_of(report)

    def resolving_edits(self, report: Report, conflict: Conflict) -> tuple[Edit, ...]:
        return resolving_edits(report, conflict)
