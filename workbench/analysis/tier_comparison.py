"""Compare one plan's predicted, compiled and measured figures, and explain differences.

Views, the command line and the tests share `Comparison`. Collectives are compared by class: all-reduce and
reduce-scatter are both `reduce`, because XLA:CPU turns a reduce-scatter into an all-reduce and a slice; permutes that a
compiler made from a gather count as that gather.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from workbench.analysis import difference_causes as causes
from workbench.analysis.collective_differences import Difference, explain_collectives
from workbench.analysis.compared_figures import CollectiveRow, ComparedFigure, StageRow, Volumes, is_same
from workbench.core.fact_page import Page, PageCell, Row, Table, figure, glossary_of, page_text
from workbench.core.sharding import base_axis
from workbench.core.text_tables import Printed, group_items, tail_text, wrap_text
from workbench.reports.collective import collective_class
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.units import format_seconds


@dataclass(frozen=True)
class Comparison(Printed):
    """A report with the compiled plan and a measured run, either of which may be missing."""

    report: Report
    compiled: Compiled | None = None
    measurement: Measurement | None = None

    @cached_property
    def stages(self) -> tuple[StageRow, ...]:
        """Stages that are separate programs, planned and compiled; empty otherwise."""
        planned = self._pipeline_report
        if planned is None or self.compiled is None:
            return ()
        return tuple(_make_stage_row(planned, device, compiled) for device, compiled in enumerate(self.compiled.stages))

    @cached_property
    def _pipeline_report(self) -> PipelineReport | None:
        """The pipeline if its stages are separate programs; one stage's report is compared like any program."""
        spec = self.report.plan.pipeline
        is_staged = spec is not None and spec.engine == "mpmd" and self.report.stage is None
        return self.report.pipeline if is_staged else None

    @cached_property
    def _fullest(self) -> int:
        """The stage described by all figures except `stages`: with the highest compiled, else planned, peak."""
        assert self._pipeline_report is not None, "asked of pipelines"
        return self.compiled.fullest if self.compiled else self._pipeline_report.fullest

    @cached_property
    def collectives(self) -> tuple[CollectiveRow, ...]:
        """Collectives by mesh axes and class, largest first; for a pipeline within its fullest stage."""
        if self._pipeline_report is not None:
            predicted = dict(self._pipeline_report.payload(self._fullest))
            compiled = self.compiled.by_axis_and_kind if self.compiled else self.measurement.compiled if self.measurement else {}
            return _make_rows(predicted, compiled, self.report)
        if self.compiled is not None:
            return compare_collectives(self.report, self.compiled.by_axis_and_kind)
        return compare_collectives(self.report, self.measurement.compiled) if self.measurement else ()

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Collectives that only one side has, or has more often, with causes; largest first."""
        return explain_collectives(self.report, self.compiled) if self.compiled is not None and self._pipeline_report is None else ()

    @cached_property
    def memory_differences(self) -> tuple[causes.MemoryDifference, ...]:
        """Differences at the peaks by named scope; empty if the peaks are equal."""
        if self.compiled is None or self._pipeline_report is not None or is_same(self.report.memory.peak, self.compiled.memory.peak):
            return ()
        return causes.explain_memory(self.report, self.compiled)

    @cached_property
    def kernel_differences(self) -> tuple[causes.KernelDifference, ...]:
        """Differences of kernel times by named scope; empty if the sums are equal or the compiler gives no times."""
        time, compiled = self.report.step_time if self._pipeline_report is None else None, self.compiled
        if time is None or compiled is None or compiled.compute_seconds is None or is_same(time.estimate, compiled.compute_seconds):
            return ()
        return causes.explain_kernels(self.report, compiled)

    @cached_property
    def time_causes(self) -> tuple[causes.TimeCause, ...]:
        """Causes that the predicted step time depends on, if a step was measured."""
        return causes.explain_time(self.report) if self.measurement is not None and self._pipeline_report is None else ()

    @cached_property
    def figures(self) -> tuple[ComparedFigure, ...]:
        return tuple(
            figure for figure in (*self.memory_figures(), *self._work_figures(), *self._time_figures()) if _count_tiers(figure) > 1
        )

    def memory_figures(self) -> Iterator[ComparedFigure]:
        """Yield memory figures, peak first; of a pipeline for its fullest stage."""
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
        """Yield times; a measured step is compared with the prediction for the devices it ran on."""
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

    def page(self) -> Page:
        """Return the figures of each tier, collectives by mesh axis, and differences with causes."""
        tables = figures_table(self), _stages_table(self.stages), *_cause_tables(self), collectives_table(self)
        return Page(_head(self), [*tables, *_differences(self)])

    def __str__(self) -> str:
        return page_text(self.page(), _MOST_ROWS)


def _count_tiers(figure: ComparedFigure) -> int:
    return sum(value is not None for value in (figure.predicted, figure.compiled, figure.measured))


def _make_stage_row(planned: PipelineReport, device: int, compiled: Compiled) -> StageRow:
    payload = sum(count for _, count in planned.payload(device))
    return StageRow(
        device, planned.resident(device), planned.simulated.peaks[device], planned.exact_memory.peaks[device], payload, compiled
    )


def compare_collectives(report: Report, compiled: Volumes) -> tuple[CollectiveRow, ...]:
    """Return a row per mesh axes and class, largest first; a sub-axis counts as its axis."""
    return _make_rows(report.by_axis_and_kind, compiled, report)


def _make_rows(planned: Volumes, compiled: Volumes, report: Report) -> tuple[CollectiveRow, ...]:
    predicted, actual = _sum_by_class(planned, report), _sum_by_class(compiled, report)
    rows = (CollectiveRow(*key, predicted.get(key, 0), actual.get(key, 0)) for key in {**predicted, **actual})
    return tuple(sorted(rows, key=lambda row: (-max(row.predicted, row.compiled), row.axes, row.kind)))


def _sum_by_class(volumes: Volumes, report: Report) -> dict[tuple[tuple[str, ...], str], int]:
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for (axes, kind), volume in volumes.items():
        used = {base_axis(axis) for axis in axes}
        key = tuple(name for name in report.mesh.names if name in used), collective_class(kind)
        sums[key] = sums.get(key, 0) + volume
    return sums


_MOST_ROWS = 16  # per table
_CLOSE = 0.05  # relative error of a good prediction
_SAME_BYTES = "The compiled program sends the planned bytes in a different form"


def _head(comparison: Comparison) -> str:
    compiled = comparison.compiled
    how = "" if compiled is None else ", from the cache" if compiled.from_cache else f" in {format_seconds(compiled.compile_seconds)}"
    return wrap_text(f"{comparison.report.plan} — {_tiers_text(comparison, how)}")


def _tiers_text(comparison: Comparison, how: str) -> str:
    compiled, measured = comparison.compiled, comparison.measurement
    tiers = ["predicted"]
    tiers += [f"compiled for {compiled.target}{how}"] if compiled else []
    return ", ".join(tiers + ([f"measured on {measured.devices} × {measured.device_kind}"] if measured else []))


def figures_table(comparison: Comparison, units: Collection[str] = ("bytes", "seconds", "FLOP")) -> Table:
    compiler = comparison.compiled.compiler if comparison.compiled else ""
    heading = _tiers_text(comparison, f" by {compiler}" if compiler else "")
    rows = [
        Row([PageCell(row.name), *(figure(tier, row.unit) for tier in (row.predicted, row.compiled, row.measured)), _verdict_cell(row)])
        for row in comparison.figures
        if row.unit in units
    ]
    columns = ["per device", "predicted>", "compiled>", "measured>", "prediction is>"]
    return Table(columns, rows, heading=f"P{heading[1:]}")


def _verdict_cell(row: ComparedFigure) -> PageCell:
    return PageCell(row.verdict, tone="" if row.error is None else "good" if abs(row.error) < _CLOSE else "warn")


def _stages_table(stages: tuple[StageRow, ...]) -> Table:
    tiers = "peak, predicted>", "as one program>", "compiled>", "held, predicted>", "compiled>", "sent inside, predicted>", "compiled>"
    rows = []
    for row in stages:
        memory = row.compiled.memory
        counts = row.peak, row.as_one, memory.peak, row.held, memory.arguments, row.payload, row.compiled_payload
        name = f"stage {row.stage}"
        rows.append(Row([PageCell(name, brief=str(row.stage)), *(PageCell(count, "bytes") for count in counts)], name))
    return Table(["stage", *tiers], rows, heading="Per stage, one device each")


def _cause_tables(comparison: Comparison) -> Iterator[Table]:
    memory, kernels, times = comparison.memory_differences, comparison.kernel_differences, comparison.time_causes
    rows = [_cause_row(row.cause, PageCell(row.scope, "path"), *_both_tiers(row, "bytes")) for row in memory]
    columns = ["cause", "scope", "predicted>", "compiled>"]
    yield Table(columns, rows, "Peak memory differences and causes", terms=glossary_of(causes.MEMORY_CAUSES, memory))
    rows = [
        _cause_row(row.cause, PageCell(row.scope, "path"), PageCell(row.work, tone="muted"), *_both_tiers(row, "seconds"))
        for row in kernels
    ]
    columns = ["cause", "scope", "work", "predicted>", "compiled>"]
    yield Table(columns, rows, "Kernel differences and causes", terms=glossary_of(causes.KERNEL_CAUSES, kernels))
    rows = [_cause_row(row.cause, PageCell(row.seconds, "seconds")) for row in times]
    yield Table(["cause", "of the predicted step>"], rows, "Basis of the predicted step", terms=glossary_of(causes.TIME_CAUSES, times))


def _both_tiers(row: causes.MemoryDifference | causes.KernelDifference | CollectiveRow, unit: str) -> tuple[PageCell, PageCell]:
    return PageCell(row.predicted, unit), PageCell(row.compiled, unit)


def _cause_row(cause: causes.Cause, *cells: PageCell, tone: str = "warn") -> Row:
    key = " ".join(str(cell.value) for cell in cells if cell.kind in ("path", "text", "axes"))
    return Row([PageCell(cause.name, title=cause.text, tone=tone), *cells], f"{cause.name} {key}")


def collectives_table(comparison: Comparison) -> Table:
    rows = [
        Row([PageCell(row.axes, "axes"), PageCell(row.kind), *_both_tiers(row, "bytes"), _agreement_cell(row)], f"{row.axes} {row.kind}")
        for row in comparison.collectives
    ]
    columns = ["mesh axis", "class", "predicted payload>", "compiled payload>", ">"]
    titles = [("class", "all-reduce and reduce-scatter count as one kind")]
    note = "" if rows else "Neither sends data."
    return Table(columns, rows, heading="Collectives, payload per device and step", titles=titles, note=note)


def _agreement_cell(row: CollectiveRow) -> PageCell:
    if row.agrees:
        return PageCell("equal", tone="good", brief="same")
    if row.is_close:
        return PageCell("close", tone="good", title="within 2 %")
    return PageCell(f"{row.compiled / row.predicted:.2f}×" if row.predicted else "not predicted", tone="warn", brief="differs")


def _differences(comparison: Comparison) -> Iterator[Table | str]:
    if comparison.compiled is None or comparison.stages:
        return
    found = comparison.differences
    if not found:
        yield "The compiled program has exactly the planned collectives."
        return
    groups = group_items(found, lambda one: (one.cause, one.axes, one.kind, one.path, one.source))
    title = _SAME_BYTES if all(one.predicted == one.compiled for one in found) else "Differences and causes"
    columns = ["cause", "mesh axis", "class", "predicted>", "compiled>", "where", "line"]
    yield Table(columns, [*map(_difference_row, groups)], title, terms=glossary_of(causes.ALL_CAUSES, found))


def _difference_row(group: list[Difference]) -> Row:
    first = group[0]
    predicted, compiled = sum(one.predicted for one in group), sum(one.compiled for one in group)
    return _cause_row(
        first.cause,
        PageCell(first.axes, "axes"),
        PageCell(first.kind),
        PageCell(predicted, "bytes"),
        PageCell(compiled, "bytes"),
        PageCell(first.path, "path", times=len(group), brief=tail_text(first.path, 40)),
        PageCell(first.source, tone="muted", brief=tail_text(first.source, 20)),
        tone="" if predicted == compiled else "warn",
    )
