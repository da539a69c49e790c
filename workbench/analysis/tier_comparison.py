"""One plan's figures side by side: as predicted, as compiled, as measured; and why two of them differ.

Views, the command line and the tests read the same `Comparison`. Collectives are compared by class: all-reduce and reduce-scatter are one,
`reduce`, because XLA:CPU makes an all-reduce and a slice of the latter; permutes that a compiler made from a gather count as that gather.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from workbench.analysis.collective_differences import Difference, explain_collectives
from workbench.analysis.compared_figures import CollectiveRow, ComparedFigure, StageRow, Volumes, is_same
from workbench.analysis.comparison_text import (
    collectives_text,
    differences_text,
    figures_text,
    head_text,
    kernels_text,
    memory_text,
    stages_text,
    time_causes_text,
)
from workbench.analysis.kernel_differences import KernelDifference, explain_kernels
from workbench.analysis.memory_differences import MemoryDifference, explain_memory
from workbench.analysis.time_causes import TimeCause, explain_time
from workbench.core.sharding import base_axis
from workbench.core.text_tables import html_text
from workbench.reports.collective import collective_class
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report


@dataclass(frozen=True)
class Comparison:
    """A report beside what the compiler made of the plan, and what a run measured; either of these may be missing."""

    report: Report
    compiled: Compiled | None = None
    measurement: Measurement | None = None

    @cached_property
    def stages(self) -> tuple[StageRow, ...]:
        """The stages of a pipeline that are programs of their own, each as planned beside its compiled record; else none."""
        planned = self._pipeline_report
        if planned is None or self.compiled is None:
            return ()
        return tuple(_make_stage_row(planned, device, found) for device, found in enumerate(self.compiled.stages))

    @cached_property
    def _pipeline_report(self) -> PipelineReport | None:
        """The pipeline, where its stages are programs of their own: then no figure is of the whole program. The report of one stage is
        compared with the compiled record of that stage as any program is."""
        spec = self.report.plan.pipeline
        is_staged = spec is not None and spec.engine == "mpmd" and self.report.stage is None
        return self.report.pipeline if is_staged else None

    @cached_property
    def _fullest(self) -> int:
        """The stage that all but `stages` is about: the compiled one with the highest peak, else the planned one."""
        assert self._pipeline_report is not None, "asked of pipelines"
        return self.compiled.fullest if self.compiled else self._pipeline_report.fullest

    @cached_property
    def collectives(self) -> tuple[CollectiveRow, ...]:
        """By set of mesh axes and class, largest first; for a pipeline those within its fullest stage."""
        if self._pipeline_report is not None:
            predicted = dict(self._pipeline_report.payload(self._fullest))
            found = self.compiled.by_axis_and_kind if self.compiled else self.measurement.compiled if self.measurement else {}
            return _make_rows(predicted, found, self.report)
        if self.compiled is not None:
            return compare_collectives(self.report, self.compiled.by_axis_and_kind)
        return compare_collectives(self.report, self.measurement.compiled) if self.measurement else ()

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Each collective that one side has and the other has not, or has more often, with its cause; largest first."""
        return explain_collectives(self.report, self.compiled) if self.compiled is not None and self._pipeline_report is None else ()

    @cached_property
    def memory_differences(self) -> tuple[MemoryDifference, ...]:
        """What each side holds at its peak and the other does not, by named scope; empty where the peaks are the same."""
        if self.compiled is None or self._pipeline_report is not None or is_same(self.report.memory.peak, self.compiled.memory.peak):
            return ()
        return explain_memory(self.report, self.compiled)

    @cached_property
    def kernel_differences(self) -> tuple[KernelDifference, ...]:
        """Kernels that take longer on one side, by named scope; empty where the sums are the same or the compiler estimates no times."""
        time, compiled = self.report.step_time if self._pipeline_report is None else None, self.compiled
        if time is None or compiled is None or compiled.compute_seconds is None or is_same(time.estimate, compiled.compute_seconds):
            return ()
        return explain_kernels(self.report, compiled)

    @cached_property
    def time_causes(self) -> tuple[TimeCause, ...]:
        """What the predicted step rests on, where a step was measured."""
        return explain_time(self.report) if self.measurement is not None and self._pipeline_report is None else ()

    @cached_property
    def figures(self) -> tuple[ComparedFigure, ...]:
        """Memory, arithmetic and time."""
        return tuple(
            figure for figure in (*self.memory_figures(), *self._work_figures(), *self._time_figures()) if _count_tiers(figure) > 1
        )

    def memory_figures(self) -> Iterator[ComparedFigure]:
        """The peak first; of a pipeline its fullest stage's."""
        compiled, measured = self.compiled, self.measurement
        peak = compiled.memory.peak if compiled else measured.compiled_peak if measured else None
        if self._pipeline_report is not None:
            device = self._fullest
            seen = measured.device_peak if measured else None
            yield ComparedFigure(f"peak memory, stage {device}", "bytes", self._pipeline_report.simulated.peaks[device], peak, seen)
            whole = self._pipeline_report.exact_memory.peaks[device]
            yield ComparedFigure("the same, planned as one program", "bytes", whole, peak, None)
            yield ComparedFigure(
                "held throughout", "bytes", self._pipeline_report.resident(device), compiled.memory.arguments if compiled else None, None
            )
            return
        yield ComparedFigure("peak memory", "bytes", self.report.memory.peak, peak, measured.device_peak if measured else None)
        arguments = compiled.memory.arguments if compiled else None
        if self.report.stage is not None and self.report.pipeline is not None:
            yield ComparedFigure("held throughout", "bytes", self.report.pipeline.resident(self.report.stage), arguments, None)
        else:
            yield ComparedFigure("arguments", "bytes", self.report.memory.argument_bytes, arguments, None)

    def _work_figures(self) -> Iterator[ComparedFigure]:
        if self._pipeline_report is not None:
            return
        compiled = self.compiled.flops if self.compiled and self.compiled.kernels else None
        yield ComparedFigure("products", "FLOP", self.report.flops.per_device, compiled, None)

    def _time_figures(self) -> Iterator[ComparedFigure]:
        """The times. A measured step is compared with the prediction for the devices it ran on, which need not be those of the plan."""
        time, measured = self.report.step_time, self.measurement
        compiled = self.compiled.compute_seconds if self.compiled else None
        if self._pipeline_report is None:
            yield ComparedFigure("kernels", "seconds", time.estimate if time else None, compiled, None)
        if measured is not None:
            yield ComparedFigure("step", "seconds", measured.predicted_seconds, None, measured.median_seconds)
        elif time is not None:
            yield ComparedFigure(
                "step", "seconds", time.total if self._pipeline_report is None else self._pipeline_report.seconds, None, None
            )

    def __str__(self) -> str:
        is_one_program = self.compiled is not None and not self.stages
        sections = [
            head_text(self.report.plan, self.compiled, self.measurement),
            figures_text(self.figures),
            stages_text(self.stages),
            memory_text(self.memory_differences),
            kernels_text(self.kernel_differences),
            time_causes_text(self.time_causes),
            collectives_text(self.collectives),
            differences_text(self.differences) if is_one_program else "",
        ]
        return "\n\n".join(section for section in sections if section)

    def _repr_html_(self) -> str:
        return html_text(lambda: str(self))


