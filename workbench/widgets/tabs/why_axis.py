"""Explains an axis (statement, propagation steps, displaced axes, edits that reverse it) and duplicated work."""

from collections.abc import Iterable, Iterator, Sequence

from workbench.core.sharding import base_axis
from workbench.core.text_tables import count_text
from workbench.errors import WorkbenchError
from workbench.reports.diagnostic import ONCE, Duplication
from workbench.reports.measurement import Measurement
from workbench.reports.propagation import Propagation, PropagationError
from workbench.reports.propagation_records import AxisPropagation, Conflict, Explanation, RejectedAxis, ShardedValue
from workbench.reports.propagation_step_text import axis_propagation_text, rejection_text
from workbench.reports.report import Report
from workbench.units import format_count
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
