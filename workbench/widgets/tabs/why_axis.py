"""Explains an axis (statement, propagation steps, displaced axes, edits that reverse it) and duplicated work."""

from collections.abc import Iterable, Iterator, Sequence

from workbench.core.layout import Layout
from workbench.core.path_patterns import matches
from workbench.core.sharding import base_axis
from workbench.core.text_tables import count_text
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.reports.diagnostic import ONCE, Duplication
from workbench.reports.measurement import Measurement
from workbench.reports.placement import Placement
from workbench.reports.propagation import Propagation, PropagationError
from workbench.reports.propagation_records import AxisPropagation, Conflict, Explanation, RejectedAxis, ShardedValue
from workbench.reports.propagation_step_text import axis_propagation_text, rejection_text
from workbench.reports.report import Report
from workbench.units import format_bytes, format_count
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.board.layer_folding import is_named
from workbench.widgets.gestures.view_gestures import WhyGesture
from workbench.widgets.tabs.table_blocks import (
    Block,
    Cell,
    Column,
    Contribution,
    Paint,
    Row,
    act,
    block,
    edits_cell,
    note_block,
    parts_table,
    row,
)
from workbench.widgets.tabs.value_table import constraint_on

MOST_MOVES = 24
MOST_REJECTIONS = 8
_NAMED = 3  # listed statements that could also propagate an axis
WAITING_TEXT = "Computing…"
_PATH_COLUMNS = (Column("step", number=True), Column("direction"), Column("from"), Column("to"), Column("over"), Column("line"))
_REJECTION_COLUMNS = (Column("axis"), Column("rejected axes and reasons"), Column("to resolve it the other way"))
_ARROWS = {"forward": "↓ forward", "backward": "↑ backward", "across": "↔ across"}

Answer = tuple[str, list[str], list[Block]]


def replay_of(report: Report, background: BackgroundQueries | None) -> Propagation | None:
    return compute_in_background(background, report, "propagation", lambda: report.propagation)


def replay_or_failure(report: Report, background: BackgroundQueries | None) -> tuple[Propagation | None, list[Block]]:
    """Return the propagation, `None` while it is computed; if it is not available, `None` with a note of the reason."""
    try:
        return replay_of(report, background), []
    except WorkbenchError as error:
        return None, [note_block(str(error))]


def axis_answer(name: str, report: Report, paint: Paint, background: BackgroundQueries | None) -> Answer | None:
    """Answer `KIND PLACE AXIS PATH`: why an axis shards a dimension of an argument (`tensor`), a `result` or a `value`."""
    kind, place, axis, subject = ([*name.split(" ", 3), "", "", ""])[:4]
    if not (place.isdecimal() and subject):
        return None
    replay, failure = replay_or_failure(report, background)
    if replay is None:
        return f"Why on {axis}?", [] if failure else [WAITING_TEXT], failure
    number = number_of(replay, report, kind, subject)
    if number is None or int(place) >= len(replay.values[number].shape):
        return None
    site = replay.values[number]
    title = f"Why is {_dim(site, int(place))} of {site.path} on {axis}?"
    try:
        explanation = replay.axis(number, int(place), axis)
    except PropagationError:
        return title, [_resharded_text(site, axis)], []
    return (
        title,
        list(_lead(explanation)),
        [*_path_blocks(replay, explanation), *rejection_blocks(report, explanation.lost, paint, background)],
    )


def number_of(replay: Propagation, report: Report, kind: str, subject: str) -> int | None:
    """Return the index of a table's subject in the propagation, the first of equal ones; `None` if it is missing."""
    if kind == "tensor":
        paths = (placed.tensor.path for placed in report.arguments)
        path = next((path for path in paths if is_named(subject, path)), "")
        return next((number for number, site in enumerate(replay.values) if site.role == "argument" and site.path == path), None)
    if kind == "result":
        return next((number for number, site in enumerate(replay.values) if site.role == "result" and is_named(subject, site.path)), None)
    value = next((value for value in report.values if is_named(subject, value.path)), None)
    return replay.number(value.path, value.kind, value.shape, value.sharding) if value else None


