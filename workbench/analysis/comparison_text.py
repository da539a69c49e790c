"""The sections of a comparison as text: the figures of each tier, collectives by mesh axis, and every difference with its cause."""

from collections.abc import Iterable, Sequence

from workbench.analysis.collective_causes import ALL_CAUSES, Cause
from workbench.analysis.collective_differences import Difference
from workbench.analysis.compared_figures import CollectiveRow, ComparedFigure, StageRow
from workbench.analysis.kernel_differences import KERNEL_CAUSES, KernelDifference
from workbench.analysis.memory_differences import MEMORY_CAUSES, MemoryDifference
from workbench.analysis.time_causes import TIME_CAUSES, TimeCause
from workbench.core.text_tables import axes_text, group_items, table_text, tail_text, wrap_text
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.units import format_bytes, format_figure, format_seconds

_MOST_ROWS = 16  # differences in one table


def head_text(plan: Plan, compiled: Compiled | None, measured: Measurement | None) -> str:
    """The plan, and the tiers that are compared."""
    tiers = ["predicted"]
    if compiled is not None:
        cached = ", from the cache" if compiled.from_cache else f" in {format_seconds(compiled.compile_seconds)}"
        tiers.append(f"compiled for {compiled.target}{cached}")
    if measured is not None:
        tiers.append(f"measured on {measured.devices} × {measured.device_kind}")
    return wrap_text(f"{plan} — {', '.join(tiers)}")


def figures_text(figures: Iterable[ComparedFigure]) -> str:
    """A row per figure, a column per tier."""
    rows = []
    for each in figures:
        tiers = (each.predicted, each.compiled, each.measured)
        rows.append((each.name, *(_cell_text(each, tier) for tier in tiers), each.verdict))
    return table_text(["per device", "predicted>", "compiled>", "measured>", "prediction is>"], rows) if rows else ""


def stages_text(stages: Iterable[StageRow]) -> str:
    """A row per stage of a pipeline, a pair of columns per figure."""
    rows = [
        (
            str(each.stage),
            *map(format_bytes, (each.peak, each.as_one, each.compiled.memory.peak)),
            *map(format_bytes, (each.held, each.compiled.memory.arguments)),
            *map(format_bytes, (each.payload, each.compiled_payload)),
        )
        for each in stages
    ]
    columns = [
        "stage",
        "peak, predicted>",
        "as one program>",
        "compiled>",
        "held, predicted>",
        "compiled>",
        "sent inside, predicted>",
        "compiled>",
    ]
    return table_text(columns, rows) if rows else ""


def _cell_text(figure: ComparedFigure, value: float | None) -> str:
    return "-" if value is None else format_figure(value, figure.unit)


def memory_text(found: Sequence[MemoryDifference]) -> str:
    """Where the peaks differ; empty where there are none."""
    if not found:
        return ""
    rows = [(each.cause.name, each.scope, format_bytes(each.predicted), format_bytes(each.compiled)) for each in found[:_MOST_ROWS]]
    table = table_text(["cause", "scope", "predicted>", "compiled>"], rows)
    return _explain_causes("Where the peaks differ, and why", table, MEMORY_CAUSES, found)


def kernels_text(found: Sequence[KernelDifference]) -> str:
    """Where the kernels differ; empty where there are none."""
    if not found:
        return ""
    rows = [(each.cause.name, each.scope, each.work, *map(_seconds_text, (each.predicted, each.compiled))) for each in found[:_MOST_ROWS]]
    table = table_text(["cause", "scope", "work", "predicted>", "compiled>"], rows)
    return _explain_causes("Where the kernels differ, and why", table, KERNEL_CAUSES, found)


def time_causes_text(found: Sequence[TimeCause]) -> str:
    """What the predicted step rests on; empty where there are none."""
    if not found:
        return ""
    table = table_text(["cause", "of the predicted step>"], [(each.cause.name, format_seconds(each.seconds)) for each in found])
    return _explain_causes("What the predicted step rests on", table, TIME_CAUSES, found)


def _seconds_text(seconds: float) -> str:
    return format_seconds(seconds) if seconds else "-"


def collectives_text(compared: Iterable[CollectiveRow]) -> str:
    """A row per set of mesh axes and class of collective."""
    rows = []
    for row in compared:
        verdict = "same" if row.agrees else "close" if row.is_close else "differs"
        rows.append((axes_text(row.axes), row.kind, format_bytes(row.predicted), format_bytes(row.compiled), verdict))
    return table_text(["mesh axis", "class", "predicted payload>", "compiled payload>", ""], rows) if rows else ""


def differences_text(found: Sequence[Difference]) -> str:
    """Each collective that the compiled program sends otherwise, with the cause."""
    if not found:
        return "The compiled program sends what the plan says, collective by collective."
    rows = [_difference_row(group) for group in group_items(found, lambda each: (each.cause, each.axes, each.kind, each.path, each.source))]
    more = f"\n  and {len(rows) - _MOST_ROWS} more" if len(rows) > _MOST_ROWS else ""
    table = table_text(["cause", "mesh axis", "class", "predicted>", "compiled>", "where", "line"], rows[:_MOST_ROWS])
    same = all(each.predicted == each.compiled for each in found)
    head = "The compiled program sends what the plan says, byte for byte, in another form" if same else "Where they differ, and why"
    return _explain_causes(head, table + more, ALL_CAUSES, found)


def _difference_row(group: list[Difference]) -> tuple[str, ...]:
    first = group[0]
    predicted, compiled = sum(each.predicted for each in group), sum(each.compiled for each in group)
    where, line = tail_text(first.path, 40), tail_text(first.source, 20)
    return (first.cause.name, axes_text(first.axes), first.kind, format_bytes(predicted), format_bytes(compiled), where, line)


def _explain_causes(
    head: str, table: str, causes: tuple[Cause, ...], found: Iterable[Difference | MemoryDifference | KernelDifference | TimeCause]
) -> str:
    """A table of differences under its head, and what the causes in it mean."""
    named = {each.cause for each in found}
    legend = (wrap_text(f"{cause.name}: {cause.text}.", first="  ", indent="    ") for cause in causes if cause in named)
    return f"{head}\n\n{table}\n\n" + "\n".join(legend)
