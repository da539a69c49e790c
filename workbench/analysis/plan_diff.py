"""The difference of two plans: changed decisions, and their effect on the figures.

The history, the command line (`workbench diff`) and the tests share `PlanDiff`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from workbench.core.fact_page import BOARD_ONLY, Page, PageCell, Row, Table, figure, page_text
from workbench.core.offload import Offload
from workbench.core.path_patterns import template
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.core.sharding import Sharding, base_axis
from workbench.core.text_tables import tail_text, wrap_text
from workbench.hardware.axis_assignment_text import AxisAssignment
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.units import format_figure

PlanSetting = tuple[str, ...] | Sharding | Hardware | AxisAssignment | Remat | Precision | Offload | PipelineSpec | int | str | None
"""A setting of a plan, such as a dimension's mesh axes, a sharding or an axis size; `None` if unset."""


class Change(NamedTuple):
    """One changed decision; `kind` is in `KINDS`, `subject` a dimension, pattern or mesh axis, if needed."""

    kind: str
    subject: str
    before: PlanSetting
    after: PlanSetting


KINDS = (
    *("program", "dimension", "rule", "priority", "override", "constraint", "group", "barrier"),
    *("mesh axis", "axis order", "hardware", "axis assignment", "remat", "precision", "offload", "pipeline"),
)


class FigureChange(NamedTuple):
    """One figure per device and step, in bytes, seconds or FLOP (`unit`); `None` if a report lacks it."""

    name: str
    unit: str
    before: float | None
    after: float | None

    @property
    def delta(self) -> float:
        """The second figure minus the first; 0 if either is missing."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before

    @property
    def ratio(self) -> float | None:
        """The second figure over the first; 0.5 is half."""
        return self.after / self.before if self.before and self.after is not None else None


class TrafficChange(NamedTuple):
    """Payload bytes per device and step by mesh axes and kind of collective."""

    axes: tuple[str, ...]
    kind: str
    before: int
    after: int

    @property
    def delta(self) -> int:
        return self.after - self.before


class PlacementChange(NamedTuple):
    """A change of sharding of `tensors` arguments with one template path; `None` if the argument does not exist."""

    path: str
    dims: tuple[str, ...]
    before: Sharding | None
    after: Sharding | None
    bytes_before: int
    bytes_after: int
    tensors: int

    @property
    def delta(self) -> int:
        """Additional bytes on one device, over all arguments."""
        return self.bytes_after - self.bytes_before


@dataclass(frozen=True)
class PlanDiff:
    """The changes from one report to another."""

    before: Report
    after: Report

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """The changed decisions; empty exactly if the plans differ at most in name."""
        return tuple(list_changes(self.before.plan, self.after.plan))

    @cached_property
    def figures(self) -> tuple[FigureChange, ...]:
        return tuple(row for row in _compare_figures(self.before, self.after) if not row.before == row.after is None)

    @cached_property
    def traffic(self) -> tuple[TrafficChange, ...]:
        """Bytes sent by mesh axes and kind in either plan; largest change first."""
        before, after = _sum_traffic(self.before), _sum_traffic(self.after)
        rows = (TrafficChange(*key, before.get(key, 0), after.get(key, 0)) for key in {**before, **after})
        return tuple(sorted(rows, key=lambda row: (-abs(row.delta), -row.after, row.axes, row.kind)))

    @cached_property
    def placements(self) -> tuple[PlacementChange, ...]:
        """Arguments with changed sharding, grouped; largest change of memory first."""
        return tuple(sorted(_compare_placements(self.before, self.after), key=lambda row: -abs(row.delta)))

    def page(self, *, with_zeros: bool = True) -> Page:
        """Return changes, figures, traffic and placements; `with_zeros` includes figures that are 0 in both plans."""
        head = "\n".join(wrap_text(f"{mark} {side.plan}") for mark, side in (("A", self.before), ("B", self.after)))
        if not self.changes:
            return Page(head, ["The two plans are identical."])
        tables = _changes_table(self.changes), figures_table(self, with_zeros=with_zeros), _traffic_table(self), _placements_table(self)
        return Page(head, tables)

    def __str__(self) -> str:
        return page_text(self.page(), MOST_ROWS)


def list_changes(before: Plan, after: Plan) -> Iterator[Change]:
    yield from _compare_programs(before, after)
    mine, theirs = before.layout, after.layout
    for kind, one, other in (
        ("rule", mine.rules, theirs.rules),
        ("priority", mine.priorities, theirs.priorities),
        ("override", mine.overrides, theirs.overrides),
        ("constraint", mine.constraints, theirs.constraints),
        ("group", _as_entries(mine.groups), _as_entries(theirs.groups)),
        ("barrier", mine.barriers, theirs.barriers),
        ("turns", mine.turns, theirs.turns),
        ("mesh axis", before.mesh.axes, after.mesh.axes),
    ):
        yield from _compare_entries(kind, dict(one), dict(other))
    common_axes = [tuple(name for name in mesh.names if name in before.mesh and name in after.mesh) for mesh in (before.mesh, after.mesh)]
    if common_axes[0] != common_axes[1]:
        yield Change("axis order", "", before.mesh.names, after.mesh.names)
    for kind, was, now in (
        ("hardware", before.hardware, after.hardware),
        ("axis assignment", before.axis_assignment, after.axis_assignment),
        ("remat", before.program.remat, after.program.remat),
        ("precision", before.program.precision, after.program.precision),
        ("offload", before.program.offload, after.program.offload),
        ("pipeline", before.pipeline, after.pipeline),
    ):
        if was != now:
            yield Change(kind, "", was, now)


def _as_entries(groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((", ".join(places), "alike") for places in groups)


def _compare_programs(before: Plan, after: Plan) -> Iterator[Change]:
    one, other = before.program, after.program
    names = [{dim: program.renamed.get(dim, dim) for dim in {**one.renamed, **other.renamed}} for program in (one, other)]
    renamed = list(_compare_entries("dimension", names[0], names[1]))
    yield from renamed
    same_variant = (one.remat, one.precision, one.offload) == (other.remat, other.precision, other.offload)
    unexplained = same_variant and (one.fingerprint != other.fingerprint or not renamed)
    if one != other and (one.reference != other.reference or unexplained):
        yield Change("program", "", str(one.reference or one.name), str(other.reference or other.name))


def _compare_entries(kind: str, before: Mapping[str, PlanSetting], after: Mapping[str, PlanSetting]) -> Iterator[Change]:
    for subject in {**before, **after}:
        if before.get(subject) != after.get(subject):
            yield Change(kind, subject, before.get(subject), after.get(subject))


def _compare_figures(before: Report, after: Report) -> Iterator[FigureChange]:
    """Yield figures; for pipelines, each of the stage with the largest value, as in the board's header."""
    yield FigureChange("peak memory", "bytes", before.peak, after.peak)
    fullest = before.most(_peak), after.most(_peak)
    yield from _compare_memory(*fullest)
    yield FigureChange("sent", "bytes", *(report.most(_sent).sent for report in (before, after)))
    yield FigureChange("products", "FLOP", *(report.most(_local_flops).flops.per_device for report in (before, after)))
    yield FigureChange("memory traffic", "bytes", *(report.traffic for report in fullest))
    yield FigureChange("step", "seconds", before.seconds, after.seconds)
    for name, label in _TIMES.items():
        yield FigureChange(label, "seconds", *(getattr(report.step_time, name) if report.step_time else None for report in fullest))


