"""Text twins of what the workbench shows: tables of at most 120 columns, without colour, the same for the same plan."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Literal, TypeVar

from workbench.measurement import Measurement
from workbench.paths import template
from workbench.report import Collective, Diagnostic, Placement, Report
from workbench.tensor import Role
from workbench.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 120
LARGEST = 12  # collectives shown one by one

T = TypeVar("T")


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with one line under its head. A column whose name ends in `>` is set to the right; one in `~` may break its lines.

    >>> print(table_text(["axis", "bytes>"], [["data", "72.0 MiB"], ["model", "512 B"]]))
     axis       bytes
    ──────────────────
     data    72.0 MiB
     model      512 B
    """
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.endswith(">") else "left"
        table.add_column(column.rstrip(">~"), justify=justify, no_wrap=not column.endswith("~"), overflow="fold")
    for row in rows:
        table.add_row(*(_literal(cell) for cell in row))
    return _rendered(table)


def pairs_text(pairs: Iterable[tuple[str, str, str]]) -> str:
    """Key figures: a name, a figure, and what it is made of.

    >>> print(pairs_text([("Memory", "3 MiB", "parameters 2 MiB"), ("Sent", "0 B", "")]))
      Memory   3 MiB   parameters 2 MiB
      Sent       0 B
    """
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 2))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for row in pairs:
        table.add_row(*(_literal(cell) for cell in row))
    return _rendered(table)


def dims_text(dims: Sequence[str], shape: Sequence[int]) -> str:
    """`d_model=768 d_ff=3072`; a scalar is `scalar`."""
    return " ".join(f"{dim}={size}" for dim, size in zip(dims, shape, strict=True)) or "scalar"


def shape_text(shape: Sequence[int]) -> str:
    """`768×1536`; a scalar is `1`."""
    return "×".join(map(str, shape)) or "1"


def axes_text(axes: Sequence[str]) -> str:
    return "+".join(axes) or "-"


def report_text(report: Report) -> str:
    """The whole report: head, key figures, arguments, collectives, what to mind."""
    plan = report.plan
    devices = f"{report.mesh.size:,} device" + "s" * (report.mesh.size != 1)
    title = plan.name if plan.name == plan.program.name else f"{plan.name} ({plan.program.name})"
    head = _wrapped(f"{title} on {report.mesh} ({devices}), {str(plan.layout) or 'everything replicated'}")
    sections = [
        head,
        pairs_text(_figures(report)),
        f"Arguments, and what one device holds of them\n\n{_arguments(report.arguments)}",
        _collectives(report.collectives),
        _diagnostics(report.diagnostics),
    ]
    return "\n\n".join(section for section in sections if section)


def measurement_text(measurement: Measurement, report: Report | None = None) -> str:
    """What a run measured, beside what the planner said where a report is given."""
    head = (
        f"{len(measurement.step_seconds)} steps on {measurement.devices} × {measurement.device_kind}"
        + f", {measurement.processes} processes" * (measurement.processes > 1)
        + f", compiled in {format_seconds(measurement.compile_seconds)}"
    )
    sections = [
        _wrapped(head),
        pairs_text(_measured_figures(measurement, report)),
        _compiled(measurement, report),
        _wrong_shards(measurement),
    ]
    return "\n\n".join(section for section in sections if section)


def _figures(report: Report) -> Iterable[tuple[str, str, str]]:
    memory, flops, time = report.memory, report.flops, report.step_time
    roles = [f"{role} {format_bytes(count)}" for role, count in memory.by_role.items() if count]
    yield "memory per device", format_bytes(memory.peak), " · ".join(roles)
    sent: dict[tuple[str, ...], int] = {}
    for each in report.collectives:
        sent[each.axes] = sent.get(each.axes, 0) + each.total_sent
    yield (
        "sent per device and step",
        format_bytes(report.sent),
        " · ".join(f"{axes_text(axes)} {format_bytes(n)}" for axes, n in sent.items()),
    )
    yield "arithmetic per device", format_count(flops.per_device, "FLOP"), f"{format_count(flops.unique, 'FLOP')} in the whole step"
    yield "duplication", f"{flops.duplication:.2f} ×", _duplication_text(flops.duplication)
    if time is not None:
        parts = {
            "arithmetic": time.arithmetic,
            "memory traffic": time.memory,
            "communication": time.communication,
            "starting kernels": time.launch,
        }
        shown = " · ".join(f"{name} {format_seconds(seconds)}" for name, seconds in parts.items())
        yield "step time, predicted", format_seconds(time.total), f"{shown}, on {time.hardware}"


