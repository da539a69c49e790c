"""Two plans side by side as text: what was decided otherwise, the figures with their change, traffic by mesh axis, other shardings."""

from workbench.analysis.plan_diff import Change, FigureChange, PlanDiff, PlanSetting
from workbench.core.text_tables import axes_text, table_text, tail_text, wrap_text
from workbench.units import format_bytes, format_figure

MOST_ROWS = 24  # rows of one table
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
"""What a plan that says nothing of something means."""


def plan_diff_text(diff: PlanDiff) -> str:
    """Empty tables are left out; equal plans are one sentence."""
    head = [wrap_text(f"{mark} {report.plan}") for mark, report in (("A", diff.before), ("B", diff.after))]
    if not diff.changes:
        return "\n".join([*head, "", "The two plans decide everything alike."])
    sections = ["\n".join(head), _changes(diff), _figures(diff), _traffic(diff), _placements(diff)]
    return "\n\n".join(section for section in sections if section)


def decided_text(kind: str, decided: PlanSetting) -> str:
    """`data+model`, `[data, -]`, `8`, `TPU v5e 4x4`; `whole`, `none` and their like where a plan says nothing."""
    if decided is None:
        return UNSET_TEXTS.get(kind, "-")
    if isinstance(decided, tuple):
        return (" " if kind == "axis order" else "+").join(decided)
    return str(decided)


def change_text(change: Change) -> str:
    """`rule d_ff: whole → model`."""
    subject = f" {change.subject}" if change.subject else ""
    return f"{change.kind}{subject}: {decided_text(change.kind, change.before)} → {decided_text(change.kind, change.after)}"


def figure_text(unit: str, value: float | None) -> str:
    """A figure in its unit; `-` where there is none."""
    return "-" if value is None else format_figure(value, unit)


def delta_text(change: FigureChange) -> str:
    """`−3.0 MiB (−50%)`, `+2.0 ms`, `same`; empty where a plan has no such figure."""
    if change.before is None or change.after is None:
        return ""
    if not change.delta:
        return "same"
    share = "" if change.ratio is None else f" ({share_text(change.ratio)})"
    return f"{'+' if change.delta > 0 else '−'}{figure_text(change.unit, abs(change.delta))}{share}"


def share_text(ratio: float) -> str:
    """`+25%`, `−50%`; from twice as much on `3.2×`: a doubling is `2×`, never `+100%`."""
    if ratio >= 1.995:
        return f"{ratio:.3g}×"
    percent = (ratio - 1) * 100
    return f"{'+' if percent > 0 else '−'}{abs(percent):.{0 if abs(percent) >= 1 else 2}f}%"


def _changes(diff: PlanDiff) -> str:
    rows = [(each.kind, each.subject, decided_text(each.kind, each.before), decided_text(each.kind, each.after)) for each in diff.changes]
    return table_text(["decided otherwise", "", "A~", "B~"], rows[:MOST_ROWS]) + _more_text(len(rows))


def _figures(diff: PlanDiff) -> str:
    rows = [(each.name, figure_text(each.unit, each.before), figure_text(each.unit, each.after), delta_text(each)) for each in diff.figures]
    return table_text(["per device and step", "A>", "B>", "B is>"], rows)


def _traffic(diff: PlanDiff) -> str:
    changed = [each for each in diff.traffic if each.delta]
    if not changed:
        return ""
    rows = [
        (
            axes_text(each.axes),
            each.kind,
            format_bytes(each.before),
            format_bytes(each.after),
            delta_text(FigureChange("", "bytes", each.before, each.after)),
        )
        for each in changed[:MOST_ROWS]
    ]
    return table_text(["mesh axis", "collective", "payload of A>", "of B>", "B is>"], rows) + _more_text(len(changed))


def _placements(diff: PlanDiff) -> str:
    rows = [
        (
            tail_text(each.path) + (f" ×{each.tensors}" if each.tensors > 1 else ""),
            str(each.before or "not there"),
            str(each.after or "not there"),
            format_bytes(each.bytes_before),
            format_bytes(each.bytes_after),
        )
        for each in diff.placements[:MOST_ROWS]
    ]
    if not rows:
        return ""
    return table_text(["sharded otherwise", "A", "B", "bytes of A>", "of B>"], rows) + _more_text(len(diff.placements))


def _more_text(count: int) -> str:
    return f"\n  and {count - MOST_ROWS} more" if count > MOST_ROWS else ""
