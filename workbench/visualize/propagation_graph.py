"""The graph of the step at one moment of propagation; only values that have an axis so far are coloured.

The boxes are those of `graph`, one below the other, after the parameters on which axes start. A row has the colour of
the axis that splits its value first. A row reached in the current step has a thick edge and an arrow from its source.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.core.mesh import Mesh
from workbench.core.path_patterns import template
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.core.text_tables import table_text, tail_text
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import AxisPropagation, ShardedValue
from workbench.reports.report import Report
from workbench.visualize.draw.collapse_scopes import Collapsed, collapse
from workbench.visualize.draw.drawing_marks import Area, Label, Mark, Polyline, Rectangle, fit_drawing, text_width
from workbench.visualize.draw.palette import NEUTRAL, axis_colour
from workbench.visualize.draw.picture import Picture
from workbench.visualize.graph import dim_labels
from workbench.visualize.graph_boxes import (
    DIMS_AT,
    HEIGHT,
    PAD,
    STRIP,
    WIDTH,
    Ends,
    Rows,
    ScopeFrame,
    dims_of,
    heading,
    place_rows,
    scope_name,
)

ARRIVED = "→ "
"""Prefix of the title of a box that was just reached."""
MOST_PARAMETERS = 16
_TOP = 46.0
_LEGEND = "heavy, with an arrow: reached in this step; grey: no axis yet"
_CONSTRAINT = "sharding_constraint"


@dataclass(frozen=True)
class GraphRows:
    """The step-independent part of the picture, which is slow to compute: the boxes, parameters and layout.

    - `sites`: the value of each node; `constraints`: the constraint's value by value;
    - `parameters`: values of the parameters that are sharded at the end, equal ones together.
    """

    collapsed: Collapsed
    sites: tuple[int | None, ...]
    constraints: dict[int, int]
    parameters: tuple[tuple[int, ...], ...]
    rows: Rows
    row_of: dict[int, int | None] = field(default_factory=dict)  # by value, computed on demand

    @property
    def count(self) -> int:
        """The number of boxes; parameters are numbered after them."""
        return len(self.collapsed.boxes)


def lay_out_rows(report: Report, opened: Collection[str] | None = None) -> GraphRows:
    """Lay out the rows with these open scopes (default: those open initially)."""
    replay, collapsed = report.propagation, collapse(report.graph, opened)
    sites = tuple(replay.number(node.path, node.kind, node.shape, node.sharding) for node in report.graph.nodes)
    constraint_values = {(site.path, site.shape): number for number, site in enumerate(replay.values) if site.kind == _CONSTRAINT}
    pairs = (
        (number, constraint_values.get((replay.values[number].path, replay.values[number].shape))) for number in sites if number is not None
    )
    parameters = _parameters(report, replay)
    constraints = {number: constraint for number, constraint in pairs if constraint is not None}
    return GraphRows(collapsed, sites, constraints, parameters, place_rows(collapsed, len(parameters), _TOP))


def _parameters(report: Report, replay: Propagation) -> tuple[tuple[int, ...], ...]:
    parameter_paths = {tensor.path for tensor in report.plan.program.arguments if tensor.role is Role.PARAMETER}
    groups: dict[object, list[int]] = {}
    for number, site in enumerate(replay.values):
        if site.role == "argument" and site.path in parameter_paths and site.sharding.axes:
            groups.setdefault((template(site.path), site.shape, site.sharding), []).append(number)
    return tuple(map(tuple, groups.values()))[:MOST_PARAMETERS]


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of the replay by rows: the sharding of each value, the axes that reached rows, and the axes of arrows."""

    shardings: Sequence[Sharding]
    fresh: dict[int, str]
    arrows: dict[Ends, str]


def propagation_graph(report: Report, step: int | None = None, graph_rows: GraphRows | None = None) -> Picture:
    """The rows after a step of `report.propagation`, by default the last; `graph_rows` is the result of `lay_out_rows`."""
    graph_rows, replay = graph_rows or lay_out_rows(report), report.propagation
    step = (replay.axis_propagations[-1].step if replay.axis_propagations else 0) if step is None else step
    now = _step_state(replay, graph_rows, step)
    text = _text(report, replay, graph_rows, now)
    marks: list[Mark] = [Label(0, 12, _split_text(graph_rows, now), bold=True), Label(0, 30, _LEGEND)]
    for frame in graph_rows.rows.frames:
        marks += _frame_marks(report.mesh, graph_rows, frame, now)
    for ends in graph_rows.collapsed.essential_arrows:
        marks += _arrow(graph_rows.rows.arrow_points(ends), NEUTRAL, 1.0, 0.45)
    for number in range(graph_rows.count):
        marks += _box(report, graph_rows, number, now)
    for index, alike in enumerate(graph_rows.parameters):
        marks += _parameter(report.mesh, replay, graph_rows, graph_rows.count + index, alike, now)
    for ends, axis in now.arrows.items():
        marks += _arrow(graph_rows.rows.arrow_points(ends), axis_colour(axis, report.mesh), 2.2, 1.0)
    return Picture.of(fit_drawing(tuple(marks)), text)


