"""The longer lists of a report, made from its estimate when they are first requested."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from workbench.analysis.conflict_remedies import resolving_edits
from workbench.analysis.diagnose_pipeline import with_pipeline
from workbench.analysis.prediction_intervals import ranges_of
from workbench.analysis.remedies import Analyze, find_remedies
from workbench.core.source_annotations import SourceAnnotations
from workbench.cost.estimate import Estimate
from workbench.cost.estimate_lists import list_reshards, list_values
from workbench.cost.kernel_graph import graph_of
from workbench.cost.kernel_report import kernel_list
from workbench.cost.step_flops import list_dots
from workbench.cost.timeline_events import timeline
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.pipeline.spmd_pipeline_plan import as_spmd_program
from workbench.pipeline.stage_reports.make_stage_reports import stage_reports
from workbench.plan.edits import Edit, SetHardware
from workbench.plan.plan import Plan
from workbench.propagation import padding_list, propagation_of, source_annotations
from workbench.reports.details import Details, Range
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.kernel import Kernel
from workbench.reports.memory import Alive, MemoryCurve
from workbench.reports.padding import Padding
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Value
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import Conflict
from workbench.reports.report import Report
from workbench.reports.reshard import Reshard
from workbench.reports.step_graph import Graph
from workbench.reports.step_time import DotCost
from workbench.reports.timeline import Timeline


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
        return report.diagnostics if self._plan.pipeline is None else with_pipeline(report)

    def ranges(self, report: Report) -> Mapping[str, Range]:
        return ranges_of(report)

    def resolving_edits(self, report: Report, conflict: Conflict) -> tuple[Edit, ...]:
        return resolving_edits(report, conflict)