def _count_tiers(figure: ComparedFigure) -> int:
    return sum(each is not None for each in (figure.predicted, figure.compiled, figure.measured))


def _make_stage_row(planned: PipelineReport, device: int, compiled: Compiled) -> StageRow:
    payload = sum(count for _, count in planned.payload(device))
    return StageRow(
        device, planned.resident(device), planned.simulated.peaks[device], planned.exact_memory.peaks[device], payload, compiled
    )


def compare_collectives(report: Report, compiled: Volumes) -> tuple[CollectiveRow, ...]:
    """A row for each set of mesh axes and class of collective that either has, the heaviest first. A sub-axis counts as its axis."""
    return _make_rows(report.by_axis_and_kind, compiled, report)


def _make_rows(planned: Volumes, compiled: Volumes, report: Report) -> tuple[CollectiveRow, ...]:
    predicted, found = _sum_by_class(planned, report), _sum_by_class(compiled, report)
    rows = (CollectiveRow(*key, predicted.get(key, 0), found.get(key, 0)) for key in {**predicted, **found})
    return tuple(sorted(rows, key=lambda row: (-max(row.predicted, row.compiled), row.axes, row.kind)))


def _sum_by_class(volumes: Volumes, report: Report) -> dict[tuple[tuple[str, ...], str], int]:
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for (axes, kind), volume in volumes.items():
        used = {base_axis(axis) for axis in axes}
        key = tuple(name for name in report.mesh.names if name in used), collective_class(kind)
        sums[key] = sums.get(key, 0) + volume
    return sums