_peak, _sent, _local_flops = attrgetter("memory.peak"), attrgetter("sent"), attrgetter("flops.per_device")


def _compare_memory(before: Report, after: Report) -> Iterator[FigureChange]:
    for role in dict.fromkeys((*before.memory.by_role, *after.memory.by_role)):
        yield FigureChange(f"{role} at the peak", "bytes", before.memory.by_role.get(role, 0), after.memory.by_role.get(role, 0))
    if before.memory.host or after.memory.host:
        yield FigureChange("host memory", "bytes", before.memory.host, after.memory.host)


_TIMES = {"estimate": "kernels", "exposed": "waiting for communication"}


def _sum_traffic(report: Report) -> dict[tuple[tuple[str, ...], str], int]:
    """Sum payload by whole mesh axes; a sub-axis counts as its axis."""
    sums: dict[tuple[tuple[str, ...], str], int] = {}
    for (axes, kind), payload in report.most(_sent).by_axis_and_kind.items():
        key = tuple(dict.fromkeys(base_axis(axis) for axis in axes)), kind
        sums[key] = sums.get(key, 0) + payload
    return sums


def _compare_placements(before: Report, after: Report) -> Iterator[PlacementChange]:
    one, other = ({placed.tensor.path: placed for placed in report.arguments} for report in (before, after))
    groups: dict[tuple[str, tuple[str, ...], Sharding | None, Sharding | None], list[tuple[int, int]]] = {}
    for path in {**one, **other}:
        was, now = one.get(path), other.get(path)
        before_after = was.sharding if was else None, now.sharding if now else None
        if before_after[0] != before_after[1]:
            local_bytes_pair = was.local_bytes if was else 0, now.local_bytes if now else 0
            dims = (now or one[path]).tensor.dims
            groups.setdefault((template(path), dims, *before_after), []).append(local_bytes_pair)
    for kind, local_bytes_pairs in groups.items():
        bytes_before, bytes_after = (sum(sizes) for sizes in zip(*local_bytes_pairs, strict=True))
        yield PlacementChange(*kind, bytes_before, bytes_after, len(local_bytes_pairs))