def _duplication_text(duplication: float) -> str:
    if duplication < 1.005:
        return "no product is computed twice"
    return f"each product is computed {duplication:.2f} times over all devices, because a mesh axis is unused there"


def _arguments(placements: Sequence[Placement]) -> str:
    """One row for all layers that lie alike, and one for all optimiser state that lies as its parameters do."""
    shown, followers = _split_followers(placements)
    rows = []
    for group in _grouped(shown, lambda each: (template(each.tensor.path), each.tensor.shape, each.tensor.dims, each.sharding)):
        tensor, first = group[0].tensor, group[0]
        rows.append(
            (
                _tail(template(tensor.path) if len(group) > 1 else tensor.path) + f" ×{len(group)}" * (len(group) > 1),
                tensor.dtype,
                dims_text(tensor.dims, tensor.shape),
                str(first.sharding),
                shape_text(first.local_shape),
                format_bytes(sum(each.local_bytes for each in group)),
            )
        )
    if followers:
        count = f"{len(followers)} more of the optimizer state"
        rows.append((count, "", "as their parameters", "", "", format_bytes(sum(each.local_bytes for each in followers))))
    return table_text(["path", "type", "dimensions~", "on", "per device", "bytes>"], rows)


def _split_followers(placements: Sequence[Placement]) -> tuple[list[Placement], list[Placement]]:
    """Optimiser state that has the shape, the place and the tail of the path of a parameter (Adam's moments) tells nothing new."""
    leaders = {
        (each.tensor.path.partition("/")[2], each.tensor.shape, each.sharding) for each in placements if each.tensor.role is Role.PARAMETER
    }

    def follows(each: Placement) -> bool:
        words = each.tensor.path.split("/")
        tails = ("/".join(words[i:]) for i in range(1, len(words)))
        return each.tensor.role is Role.OPTIMIZER_STATE and any((tail, each.tensor.shape, each.sharding) in leaders for tail in tails)

    followers = [each for each in placements if follows(each)]
    return [each for each in placements if not follows(each)], followers


def _collectives(collectives: Sequence[Collective]) -> str:
    if not collectives:
        return "Shardy inserts no collective."
    totals = []
    for group in _grouped(collectives, lambda each: (each.axes, each.kind)):
        counts = (sum(each.count for each in group), sum(each.total_payload for each in group), sum(each.total_sent for each in group))
        totals.append((axes_text(group[0].axes), group[0].kind, f"{counts[0]:,}", format_bytes(counts[1]), format_bytes(counts[2])))
    text = table_text(["mesh axis", "collective", "times a step>", "payload per device>", "sent per device>"], totals)
    return f"Sent between devices, by mesh axis\n\n{text}\n\n{_largest(collectives)}"


def _largest(collectives: Sequence[Collective]) -> str:
    groups = _grouped(collectives, lambda each: (each.kind, each.axes, each.payload, template(each.path), each.source))
    groups.sort(key=lambda group: -sum(each.total_sent for each in group))
    rows = []
    for group in groups[:LARGEST]:
        first = group[0]
        path = _tail(template(first.path) if len(group) > 1 else first.path)
        count = f"{sum(each.count for each in group):,} × {format_bytes(first.payload)}"
        sent = format_bytes(sum(each.total_sent for each in group))
        rows.append((first.kind, axes_text(first.axes), count, sent, path, _tail(first.source, 24)))
    text = table_text(["collective", "mesh axis", "times × payload>", "sent>", "operation", "source"], rows)
    rest = [each for group in groups[LARGEST:] for each in group]
    more = f"\n  and {len(groups) - LARGEST} smaller ones, {format_bytes(sum(each.total_sent for each in rest))} together" if rest else ""
    return f"The largest of them, by operation\n\n{text}{more}"