def origin_cell(replay: Propagation, number: int, dim: int, axes: tuple[str, ...], question: str, subject: str) -> Cell:
    """Describe the origin of a dimension's axes in one line; `axis QUESTION AXIS SUBJECT` asks for all steps."""
    site = replay.values[number]
    dim_axes = site.sharding.dims[dim] or ()
    explanation = [_origin_text(replay.axis(number, dim, axis)) for axis in axes if axis in dim_axes]
    if not explanation and axes:
        return {"text": _resharded_text(site, axes[0]), "wrap": True}
    if not explanation:
        return {"text": "no axis was propagated here", "tone": "muted", "wrap": True}
    ways = [act(f"The path of {axis}", WhyGesture(f"axis {question} {axis} {subject}")) for axis in axes if axis in dim_axes]
    return {"text": "; ".join(explanation), "wrap": True, "acts": ways}


def _origin_text(explanation: Explanation) -> str:
    suffix = f", in {count_text(len(explanation.path), 'step')}" if explanation.path else ", set by hand"
    return f"`{explanation.axis_on_dim.axis}` from {explanation.origin}{suffix}"


def _lead(explanation: Explanation) -> Iterator[str]:
    axis, path = explanation.axis_on_dim.axis, explanation.path
    if path:
        last = f"{path[-1].direction} over {path[-1].kind}"
        yield f"`{axis}` is from {explanation.origin}. It arrived in {count_text(len(path), 'step')}, the last one {last}."
    else:
        yield f"`{axis}` was set by hand: {explanation.origin}."
    base = base_axis(axis)
    same = sum(origin.statement == explanation.origin.statement for origin in explanation.others)
    if same:
        yield f"The same statement could also propagate it from {count_text(same, 'other place')}."
    others = [origin for origin in explanation.others if origin.statement != explanation.origin.statement]
    if named := list(dict.fromkeys(f"`{origin.statement}`" if origin.statement else origin.kind for origin in others)):
        more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
        yield f"Without that statement, {base} could still be propagated from {', '.join(named[:_NAMED])}{more}."
    elif path:
        yield f"No other statement propagates it: without it the dimension is not sharded over {base}."


def _resharded_text(site: ShardedValue, axis: str) -> str:
    return (
        f"Propagation shards it as {site.sharding}; the operation itself computes it as {site.computed}, with `{axis}`, "
        "followed by a reshard."
    )