def _step_state(replay: Propagation, graph_rows: GraphRows, step: int) -> _Step:
    moves: Sequence[AxisPropagation] = replay.steps[step - 1].axis_propagations if step else ()
    arrows: dict[Ends, str] = {}
    fresh: dict[int, str] = {}
    for move in moves:
        start, stop = (_row_at(replay, graph_rows, end) for end in (move.source, move.target))
        if stop is not None:
            fresh.setdefault(stop, move.axis)
            if start is not None and start != stop:
                arrows.setdefault((start, stop), move.axis)
    return _Step(replay.at(step), fresh, arrows)


def _row_at(replay: Propagation, graph_rows: GraphRows, number: int) -> int | None:
    if number not in graph_rows.row_of:
        graph_rows.row_of[number] = _find_row(replay.values[number], number, graph_rows)
    return graph_rows.row_of[number]


def _find_row(site: ShardedValue, number: int, graph_rows: GraphRows) -> int | None:
    if site.role == "value":
        target = graph_rows.collapsed.find_value(site.path) if site.path else None
        return graph_rows.rows.scopes[target] if isinstance(target, str) else target
    row = next((index for index, alike in enumerate(graph_rows.parameters) if number in alike), None)
    if row is not None:
        return graph_rows.count + row
    return next((index for index, box in enumerate(graph_rows.collapsed.boxes) if site.role == "argument" and box.key == site.path), None)


def _sharding_at(graph_rows: GraphRows, node: int, now: _Step) -> Sharding | None:
    """The current sharding of a node; that of its constraint until propagation reaches it."""
    site = graph_rows.sites[node]
    if site is None:
        return None
    shardings, constraint = now.shardings[site], graph_rows.constraints.get(site)
    return shardings if constraint is None or shardings.axes else now.shardings[constraint]


def _find_member(graph_rows: GraphRows, number: int, now: _Step) -> tuple[int, Sharding | None]:
    """The representative of a box: a member with an axis, else the most expensive."""
    box = graph_rows.collapsed.boxes[number]
    largest = graph_rows.collapsed.costliest(box)
    shown = max(
        box.members, key=lambda node: (bool(_axes(_sharding_at(graph_rows, node, now))), graph_rows.collapsed.graph.nodes[node] is largest)
    )
    return shown, _sharding_at(graph_rows, shown, now)


def _axes(sharding: Sharding | None) -> tuple[str, ...]:
    return sharding.axes if sharding else ()


def _box(report: Report, graph_rows: GraphRows, number: int, now: _Step) -> Iterator[Mark]:
    box, collapsed = graph_rows.collapsed.boxes[number], graph_rows.collapsed
    member, sharding = _find_member(graph_rows, number, now)
    node = collapsed.graph.nodes[member]
    dims = [] if box.rest else dims_of(node, sharding or Sharding.whole(len(node.shape)))
    about = f"{node.path} {sharding or ''}".strip() + (f" · {node.source}" if node.source else "")
    title = f"{box.key}: {about}"
    picked = "" if box.can_open or box.rest else node.path
    opens = box.key if box.can_open else ""
    yield from _row(report.mesh, graph_rows, number, heading(collapsed, number), _axes(sharding), dims, now, title, picked, opens)


def _parameter(mesh: Mesh, replay: Propagation, graph_rows: GraphRows, number: int, alike: Sequence[int], now: _Step) -> Iterator[Mark]:
    site, sharding = replay.values[alike[0]], now.shardings[alike[0]]
    name = template(site.path) if len(alike) > 1 else site.path
    many = f" ×{len(alike)}" if len(alike) > 1 else ""
    dims = [
        (label if label != "_" else str(size), axes or ()) for label, size, axes in zip(site.dims, site.shape, sharding.dims, strict=True)
    ]
    label = name.removeprefix("params/") + many
    yield from _row(mesh, graph_rows, number, label, sharding.axes, dims, now, f"{name}{many} {sharding}", site.path, "")


