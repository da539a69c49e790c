"""The report of a pipeline of `engine:spmd`: of the one program that all devices run, the shifting buffer, planned as any program is.

What a person edits stays that of the program as traced: its intermediate values, how shardings propagate to them, what it states of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

from workbench.analysis.diagnose_pipeline import with_pipeline
from workbench.core.source_annotations import SourceAnnotations
from workbench.errors import WorkbenchError
from workbench.pipeline.choose_boundaries import apply_edit
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.details import Details
from workbench.reports.diagnostic import Diagnostic
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