def _path_blocks(replay: Propagation, explanation: Explanation) -> list[Block]:
    if not explanation.path:
        return []
    path = explanation.path
    hidden = max(len(path) - MOST_MOVES, 0)
    shown = path if not hidden else (*path[: MOST_MOVES // 2], *path[-MOST_MOVES // 2 :])
    note = f"{hidden:,} intermediate steps are omitted." if hidden else ""
    return [block("Propagation path", _PATH_COLUMNS, [_move_row(replay, move) for move in shown], note)]


def _move_row(replay: Propagation, move: AxisPropagation) -> Row:
    source, target = replay.values[move.source], replay.values[move.target]
    return row(
        f"{move.step} {move.target} {move.target_dim}",
        str(move.step),
        _ARROWS[move.direction],
        place_cell(source, move.source_dim),
        place_cell(target, move.target_dim),
        move.kind,
        {"text": move.line, "tone": "muted"},
    )


def place_cell(site: ShardedValue, dim: int) -> Cell:
    """Format a place: `d_ff of params/w1`."""
    behind = " after its constraint" if site.kind == "sharding_constraint" else ""
    return {"path": f"{_dim(site, dim)} of {site.path or site.kind}{behind}"}


def _dim(site: ShardedValue, dim: int) -> str:
    return site.dims[dim] if dim < len(site.dims) and site.dims[dim] not in ("", "_") else f"dimension {dim + 1}"


def rejection_blocks(report: Report, lost: Sequence[RejectedAxis], paint: Paint, background: BackgroundQueries | None) -> list[Block]:
    if not lost:
        return []
    replay = report.propagation
    rows = []
    for place, rejected in enumerate(lost[:MOST_REJECTIONS]):
        text = rejection_text(replay, rejected)
        rows.append(
            row(
                f"{place} {text}",
                paint.axes((rejected.wanted.axis,)),
                {"text": text, "wrap": True},
                resolving_cell(report, rejected, background),
            )
        )
    note = (
        f"and {count_text(len(lost) - MOST_REJECTIONS, 'more rejected axis', 'more rejected axes')}" if len(lost) > MOST_REJECTIONS else ""
    )
    return [block("Rejected there", _REJECTION_COLUMNS, rows, note)]


def resolving_cell(report: Report, rejected: RejectedAxis, background: BackgroundQueries | None) -> Cell:
    conflict = Conflict(rejected.rival_origin or rejected.origin, rejected.origin, rejected.reason, (rejected,))
    return edits_cell(report, conflict, background)


def move_line(replay: Propagation, move: AxisPropagation) -> str:
    """Describe a propagation step: `forward: data from batch of x to batch of mlp/dot_general (dot_general)`."""
    return axis_propagation_text(replay, move).partition(", ")[2]


# Duplicated work: equal products on several devices, or padding.

_TITLE = "work per device relative to an equal share"
_COLUMNS = (Column("done"), Column("alike along"), Column("padded", title=_TITLE))
_SHADE = 3


def explain_duplication(report: Report, paint: Paint, _measurement: Measurement | None) -> tuple[str, Iterable[str], Iterable[Block]]:
    """Return title, lead and table of the dots with duplicated work, by the work that could be saved."""
    flops, parts = report.flops, list(_parts(report, paint))
    whole = f"{_flop(flops.per_device)} on each of {flops.devices:,} devices is {flops.duplication:.2f} × the {_flop(flops.unique)}"
    lead = [f"{whole} of the program.", *(_causes(report.duplication_causes) if parts else ["No matrix product is duplicated."])]
    table = [parts_table("product", _COLUMNS, parts, _flop, "wasted")] if parts else []
    return f"Why {flops.duplication:.2f}×?", lead, table


def _parts(report: Report, paint: Paint) -> Iterator[Contribution]:
    devices = report.flops.devices
    for dot in report.products:
        wasted = (dot.per_device * devices - dot.flops) * dot.count / devices
        if wasted > 0:
            alike = dot.per_device * devices / dot.flops / dot.padding
            idle = tuple(name for name, size in report.mesh.axes if name not in dot.axes and size > 1) if alike > ONCE else ()
            padded = f"{dot.padding:.2f}×" if dot.padding > ONCE else ""
            yield Contribution(dot.path, wasted, dot.source, _SHADE, (f"{alike:,.0f}×", paint.axes(idle), padded))


def _causes(found: Duplication) -> Iterator[str]:
    if found.alike > ONCE:
        yield (
            "Devices along a mesh axis that shards no dimension of a product all compute the same; "
            "shard one of its dimensions over the axis, or shrink the axis."
        )
    if found.padding > ONCE and found.largest:
        largest = found.largest
        yield f"{found.padding:.2f}× is padding, most of it of `{largest.path}`: {largest.arithmetic}. {largest.way_out}."


def _flop(count: float) -> str:
    return format_count(count, "FLOP")


# Explains a sharding by the plan itself: the rule, override or constraint behind each axis.


_STATED_COLUMNS = (
    Column("dimension"),
    Column("size", number=True),
    Column("mesh axes"),
    Column("per device", number=True),
    Column("because"),
)


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
    blocks = [block("Cause of the sharding", _STATED_COLUMNS, rows)] if rows else []
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
    return "Why this sharding?", lead, [*([block("Where each axis comes from", _STATED_COLUMNS, rows)] if rows else []), *lost]


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
