"""The target of a gesture: an argument, a result or a value of the tables, all values of a source line, or a box of a graph."""

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
from workbench.widgets.tabs.tensor_table import RESULT, TENSOR, VALUE, uncarried_results
from workbench.widgets.tabs.value_table import constraint_on

LINE, BOX = "line", "box"
_STAGE, _NUMBER = re.compile(r"^stage\d+/"), re.compile(r"/\d+(?=/|$)")


@dataclass(frozen=True, slots=True)
class GestureTarget:
    """The tensor or value a gesture is about: the first of equal ones, and the pattern that names them all, `count` of them.

    `axes`: the present axes of each dimension; `given`: the requested sharding, by its override or constraint, else by the rules for an
    argument, else nothing.
    """

    kind: str
    subject: str
    pattern: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    axes: tuple[tuple[str, ...], ...]
    given: Sharding
    own: str  # the override or constraint that applies to it
    path: str = ""  # of the first
    line: str | None = None  # the source line of a value
    count: int = 1

    @property
    def is_value(self) -> bool:
        """Whether it is an intermediate value, or all those of a line; not an argument and not a result."""
        return self.kind in (VALUE, LINE)

    @property
    def place(self) -> str:
        """Its name in a group or a barrier: `@` marks a value."""
        return f"@{self.pattern}" if self.is_value else self.pattern

    def address(self, place: int | None = None, source: str | None = None) -> dict[str, Any]:
        """The fields by which a `TensorGesture` names it, and one of its dimensions."""
        return {"of": self.kind, "path": self.subject, "rank": len(self.dims), "place": place, "source": source}

    def edit(self, sharding: Sharding | None) -> Edit:
        """The edit that gives it this sharding, or with `None` leaves it to the rules or propagation."""
        if sharding is None:
            return Constrain(self.own, None) if self.is_value else Override(self.own, None)
        return Constrain(self.pattern, sharding) if self.is_value else Override(self.pattern, sharding)

    def dim_name(self, place: int) -> str:
        """The display name of a dimension."""
        return self.dims[place] if self.dims[place] not in ("", "_") else f"dimension {place + 1}"

    def dims_with(self, place: int, axes: tuple[str, ...] | None) -> Spec:
        return (*self.given.dims[:place], axes, *self.given.dims[place + 1 :])

    def with_dim(self, place: int, axes: tuple[str, ...] | None) -> Sharding:
        """A sharding with one dimension changed; an axis that is now used is not excluded any more, and no sum over it is left undone."""
        _verify_axes(self, self.dims_with(place, axes))
        taken = axes or ()
        kept, left = (tuple(axis for axis in each if axis not in taken) for each in (self.given.replicated, self.given.unreduced))
        return replace(self.given, replicated=kept, unreduced=left).with_dim(place, axes)


def resolve_target(gesture: TensorGesture, plan: Plan, report: Report) -> GestureTarget:
    """The target that a gesture names; raises `LayoutError` if this plan has nothing of that name."""
    what, find, names = _KINDS.get(gesture.of, _KINDS[TENSOR])
    found = find(gesture.path, gesture.rank, plan, report)
    if found is None:
        raise LayoutError(*unknown_name(what, gesture.path[:200], dict.fromkeys(names(plan, report))))
    return found