MOST_ROWS = 24  # per table
UNSET_TEXTS = {
    "rule": "whole",
    "override": "by the rules",
    "constraint": "free",
    "group": "each by itself",
    "barrier": "all passes",
    "priority": "0",
    "axis assignment": "by itself",
    "hardware": "none",
    "pipeline": "none",
    "mesh axis": "-",
}
"""Texts of unset decisions."""


def setting_text(kind: str, decided: PlanSetting) -> str:
    """Format as `data+model`, `[data, -]`, `8` or `TPU v5e 4x4`; `whole`, `none` etc. if unset."""
    if decided is None:
        return UNSET_TEXTS.get(kind, "-")
    if isinstance(decided, tuple):
        return (" " if kind == "axis order" else "+").join(decided)
    return str(decided)


def change_text(change: Change) -> str:
    """Format as `rule d_ff: whole → model`."""
    subject = f" {change.subject}" if change.subject else ""
    return f"{change.kind}{subject}: {setting_text(change.kind, change.before)} → {setting_text(change.kind, change.after)}"


def delta_text(change: FigureChange) -> str:
    """Format as `−3.0 MiB (−50%)`, `+2.0 ms` or `same`; empty if a figure is missing."""
    if change.before is None or change.after is None:
        return ""
    if not change.delta:
        return "same"
    share = "" if change.ratio is None else f" ({share_text(change.ratio)})"
    return f"{'+' if change.delta > 0 else '−'}{format_figure(abs(change.delta), change.unit)}{share}"


def share_text(ratio: float) -> str:
    """Format as `+25%` or `−50%`; from twice as much on as `3.2×`."""
    if ratio >= 1.995:
        return f"{ratio:.3g}×"
    percent = (ratio - 1) * 100
    return f"{'+' if percent > 0 else '−'}{abs(percent):.{0 if abs(percent) >= 1 else 2}f}%"


def _changes_table(changes: Sequence[Change]) -> Table:
    rows = []
    for change in changes:
        is_axis = change.kind == "mesh axis"
        subject = PageCell((change.subject,), "axes") if is_axis else PageCell(change.subject, tone="strong")
        before, after = _decision_cell(change.kind, change.before), _decision_cell(change.kind, change.after)
        cells = PageCell(change.kind, tone="muted"), subject, before, PageCell("→", tone="muted"), after
        rows.append(Row(cells, f"{change.kind} {change.subject}"))
    return Table(["setting", "", "A~", BOARD_ONLY, "B~"], rows)


def _decision_cell(kind: str, decided: PlanSetting) -> PageCell:
    text = setting_text(kind, decided)
    kind = "axes" if isinstance(decided, tuple) else "sharding" if isinstance(decided, Sharding) else "text"
    return PageCell(text if kind == "text" else decided, kind, tone="muted" if decided is None else "", brief=text)


def figures_table(diff: PlanDiff, *, with_zeros: bool) -> Table:
    rows = [
        Row(
            [
                PageCell(row.name, tone="strong" if row.name in ("peak memory", "sent", "step") else ""),
                *(figure(value, row.unit) for value in (row.before, row.after)),
                *_delta_cells(row),
            ]
        )
        for row in diff.figures
        if with_zeros or row.before or row.after
    ]
    return Table(["per device and step", "A>", "B>", "B is>", BOARD_ONLY], rows)


def _delta_cells(row: FigureChange) -> tuple[PageCell, PageCell]:
    before, after = row.before or 0, row.after or 0
    tone = "good" if after < before else "bad" if after > before else "muted"
    return PageCell(delta_text(row), tone=tone), PageCell((before, after), "pair", tone=tone)


def _traffic_table(diff: PlanDiff) -> Table:
    rows = []
    for row in (row for row in diff.traffic if row.delta):
        delta = _delta_cells(FigureChange("", "bytes", row.before, row.after))
        cells = PageCell(row.axes, "axes"), PageCell(row.kind), PageCell(row.before, "bytes"), PageCell(row.after, "bytes"), *delta
        rows.append(Row(cells, f"{row.axes} {row.kind}"))
    columns = ["mesh axis", "collective", "payload of A>", "of B>", "B is>", BOARD_ONLY]
    return Table(columns, rows, heading="Payload per device and step that changed")


def _placements_table(diff: PlanDiff) -> Table:
    rows = []
    for row in diff.placements:
        path = tail_text(row.path) + (f" ×{row.tensors}" if row.tensors > 1 else "")
        sides = (
            PageCell(side, "sharding", names=row.dims) if side else PageCell("not there", tone="muted") for side in (row.before, row.after)
        )
        sizes = PageCell(row.bytes_before, "bytes"), PageCell(row.bytes_after, "bytes")
        rows.append(
            Row([PageCell(row.path, "path", times=row.tensors, brief=path), *sides, *sizes], f"{row.path} {row.before} {row.after}")
        )
    return Table(["sharded otherwise", "A", "B", "bytes of A>", "of B>"], rows)
