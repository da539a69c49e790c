"""Target of a gesture: an argument, a result, a value of the tables, all values of a source line, or a graph box."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.path_patterns import matches, operations_at, selects
from workbench.core.sharding import Sharding, base_axis
from workbench.errors import LayoutError, unknown_name
from workbench.plan.edits import Constrain, Edit, Override
from workbench.plan.plan import Plan
from workbench.plan.sharding_legality import AxisTwice, Spec, sharding_faults
from workbench.reports.placement import Placement, Value
from workbench.reports.report import Report
from workbench.widgets.board.layer_folding import is_named, pattern_of, template
from workbench.widgets.gestures.tensor_gestures import TensorGesture
from workbench.widgets.tabs.tensor_table import RESULT, TENSOR, VALUE, separate_results
from workbench.widgets.tabs.value_table import constraint_on

LINE, BOX = "line", "box"
_STAGE, _NUMBER = re.compile(r"^stage\d+/"), re.compile(r"/\d+(?=/|$)")


@dataclass(frozen=True, slots=True)
class GestureTarget:
    """The tensor or value of a gesture: the first of `count` equal ones, and the pattern that matches all.

    `axes`: present axes of each dimension; `given`: the requested sharding; `own`: the pattern of its override or
    constraint, empty without one.
    """

    kind: str
    subject: str
    pattern: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    axes: tuple[tuple[str, ...], ...]
    given: Sharding
    own: str  # pattern of its override or constraint
    path: str = ""  # of the first one
    line: str | None = None  # the source line of a value
    count: int = 1

    @property
    def is_value(self) -> bool:
        return self.kind in (VALUE, LINE)

    @property
    def place(self) -> str:
        """The name in a group or barrier, with `@` before a value."""
        return f"@{self.pattern}" if self.is_value else self.pattern

    def address(self, place: int | None = None, source: str | None = None) -> dict[str, Any]:
        """Return the fields by which a `TensorGesture` names the target and one of its dimensions."""
        return {"of": self.kind, "path": self.subject, "rank": len(self.dims), "place": place, "source": source}

    def edit(self, sharding: Sharding | None) -> Edit:
        """Return the edit that sets this sharding, or with `None` removes the override or constraint."""
        if sharding is None:
            return Constrain(self.own, None) if self.is_value else Override(self.own, None)
        return Constrain(self.pattern, sharding) if self.is_value else Override(self.pattern, sharding)

    def dim_name(self, place: int) -> str:
        return self.dims[place] if self.dims[place] not in ("", "_") else f"dimension {place + 1}"

    def dims_with(self, place: int, axes: tuple[str, ...] | None) -> Spec:
        return (*self.given.dims[:place], axes, *self.given.dims[place + 1 :])

    def with_dim(self, place: int, axes: tuple[str, ...] | None) -> Sharding:
        """Return a sharding with one dimension changed; its axes are no longer excluded or unreduced."""
        _verify_axes(self, self.dims_with(place, axes))
        used = axes or ()
        replicated, unreduced = (
            tuple(axis for axis in names if axis not in used) for names in (self.given.replicated, self.given.unreduced)
        )
        return replace(self.given, replicated=replicated, unreduced=unreduced).with_dim(place, axes)


def resolve_target(gesture: TensorGesture, plan: Plan, report: Report) -> GestureTarget:
    """Find the target that a gesture names; raises `LayoutError` if the plan has no such tensor or value."""
    noun, find, names = _KINDS.get(gesture.of, _KINDS[TENSOR])
    target = find(gesture.path, gesture.rank, plan, report)
    if target is None:
        raise LayoutError(*unknown_name(noun, gesture.path[:200], dict.fromkeys(names(plan, report))))
    return target


def _held_tensor(subject: str, _rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    placements = [placement for placement in report.arguments if is_named(subject, placement.tensor.path)]
    if not placements:
        return None
    requested = plan.layout.sharding(placements[0].tensor)
    return _target_of_placement(TENSOR, subject, placements, requested, plan)


def _held_result(subject: str, _rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    placements = [placement for placement in separate_results(report) if is_named(subject, placement.tensor.path)]
    if not placements:
        return None
    requested = plan.layout.override(placements[0].tensor.path) or Sharding((None,) * len(placements[0].tensor.shape))
    return _target_of_placement(RESULT, subject, placements, requested, plan)


def _target_of_placement(kind: str, subject: str, found: Sequence[Placement], given: Sharding, plan: Plan) -> GestureTarget:
    """Build the target for an argument or result; its pattern must match no other of either kind."""
    tensor, carried = found[0].tensor, dict(plan.program.carried)
    results = (other for number, other in enumerate(plan.program.results) if number not in carried)
    paths = [other.path for other in (*plan.program.arguments, *results)]
    override = next((pattern for pattern, _ in reversed(plan.layout.overrides) if matches(pattern, tensor.path)), "")
    axes = tuple(dim or () for dim in found[0].sharding.dims)
    pattern = pattern_of(subject, paths)
    return GestureTarget(kind, subject, pattern, tensor.dims, tensor.shape, axes, given, override, tensor.path, count=len(found))


def _held_value(subject: str, rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    values = [value for value in report.values if is_named(subject, value.path) and (rank is None or len(value.shape) == rank)]
    if not values:
        return None
    constraint = constraint_on(plan.layout, values[0].path, len(values[0].shape), values[0].source)
    pattern = pattern_of(subject, {value.path for value in report.values})
    return _target_of_value(VALUE, subject, pattern, constraint, values, plan)


def _held_line(subject: str, rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    """Build the target for all forward values of one rank on a source line."""
    values = values_of_line(report, subject, rank)
    if not values:
        return None
    constraint = (
        subject if any(at == subject and len(sharding.dims) == len(values[0].shape) for at, sharding in plan.layout.constraints) else ""
    )
    line = _target_of_value(LINE, subject, subject, constraint, values, plan)
    all_dims = {value.dims for value in values}
    return replace(
        line,
        dims=line.dims if len(all_dims) == 1 else ("_",) * len(line.dims),
        count=len(operations_at(plan.program, subject, len(line.shape))),
    )


def values_of_line(report: Report, line: str, rank: object) -> list[Value]:
    """Return the values that a constraint on a line would apply to; a folded row may stand for several."""
    return [
        value for value in report.values if value.source == line and selects(line, value.path, value.source) and len(value.shape) == rank
    ]


def _target_of_value(kind: str, subject: str, pattern: str, own: str, found: Sequence[Value], plan: Plan) -> GestureTarget:
    first = found[0]
    axes = tuple(tuple(dict.fromkeys(map(base_axis, dim or ()))) for dim in first.sharding.dims)
    requested = dict(plan.layout.constraints)[own] if own else Sharding((None,) * len(axes))
    return GestureTarget(kind, subject, pattern, first.dims, first.shape, axes, requested, own, first.path, first.source, len(found))


def _held_box(subject: str, _rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    """Build the target of a graph box: the value or argument of its path, in all equal layers."""
    subject = _path_in_program(subject, {graph_node.path for graph_node in report.graph.nodes})
    node = next((graph_node for graph_node in report.graph.nodes if graph_node.path == subject and not graph_node.is_input), None)
    if node is None:
        shapes = {placement.tensor.path: placement.tensor.shape for placement in report.arguments}
    else:
        shapes = {value.path: value.shape for value in report.values if value.kind == node.kind and len(value.shape) == len(node.shape)}
    if subject not in shapes:
        return None
    alike = [path for path, shape in shapes.items() if template(path) == template(subject) and shape == shapes[subject]]
    named = template(subject) if len(alike) > 1 else subject
    return _held_tensor(named, None, plan, report) if node is None else _held_value(named, len(node.shape), plan, report)


def _path_in_program(subject: str, known: Collection[str]) -> str:
    """Map a box path of a stage graph to the program: `stage0/layers/3/mlp` may be `layers/mlp` in a loop over layers."""
    path = _STAGE.sub("", subject)
    unnumbered = _NUMBER.sub("", path)
    return path if path in known or unnumbered not in known else unnumbered


_Find = Callable[[str, object, Plan, Report], GestureTarget | None]
_Names = Callable[[Plan, Report], list[str]]
_KINDS: dict[str, tuple[str, _Find, _Names]] = {
    TENSOR: ("argument", _held_tensor, lambda plan, _: [tensor.path for tensor in plan.program.arguments]),
    RESULT: ("separate result", _held_result, lambda _, report: [placement.tensor.path for placement in separate_results(report)]),
    VALUE: ("intermediate value", _held_value, lambda _, report: [value.path for value in report.values]),
    LINE: ("line with an intermediate value", _held_line, lambda _, report: [value.source for value in report.values if value.source]),
    BOX: ("box", _held_box, lambda _, report: [node.path for node in report.graph.nodes]),
}


def _verify_axes(thing: GestureTarget, dims: Spec) -> None:
    """Raise `LayoutError`, with dimension names, if an axis shards two dimensions."""
    for fault in sharding_faults(thing.shape, dims, {}):
        assert isinstance(fault, AxisTwice), "an uneven split requires sizes"
        had, name = thing.dims[fault.earlier], thing.dims[fault.place]
        raise LayoutError(
            f"`{thing.subject}` has `{had}` on mesh axis `{fault.axis}` already; an axis shards one dimension of a tensor.",
            [f"first keep `{had}` unsharded", f"put `{name}` on another axis"],
        )
