"""One tensor in its own way: from what a hand did with a chip of the tables to an `Override` or a `Constrain`, and back to the rules."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.edits import Constrain, Edit, Override
from workbench.errors import LayoutError, unknown_name
from workbench.paths import matches
from workbench.plan import Plan
from workbench.report import Report
from workbench.sharding import Sharding, base_axis
from workbench.widgets.drops import dropped_axes
from workbench.widgets.folding import is_named, pattern_of
from workbench.widgets.tensors import VALUE
from workbench.widgets.values import constraint_on


@dataclass(frozen=True, slots=True)
class Held:
    """The tensor or value a gesture is about: of alike ones the first, and the pattern that names them all.

    `axes` are those each dimension lies on now; `given` is what it is asked to be: by its override or constraint, else by the rules, or,
    of a value, nothing.
    """

    kind: str
    subject: str
    pattern: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    axes: tuple[tuple[str, ...], ...]
    given: Sharding
    own: str  # the override or constraint that holds for it
    path: str = ""  # of the first
    line: str | None = None  # the source line of a value

    @property
    def place(self) -> str:
        """How a group or a barrier names it: `@` marks a value."""
        return f"@{self.pattern}" if self.kind == VALUE else self.pattern

    def edit(self, sharding: Sharding | None) -> Edit:
        """Place it in this way, or with `None` as the rules or propagation do."""
        if sharding is None:
            return Constrain(self.own, None) if self.kind == VALUE else Override(self.own, None)
        return Constrain(self.pattern, sharding) if self.kind == VALUE else Override(self.pattern, sharding)

    def dims_with(self, place: int, axes: tuple[str, ...] | None) -> tuple[tuple[str, ...] | None, ...]:
        return (*self.given.dims[:place], axes, *self.given.dims[place + 1 :])

    def with_dim(self, place: int, axes: tuple[str, ...] | None) -> Sharding:
        """With one dimension placed otherwise; an axis that was kept out and is now wanted is kept out no more."""
        _verify_axes(self, self.dims_with(place, axes))
        wanted = replace(self.given, replicated=tuple(axis for axis in self.given.replicated if axis not in (axes or ())))
        return wanted.with_dim(place, axes)


def held(gesture: Mapping[str, Any], plan: Plan, report: Report) -> Held:
    """What the gesture names; raises `LayoutError` if that is no tensor and no value of this plan."""
    kind, subject = str(gesture.get("of", "")), str(gesture.get("path", ""))
    found = _held_value(subject, gesture.get("rank"), plan, report) if kind == VALUE else _held_tensor(subject, plan, report)
    if found is None:
        names = (value.path for value in report.values) if kind == VALUE else (tensor.path for tensor in plan.program.arguments)
        raise LayoutError(*unknown_name("intermediate value" if kind == VALUE else "argument", subject[:200], names))
    return found


def _held_tensor(subject: str, plan: Plan, report: Report) -> Held | None:
    paths = [tensor.path for tensor in plan.program.arguments]
    placed = next((each for each in report.arguments if is_named(subject, each.tensor.path)), None)
    if placed is None:
        return None
    axes = tuple(dim or () for dim in placed.sharding.dims)
    own = next((pattern for pattern, _ in reversed(plan.layout.overrides) if matches(pattern, placed.tensor.path)), "")
    tensor, given = placed.tensor, plan.layout.sharding(placed.tensor)
    return Held("tensor", subject, pattern_of(subject, paths), tensor.dims, tensor.shape, axes, given, own, tensor.path)


def _held_value(subject: str, rank: object, plan: Plan, report: Report) -> Held | None:
    named = (each for each in report.values if is_named(subject, each.path) and (rank is None or len(each.shape) == rank))
    value = next(named, None)
    if value is None:
        return None
    axes = tuple(tuple(dict.fromkeys(map(base_axis, dim or ()))) for dim in value.sharding.dims)
    own = constraint_on(plan.layout, value.path, len(axes), value.source)
    given = dict(plan.layout.constraints)[own] if own else Sharding((None,) * len(axes))
    pattern = pattern_of(subject, {each.path for each in report.values})
    return Held(VALUE, subject, pattern, value.dims, value.shape, axes, given, own, value.path, value.source)


def own_way(gesture: Mapping[str, Any], plan: Plan, report: Report) -> Edit:
    """A dimension of one tensor dropped on an axis: of that tensor alone."""
    thing = held(gesture, plan, report)
    place = place_of(gesture, thing)
    source, target = str(gesture.get("source", "")), str(gesture.get("target", ""))
    return thing.edit(thing.with_dim(place, dropped_axes(thing.axes[place], source, target, add=gesture.get("add") is True)))


def own_whole(gesture: Mapping[str, Any], plan: Plan, report: Report) -> Edit:
    """Explicitly whole on every device."""
    thing = held(gesture, plan, report)
    return thing.edit(Sharding.whole(len(thing.dims)))


def opened(gesture: Mapping[str, Any], plan: Plan, report: Report) -> Edit:
    """A dimension left to propagation; the constraint of a value goes with the last dimension of which it says anything."""
    thing = held(gesture, plan, report)
    return thing.edit(unless_empty(thing, thing.with_dim(place_of(gesture, thing), None)))


def unless_empty(thing: Held, sharding: Sharding) -> Sharding | None:
    """`None` for a constraint that asks for nothing."""
    says_nothing = sharding == Sharding((None,) * len(sharding.dims))
    return None if thing.kind == VALUE and thing.own and says_nothing else sharding


def by_the_rules(gesture: Mapping[str, Any], plan: Plan, report: Report) -> Edit:
    """As the rules or propagation place it."""
    thing = held(gesture, plan, report)
    if not thing.own:
        raise LayoutError(f"`{thing.subject}` lies by the rules already.", ["drop one of its dimensions with “only this tensor” chosen"])
    return thing.edit(None)


def why_not_own(thing: Held, mesh: Mapping[str, int], place: int, axes: tuple[str, ...]) -> str | None:
    """Why one tensor may not lie so, short enough for a drop zone; `None` if it may. A value may lie unevenly: XLA pads it."""
    for other, on in enumerate(thing.dims_with(place, axes)):
        if other != place and (shared := next((axis for axis in axes if axis in (on or ())), None)):
            return f"{thing.dims[other] or thing.shape[other]} is on {shared}"
    parts = 1
    for axis in axes:
        parts *= mesh[axis]
    size = thing.shape[place]
    return f"{size} % {parts} = {size % parts}" if size % parts and thing.kind != VALUE else None


def _verify_axes(thing: Held, dims: tuple[tuple[str, ...] | None, ...]) -> None:
    """An axis splits one dimension: said in the names of the dimensions, before the sharding says it."""
    owner: dict[str, str] = {}
    for name, axes in zip(thing.dims, dims, strict=True):
        for axis in axes or ():
            if axis in owner:
                raise LayoutError(
                    f"`{thing.subject}` has `{owner[axis]}` on mesh axis `{axis}` already; an axis splits one dimension of a tensor.",
                    [f"leave `{owner[axis]}` whole first", f"put `{name}` on another axis"],
                )
            owner[axis] = name


def place_of(gesture: Mapping[str, Any], thing: Held) -> int:
    """Which dimension the gesture names."""
    place = gesture.get("place")
    if not isinstance(place, int) or not 0 <= place < len(thing.dims):
        raise LayoutError(f"`{thing.subject}` has no dimension number {str(place)[:20]}.", ["reload the page"])
    return place
