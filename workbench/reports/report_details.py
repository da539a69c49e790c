"""The parts of a report that are made on first use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from workbench.core.source_annotations import SourceAnnotations
from workbench.plan.edits import Edit
from workbench.reports.device_memory import Alive, MemoryCurve
from workbench.reports.diagnostic import Diagnostic
from workbench.reports.kernel import Graph, Kernel, Timeline
from workbench.reports.padding import Padding
from workbench.reports.pipeline import PipelineReport
from workbench.reports.placement import Value
from workbench.reports.propagation import EMPTY, Propagation
from workbench.reports.propagation_records import Conflict
from workbench.reports.reshard import Reshard
from workbench.reports.step_time import DotCost

SENT, MEMORY, KERNELS, STEP = "sent", "memory", "kernels", "step"  # the figures that have a range


@dataclass(frozen=True, slots=True)
class Range:
    """An interval from `low` to `high`, in the unit of the figure; it holds nine of ten true figures."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


class HasDiagnostics(Protocol):
    """A report, as its details see it: `report.py` imports this file."""

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...


AnyReport = TypeVar("AnyReport", bound=HasDiagnostics)


class Details(Generic[AnyReport]):
    """The parts of a report that are made on first use, so that a report is quick to get. None here; `analysis.analyze` has a
    plan's.

    The properties of `Report` say what each is. What takes the report is of all of it: suggested edits are tried against it.
    """

    def values(self) -> tuple[Value, ...]:
        return ()

    def memory_curve(self) -> MemoryCurve:
        return MemoryCurve((), {})

    def alive(self) -> tuple[Alive, ...]:
        return ()

    def alive_at(self, _place: int) -> tuple[Alive, ...]:
        return ()

    def products(self) -> tuple[DotCost, ...]:
        return ()

    def timeline(self) -> Timeline | None:
        return None

    def kernels(self) -> tuple[Kernel, ...]:
        return ()

    def graph(self) -> Graph:
        return Graph()

    def pipeline(self) -> PipelineReport | None:
        return None

    def stages(self, report: AnyReport) -> tuple[AnyReport, ...]:
        """The report of each stage of a pipeline; of a plan without one the report itself. Raises `PipelineError` as `pipeline` does."""
        return (report,)

    def source_annotations(self) -> SourceAnnotations:
        return SourceAnnotations()

    def padding(self) -> tuple[Padding, ...]:
        return ()

    def propagation(self) -> Propagation:
        return EMPTY

    def reshards(self, _report: AnyReport) -> tuple[Reshard, ...]:
        return ()

    def notes(self, report: AnyReport) -> tuple[Diagnostic, ...]:
        return report.diagnostics

    def ranges(self, _report: AnyReport) -> Mapping[str, Range]:
        return {}

    def resolving_edits(self, _report: AnyReport, _conflict: Conflict) -> tuple[Edit, ...]:
        """The edits after which the loser of a conflict wins; empty if only the function itself can be changed."""
        return ()