def _held_tensor(subject: str, _rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    found = [each for each in report.arguments if is_named(subject, each.tensor.path)]
    if not found:
        return None
    given = plan.layout.sharding(found[0].tensor)
    return _target_of_placement(TENSOR, subject, found, given, plan)


def _held_result(subject: str, _rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    found = [each for each in uncarried_results(report) if is_named(subject, each.tensor.path)]
    if not found:
        return None
    given = plan.layout.override(found[0].tensor.path) or Sharding((None,) * len(found[0].tensor.shape))
    return _target_of_placement(RESULT, subject, found, given, plan)


def _target_of_placement(kind: str, subject: str, found: Sequence[Placement], given: Sharding, plan: Plan) -> GestureTarget:
    """The target for an argument or result. An override names both alike, so its pattern must match no other of either; a result that is
    carried on has none."""
    tensor, carried = found[0].tensor, dict(plan.program.carried)
    results = (each for number, each in enumerate(plan.program.results) if number not in carried)
    paths = [each.path for each in (*plan.program.arguments, *results)]
    own = next((pattern for pattern, _ in reversed(plan.layout.overrides) if matches(pattern, tensor.path)), "")
    axes = tuple(dim or () for dim in found[0].sharding.dims)
    pattern = pattern_of(subject, paths)
    return GestureTarget(kind, subject, pattern, tensor.dims, tensor.shape, axes, given, own, tensor.path, count=len(found))


def _held_value(subject: str, rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    found = [each for each in report.values if is_named(subject, each.path) and (rank is None or len(each.shape) == rank)]
    if not found:
        return None
    own = constraint_on(plan.layout, found[0].path, len(found[0].shape), found[0].source)
    pattern = pattern_of(subject, {each.path for each in report.values})
    return _target_of_value(VALUE, subject, pattern, own, found, plan)


def _held_line(subject: str, rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    """All values of a source line in the forward pass, of one rank: one constraint for all of them."""
    found = values_of_line(report, subject, rank)
    if not found:
        return None
    own = subject if any(at == subject and len(each.dims) == len(found[0].shape) for at, each in plan.layout.constraints) else ""
    line = _target_of_value(LINE, subject, subject, own, found, plan)
    alike = {each.dims for each in found}
    return replace(
        line,
        dims=line.dims if len(alike) == 1 else ("_",) * len(line.dims),
        count=len(operations_at(plan.program, subject, len(line.shape))),
    )


def values_of_line(report: Report, line: str, rank: object) -> list[Value]:
    """The values of a line that a constraint on it would apply to; a folded row may stand for several of them."""
    return [each for each in report.values if each.source == line and selects(line, each.path, each.source) and len(each.shape) == rank]


def _target_of_value(kind: str, subject: str, pattern: str, own: str, found: Sequence[Value], plan: Plan) -> GestureTarget:
    first = found[0]
    axes = tuple(tuple(dict.fromkeys(map(base_axis, dim or ()))) for dim in first.sharding.dims)
    given = dict(plan.layout.constraints)[own] if own else Sharding((None,) * len(axes))
    return GestureTarget(kind, subject, pattern, first.dims, first.shape, axes, given, own, first.path, first.source, len(found))


def _held_box(subject: str, _rank: object, plan: Plan, report: Report) -> GestureTarget | None:
    """The target of a graph box: the value or argument of its path, in all equal layers."""
    subject = _path_in_program(subject, {each.path for each in report.graph.nodes})
    node = next((each for each in report.graph.nodes if each.path == subject and not each.is_input), None)
    if node is None:
        shapes = {each.tensor.path: each.tensor.shape for each in report.arguments}
    else:
        shapes = {each.path: each.shape for each in report.values if each.kind == node.kind and len(each.shape) == len(node.shape)}
    if subject not in shapes:
        return None
    alike = [path for path, shape in shapes.items() if template(path) == template(subject) and shape == shapes[subject]]
    named = template(subject) if len(alike) > 1 else subject
    return _held_tensor(named, None, plan, report) if node is None else _held_value(named, len(node.shape), plan, report)


def _path_in_program(subject: str, known: Collection[str]) -> str:
    """The path of a box in the graph of a pipeline's stage as the program has it: `stage0/layers/3/mlp` may be `layers/mlp` in a loop over
    layers."""
    path = _STAGE.sub("", subject)
    unnumbered = _NUMBER.sub("", path)
    return path if path in known or unnumbered not in known else unnumbered


_Find = Callable[[str, object, Plan, Report], GestureTarget | None]
_Names = Callable[[Plan, Report], list[str]]
_KINDS: dict[str, tuple[str, _Find, _Names]] = {
    TENSOR: ("argument", _held_tensor, lambda plan, _: [each.path for each in plan.program.arguments]),
    RESULT: ("separate result", _held_result, lambda _, report: [each.tensor.path for each in uncarried_results(report)]),
    VALUE: ("intermediate value", _held_value, lambda _, report: [each.path for each in report.values]),
    LINE: ("line with an intermediate value", _held_line, lambda _, report: [each.source for each in report.values if each.source]),
    BOX: ("box", _held_box, lambda _, report: [each.path for each in report.graph.nodes]),
}


def _verify_axes(thing: GestureTarget, dims: Spec) -> None:
    """Check that an axis splits only one dimension: reported with the names of the dimensions, before the sharding reports it."""
    for fault in sharding_faults(thing.shape, dims, {}):
        assert isinstance(fault, AxisTwice), "an uneven split requires sizes"
        had, name = thing.dims[fault.earlier], thing.dims[fault.place]
        raise LayoutError(
            f"`{thing.subject}` has `{had}` on mesh axis `{fault.axis}` already; an axis shards one dimension of a tensor.",
            [f"first keep `{had}` unsharded", f"put `{name}` on another axis"],
        )