def _diagnostics(diagnostics: Sequence[Diagnostic]) -> str:
    if not diagnostics:
        return ""
    lines = []
    for each in diagnostics:
        mend = f" Mend it: {' · '.join(str(edit) for edit in each.edits)}." if each.edits else ""
        lines.append(_wrapped(f"- {each.subject}: {each.message}{mend}", indent="    ", first="  "))
    return "To mind\n\n" + "\n".join(lines)


def _measured_figures(measurement: Measurement, report: Report | None) -> Iterable[tuple[str, str, str]]:
    first, last = measurement.spread_seconds
    predicted = measurement.predicted_seconds
    spread = f"8 of 10 steps between {format_seconds(first)} and {format_seconds(last)}"
    beside = "" if predicted is None else f" · predicted {format_seconds(predicted)}, {measurement.median_seconds / predicted:.2f} × that"
    yield "step time, median", format_seconds(measurement.median_seconds), spread + beside
    if measurement.losses:
        yield "loss", f"{measurement.losses[-1]:.4f}", f"from {measurement.losses[0]:.4f} in the first step"
    planned = "" if report is None else f"planned {format_bytes(report.memory.peak)}"
    yield "memory per device", format_bytes(measurement.compiled_peak), " · ".join(filter(None, ["as compiled", planned]))
    if measurement.device_peak is not None:
        yield "peak in use", format_bytes(measurement.device_peak), "as the device reports it"
    agreeing = sum(check.agrees for check in measurement.shards)
    yield "shards as planned", f"{agreeing} of {len(measurement.shards)}", "arguments and results, by the shapes the devices held"
    if measurement.max_error is not None:
        yield "largest error", f"{measurement.max_error:.1e}", "against the unsharded step, relative to the largest magnitude"


def _compiled(measurement: Measurement, report: Report | None) -> str:
    """Payload by mesh axis and kind, compiled beside planned."""
    planned = report.by_axis_and_kind if report is not None else {}
    keys = sorted({*measurement.compiled, *planned})
    if not keys:
        return ""
    columns = ["mesh axis", "collective", "compiled payload per device>", *(["planned>"] if report is not None else [])]
    rows = []
    for key in keys:
        figures = [measurement.compiled.get(key, 0), *([planned.get(key, 0)] if report is not None else [])]
        rows.append((axes_text(key[0]), key[1], *map(format_bytes, figures)))
    return table_text(columns, rows)


def _wrong_shards(measurement: Measurement) -> str:
    wrong = [check for check in measurement.shards if not check.agrees]
    if not wrong:
        return ""
    rows = [(_tail(check.path), shape_text(check.predicted), shape_text(check.actual)) for check in wrong[:LARGEST]]
    more = f"\n  and {len(wrong) - LARGEST} more" if len(wrong) > LARGEST else ""
    return "Shards that are not as planned\n\n" + table_text(["path", "planned>", "held>"], rows) + more


def _tail(path: str, length: int = 48) -> str:
    """A path, the front of a long one cut off: what tells it from others stands at the end."""
    return path if len(path) <= length else "…" + path[1 - length :]


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items with equal keys together, in order of first appearance."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _wrapped(text: str, indent: str = "  ", first: str = "") -> str:
    import textwrap

    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)


def _literal(cell: str) -> "Text":
    """A cell as it stands: `[data, -]` is no markup."""
    from rich.text import Text

    return Text(cell)


def _rendered(renderable: object) -> str:
    from rich.console import Console

    console = Console(
        file=StringIO(),
        width=WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # in a notebook, it would show an empty output beside the text
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


__all__ = ["axes_text", "dims_text", "measurement_text", "pairs_text", "report_text", "shape_text", "table_text"]
