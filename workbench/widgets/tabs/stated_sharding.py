"""Explains a sharding by the plan itself: the rule, override or constraint behind each axis."""

from workbench.core.layout import Layout
from workbench.core.path_patterns import matches
from workbench.core.sharding import base_axis
from workbench.plan.plan import Plan
from workbench.reports.placement import Placement
from workbench.reports.report import Report
from workbench.units import format_bytes
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.layer_folding import is_named
from workbench.widgets.tabs.table_blocks import Block, Cell, Column, Paint, Row, block, row
from workbench.widgets.tabs.value_table import constraint_on
from workbench.widgets.tabs.why_axis import Answer, number_of, origin_cell, rejection_blocks, replay_or_failure

_COLUMNS = (Column("dimension"), Column("size", number=True), Column("mesh axes"), Column("per device", number=True), Column("because"))


def placed_answer(subject: str, report: Report, paint: Paint, background: BackgroundQueries | None = None) -> Answer | None:
    """Explain an argument: its bytes, the statement behind each dimension, and the rejected axes."""
    placed = [placement for placement in report.arguments if is_named(subject, placement.tensor.path)]
    if not placed:
        return None
    first, tensor = placed[0], placed[0].tensor
    layout = report.plan.layout
    override = next((pattern for pattern, _ in reversed(layout.overrides) if matches(pattern, tensor.path)), "")
    rows = [
        _dimension(paint, place, dim, size, axes or (), local, _reason_cell(layout, dim, axes or (), override))
        for place, (dim, size, axes, local) in enumerate(
            zip(tensor.dims, tensor.shape, first.sharding.dims, first.local_shape, strict=True)
        )
    ]
    bytes_text = format_bytes(sum(placement.local_bytes for placement in placed))
    blocks = [block("Cause of the sharding", _COLUMNS, rows)] if rows else []
    return (
        f"Why {bytes_text} on each device?",
        list(_bytes_sentences(placed, report)),
        [*blocks, *_rejection_blocks(subject, report, paint, background)],
    )


def _rejection_blocks(subject: str, report: Report, paint: Paint, background: BackgroundQueries | None) -> list[Block]:
    if not report.plan.layout.statements:
        return []
    replay, failure = replay_or_failure(report, background)
    if replay is None:
        return failure
    number = number_of(replay, report, "tensor", subject)
    return [] if number is None else rejection_blocks(report, replay.rejections(number), paint, background)


def _dimension(paint: Paint, place: int, dim: str, size: int, axes: tuple[str, ...], local: int, because: Cell) -> Row:
    return row(str(place), dim, f"{size:,}", paint.axes(axes), f"{local:,}", because)


def _bytes_sentences(placed: list[Placement], report: Report) -> list[str]:
    first, tensor = placed[0], placed[0].tensor
    local = " × ".join(map(str, first.local_shape)) or "1"
    times = f", {len(placed)} times" if len(placed) > 1 else ""
    sentences = [f"`{placed[0].tensor.path}`: {local} of {tensor.dtype} is {format_bytes(first.local_bytes)}{times}."]
    replicas = first.sharding.replicas(report.mesh)
    if replicas > 1:
        idle = [name for name, size in report.mesh.axes if size > 1 and name not in map(base_axis, first.sharding.axes)]
        sentences.append(f"{replicas} devices hold the same shard: no dimension is sharded over {' or '.join(idle)}.")
    return sentences


def _reason_cell(layout: Layout, dim: str, axes: tuple[str, ...], override: str) -> Cell:
    if override:
        return {"text": f"override `{override}={dict(layout.overrides)[override]}`", "wrap": True}
    if axes:
        return {"text": f"rule `{dim}:{'+'.join(axes)}`", "wrap": True}
    return {"text": f"no rule for `{dim}`: whole", "tone": "muted", "wrap": True}


def value_answer(subject: str, report: Report, paint: Paint, background: BackgroundQueries | None = None) -> Answer | None:
    """Explain an intermediate value: its operation, the origin of each axis, and the rejected axes."""
    value = next((candidate for candidate in report.values if is_named(subject, candidate.path)), None)
    if value is None:
        return None
    plan = report.plan
    constraint = constraint_on(plan.layout, value.path, len(value.shape), value.source)
    replay, failure = replay_or_failure(report, background)
    number = number_of(replay, report, "value", subject) if replay else None

    def because(place: int, dim: str, axes: tuple[str, ...]) -> Cell:
        is_given = bool(constraint) and dict(plan.layout.constraints)[constraint].dims[place] is not None
        if replay is not None and number is not None and not is_given:
            return origin_cell(replay, number, place, axes, f"value {place}", subject)
        return _propagated_cell(plan, place, dim, tuple(map(base_axis, axes)), constraint)

    rows = [
        _dimension(paint, place, dim, size, axes or (), local, because(place, dim, axes or ()))
        for place, (dim, size, axes, local) in enumerate(zip(value.dims, value.shape, value.sharding.dims, value.local_shape, strict=True))
    ]
    times = f"{value.count:,} times a step" if value.count > 1 else "once a step"
    lead = [f"`{value.path}` ({value.kind})" + (f", {value.source}" if value.source else "") + f", computed {times}."]
    lost = rejection_blocks(report, replay.rejections(number), paint, background) if replay is not None and number is not None else failure
    return "Why this sharding?", lead, [*([block("Where each axis comes from", _COLUMNS, rows)] if rows else []), *lost]


def _propagated_cell(plan: Plan, place: int, dim: str, axes: tuple[str, ...], held: str) -> Cell:
    requested = dict(plan.layout.constraints)[held] if held else None
    if requested and (constrained := requested.dims[place]) is not None:
        met = "" if set(constrained) == set(axes) else ", applied after the operation"
        return {"text": f"constraint `@{held}={requested}`{met}", "wrap": True}
    if not axes:
        return {"text": "no operand shards it here", "tone": "muted", "wrap": True}
    rule_axes = plan.layout.rule(dim)
    if set(axes) <= set(rule_axes):
        first = next((tensor.path for tensor in plan.program.arguments if dim in tensor.dims), "")
        return {"text": f"rule `{dim}:{'+'.join(rule_axes)}`, propagated from arguments such as `{first}`", "wrap": True}
    sources = [f"`{name}:{'+'.join(on)}`" for name, on in plan.layout.rules if set(on) & set(axes)]
    sources += [f"`{pattern}={sharding}`" for pattern, sharding in plan.layout.overrides if set(sharding.axes) & set(axes)]
    sources += [f"`@{pattern}={sharding}`" for pattern, sharding in plan.layout.constraints if set(sharding.axes) & set(axes)]
    origin = " or ".join(sources)
    return {"text": f"propagated by Shardy{f', which has the axis from {origin}' if origin else ''}", "wrap": True}