def _row(
    mesh: Mesh,
    graph_rows: GraphRows,
    number: int,
    name: str,
    axes: tuple[str, ...],
    dims: list[tuple[str, tuple[str, ...]]],
    now: _Step,
    title: str,
    subject: str,
    opens: str,
) -> Iterator[Mark]:
    x, y = graph_rows.rows.places[number]
    is_fresh = number in now.fresh
    axes = axes or ((now.fresh[number],) if is_fresh else ())
    colour = axis_colour(axes[0], mesh) if axes else NEUTRAL
    alpha = 0.36 if is_fresh else 0.16 if axes else 0.05
    hint = f"{ARRIVED if is_fresh else ''}{title}"
    yield Rectangle(x, y, WIDTH - x, HEIGHT, colour, alpha, line=colour, title=hint, subject=subject, opens=opens, round=3)
    strip = STRIP * (2.0 if is_fresh else 1.0)
    yield Rectangle(x, y, strip, HEIGHT, fill=colour, alpha=1.0 if axes else 0.3)
    if len(axes) > 1:
        yield Rectangle(x, y + HEIGHT / 2, strip, HEIGHT / 2, fill=axis_colour(axes[1], mesh))
    left = x + STRIP * 2 + PAD - 5
    yield Label(left, y + 14, tail_text(name, int((DIMS_AT - left - 4) / text_width("m"))), bold=True)
    room = int((WIDTH - DIMS_AT - 6) / text_width("m"))
    while dims and sum(len(label) + 1 for label, _ in dims) - 1 > room:
        dims.remove(next((dim for dim in dims if not dim[1]), dims[0]))  # unsplit dimensions first
    yield from dim_labels(mesh, dims, DIMS_AT, y + 14)


def _frame_marks(mesh: Mesh, graph_rows: GraphRows, frame: ScopeFrame, now: _Step) -> Iterator[Mark]:
    axis = now.fresh.get(graph_rows.rows.scopes.get(frame.scope, -1), "")
    colour = axis_colour(axis, mesh) if axis else NEUTRAL
    yield Rectangle(frame.x, frame.y, frame.width, frame.height, fill=colour, alpha=0.06, line=colour, round=5)
    if not frame.scope:
        yield Label(frame.x + 6, frame.y + 13, "parameters that are split", bold=True)
        return
    name = f"− {scope_name(graph_rows.collapsed, frame.scope)}"
    width = min(text_width(name) + 12, frame.width)
    title = f"{ARRIVED if axis else ''}{frame.scope}: close it"
    yield Rectangle(frame.x + 2, frame.y + 1, width, 16, fill=colour, alpha=0.3 if axis else 0.01, title=title, opens=frame.scope, round=3)
    yield Label(frame.x + 6, frame.y + 13, name, bold=True)


def _arrow(points: Sequence[tuple[float, float]], colour: str, width: float, alpha: float) -> Iterator[Mark]:
    yield Polyline(tuple(points), colour, width, alpha=alpha)
    x, y = points[-1]
    size = 3.0 + width
    yield Area(((x, y), (x + size, y - size * 0.6), (x + size, y + size * 0.6)), colour, alpha)


def _split_text(graph_rows: GraphRows, now: _Step) -> str:
    nodes = sum(bool(_axes(_sharding_at(graph_rows, node, now))) for node in range(len(graph_rows.sites)))
    parameters = [number for alike in graph_rows.parameters for number in alike]
    split = nodes + sum(bool(now.shardings[number].axes) for number in parameters)
    return f"{split:,} of {len(graph_rows.sites) + len(parameters):,} kernels, inputs and parameters have an axis"


def _text(report: Report, replay: Propagation, graph_rows: GraphRows, now: _Step) -> str:
    rows = []
    for index, alike in enumerate(graph_rows.parameters):
        mark = ARRIVED.strip() if graph_rows.count + index in now.fresh else ""
        sharding_now = now.shardings[alike[0]]
        rows.append((mark, template(replay.values[alike[0]].path), str(sharding_now) if sharding_now.axes else ""))
    for number, box in enumerate(graph_rows.collapsed.boxes):
        _, sharding = _find_member(graph_rows, number, now)
        rows.append((ARRIVED.strip() if number in now.fresh else "", box.key, str(sharding) if _axes(sharding) else ""))
    title = f"{report.title}: {_split_text(graph_rows, now)}"
    return f"{title}\n\n{table_text(['', 'scope', 'sharding so far'], rows)}" if rows else title
