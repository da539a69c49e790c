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

    What takes the report is of all of it: the edits that are suggested are tried against it.
    """

    def values(self) -> tuple[Value, ...]:
        """The intermediate values, alike ones together, in order of appearance."""
        return ()

    def memory_curve(self) -> MemoryCurve:
        """Bytes on one device over the step."""
        return MemoryCurve((), {})

    def alive(self) -> tuple[Alive, ...]:
        """The values in memory at the peak, the largest first."""
        return ()

    def alive_at(self, place: int) -> tuple[Alive, ...]:
        """The values in memory at a place of the curve, the largest first."""
        del place
        return ()

    def products(self) -> tuple[DotCost, ...]:
        """The dots of a step, the largest on one device first."""
        return ()

    def timeline(self) -> Timeline | None:
        """The simulated step as events, in seconds; `None` without hardware."""
        return None

    def kernels(self) -> tuple[Kernel, ...]:
        """The cost of each kernel, the longest first; empty without hardware."""
        return ()

    def graph(self) -> Graph:
        """The graph of the kernels and what they pass to each other."""
        return Graph()

    def pipeline(self) -> PipelineReport | None:
        """The stages and their step; `None` for a plan without a pipeline. Raises `PipelineError` where it cannot be partitioned so."""
        return None

    def stages(self, report: AnyReport) -> tuple[AnyReport, ...]:
        """The report of each stage of a pipeline; of a plan without one the report itself. Raises `PipelineError` as `pipeline` does."""
        return (report,)

    def source_annotations(self) -> SourceAnnotations:
        """What the traced function says of shardings by itself."""
        return SourceAnnotations()

    def padding(self) -> tuple[Padding, ...]:
        """Values whose dimensions do not divide evenly, the most wasteful first."""
        return ()

    def propagation(self) -> Propagation:
        """How the shardings propagate, step by step."""
        return EMPTY

    def reshards(self, report: AnyReport) -> tuple[Reshard, ...]:
        """Where values are resharded, each with a way to look for edits that avoid it."""
        del report
        return ()

    def notes(self, report: AnyReport) -> tuple[Diagnostic, ...]:
        """The diagnostics, those of the pipeline first."""
        return report.diagnostics

    def ranges(self, report: AnyReport) -> Mapping[str, Range]:
        """The intervals that hold nine of ten true figures, by `SENT`, `MEMORY`, `KERNELS` and `STEP`, where they are known."""
        del report
        return {}

    def resolving_edits(self, report: AnyReport, conflict: Conflict) -> tuple[Edit, ...]:
        """The edits after which the loser of a conflict wins; empty if only the function itself can be changed."""
        del report, conflict
        return ()
