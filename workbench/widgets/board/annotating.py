"""Annotations by hand, beside the placements of `drag`: open and closed dimensions, rounds, axes kept out, partial sums, groups, barriers.

Each offer is a gesture, and is judged by making the edit it asks for on trial: the mark before and the refusal after agree.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from workbench.core.layout_text import group_text
from workbench.core.paths import matches
from workbench.core.sharding import Sharding, base_axis
from workbench.errors import LayoutError, WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.plan.statement_edits import GroupValues, Prioritize, SetBarrier, UngroupValues
from workbench.reports.report import Report
from workbench.widgets.board.folding import is_named
from workbench.widgets.board.gesture_target import LINE, GestureTarget, held
from workbench.widgets.board.marks import is_at
from workbench.widgets.board.menus import choices, heading, item, option
from workbench.widgets.board.tensor_edits import place_of, unless_empty
from workbench.widgets.tabs.results import RESULT
from workbench.widgets.tabs.tensors import TENSOR

PRIORITIES = (0, 1, 2, 3)
MOST_OFFERED = 40  # things to tie to
BETWEEN_STEPS = "what a step takes and gives is handed on as whole values"
_PASSES = (("both ways", ""), ("forward", "forward"), ("backward", "backward"), ("none", "none"))


def annotation_items(plan: Plan, report: Report, thing: GestureTarget, place: int, name: str) -> Iterator[dict[str, Any]]:
    """How one tensor or value takes part in propagation; `name` is how the dimension is called."""
    here = {"verb": "annotate", "of": thing.kind, "path": thing.subject, "rank": len(thing.dims), "place": place}

    def judged(label: str, **fields: Any) -> dict[str, Any]:
        return item(label, {**here, **fields}, _why_not(plan, lambda: annotate({**here, **fields}, plan, report)))

    yield heading("In propagation")
    yield from _openings(thing, place, name, judged)
    if thing.given.dims[place] != ():
        yield rounds(f"{name} spreads in round", thing.given.priority(place), {**here, "what": "priority"})
    yield from whole_items(plan, report, thing)


def whole_items(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[dict[str, Any]]:
    """What is said of all its dimensions at once: sums left to do, axes kept out, what it is tied to, what passes."""
    here = {"verb": "annotate", "of": thing.kind, "path": thing.subject, "rank": len(thing.dims), "place": 0}
    yield choices("Partial sum over", [_partial(plan, report, thing, axis, here) for axis in plan.mesh.names], many=True)
    if not thing.given.is_closed:
        yield choices("Keep out", [_kept_out(plan, thing, axis, here) for axis in plan.mesh.names], many=True)
    if thing.kind == RESULT:
        return
    alike = list(_alike(plan, report, thing))
    if alike:
        ask = {"label": "Lies as", "value": "", "verb": "Tie", "options": alike}
        yield item("Tie to another, to lie alike…", {**here, "what": "tie"}, ask=ask)
    now = barrier_at(plan, thing)[1]
    passes = [option(label, {**here, "what": "barrier", "allows": allows}, checked=allows == now) for label, allows in _PASSES]
    yield choices("Lets shardings pass", passes)


def rule_items(plan: Plan, dim: str) -> list[dict[str, Any]]:
    """In which round the rule of a dimension spreads."""
    if not plan.layout.rule(dim):
        return []
    return [rounds("Spreads in round", plan.layout.priority(dim), {"verb": "prioritize", "dim": dim})]


def rounds(label: str, now: int, gesture: Mapping[str, Any]) -> dict[str, Any]:
    """The rounds to choose from; 0 goes first."""
    named = dict.fromkeys((*PRIORITIES, now))
    return choices(label, [option(str(each), {**gesture, "priority": each}, checked=each == now) for each in named])


def _openings(thing: GestureTarget, place: int, name: str, judged: Callable[..., dict[str, Any]]) -> Iterator[dict[str, Any]]:
    axes, is_open = thing.given.dims[place], thing.given.is_open(place)
    if axes:
        label = f"Split {name} no further" if is_open else f"Let {name} be split further: {'+'.join(axes)}?"
        yield judged(label, what="open", open=not is_open)
    elif thing.kind == TENSOR:
        label = f"Keep {name} whole: closed" if is_open else f"Leave {name} to propagation: ?"
        yield judged(label, what="open", open=not is_open)


def _kept_out(plan: Plan, thing: GestureTarget, axis: str, here: Mapping[str, Any]) -> dict[str, Any]:
    is_out = axis in thing.given.replicated
    gesture = {**here, "what": "keep_out", "axis": axis, "out": not is_out}
    return option(axis, gesture, _why_not(plan, lambda: _keep_out(gesture, thing)), checked=is_out)


def _partial(plan: Plan, report: Report, thing: GestureTarget, axis: str, here: Mapping[str, Any]) -> dict[str, Any]:
    is_left = axis in thing.given.unreduced
    reason = None if is_left or plan.mesh[axis] == 1 else _why_no_sum(report, thing, axis)
    return option(axis, {**here, "what": "unreduced", "axis": axis, "left": not is_left}, reason, checked=is_left)


def _why_no_sum(report: Report, thing: GestureTarget, axis: str) -> str | None:
    """Why it is no partial sum over an axis, as far as the present report tells; the partitioner has the last word."""
    if not thing.is_value:
        return BETWEEN_STEPS
    if thing.kind == LINE or any(sharding.unreduced for _, sharding in report.plan.layout.constraints):
        return None  # a sum of partial sums is one as well
    reduced = (each for each in report.collectives if each.kind in ("all-reduce", "reduce-scatter") and is_named(thing.subject, each.path))
    if any(axis in map(base_axis, each.axes) for each in reduced):
        return None
    return f"each device has the whole value: it is not summed over {axis}"


def _why_not(plan: Plan, make: Callable[[], Edit]) -> str | None:
    """Why an edit would be refused."""
    try:
        make().apply(plan)
    except WorkbenchError as error:
        return error.message.replace("`", "")
    return None


def _alike(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[str]:
    """What has its shape, as a group names it; for an argument, other arguments, for the values may not be made yet."""
    values = [f"@{value.path}" for value in report.values if value.shape == thing.shape] if thing.is_value else []
    arguments = [tensor.path for tensor in plan.program.arguments if tensor.shape == thing.shape]
    others = [place for place in dict.fromkeys([*values, *arguments]) if not matches(thing.pattern, place.removeprefix("@"))]
    yield from others[:MOST_OFFERED]


def barrier_at(plan: Plan, thing: GestureTarget) -> tuple[str, str]:
    """The place of the barrier that holds for it, and what that lets through; its own place, and nothing, if there is none."""
    return next((each for each in plan.layout.barriers if is_at(each[:1], thing.path, thing.line)), (thing.place, ""))


def annotate(gesture: Mapping[str, Any], plan: Plan, report: Report) -> Edit:
    """The edit of an annotation; raises `LayoutError` for a gesture that makes no sense."""
    thing, what = held(gesture, plan, report), gesture.get("what")
    if what == "open":
        return thing.edit(_opened(thing, place_of(gesture, thing), is_open=gesture.get("open") is True))
    if what == "priority":
        return thing.edit(_with_priority(thing.given, place_of(gesture, thing), _priority(gesture)))
    if what == "keep_out":
        return _keep_out(gesture, thing)
    if what == "unreduced":
        return _unreduced(gesture, thing)
    if what == "tie":
        return GroupValues((thing.place, _other_place(str(gesture.get("name", ""))[:400], plan)))
    if what == "barrier":
        return SetBarrier(barrier_at(plan, thing)[0], str(gesture.get("allows", ""))[:20] or None)
    raise LayoutError(f"`{str(what)[:40]}` is no annotation.", ["reload the page"])


def prioritize(gesture: Mapping[str, Any], _plan: Plan, _report: Report) -> Edit:
    """In which round a rule spreads."""
    return Prioritize(str(gesture.get("dim", ""))[:200], _priority(gesture))


def ungroup(gesture: Mapping[str, Any], plan: Plan, _report: Report) -> Edit:
    """A group taken back, named by its text."""
    wanted = str(gesture.get("group", ""))
    found = next((places for places in plan.layout.groups if group_text(places) == wanted), None)
    if found is None:
        raise LayoutError(f"There is no `{wanted[:80]}` any more.", ["look at the layout again"])
    return UngroupValues(found)


def unbar(gesture: Mapping[str, Any], _plan: Plan, _report: Report) -> Edit:
    """A barrier taken back."""
    return SetBarrier(str(gesture.get("at", ""))[:1000], None)


def _priority(gesture: Mapping[str, Any]) -> int:
    priority = gesture.get("priority")
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= 99:
        raise LayoutError(f"`{str(priority)[:20]}` is no round of propagation.", ["choose 0, 1, 2 or 3"])
    return priority


def _opened(thing: GestureTarget, place: int, *, is_open: bool) -> Sharding | None:
    """Open to further axes, or closed on those it has; a dimension without axes left to propagation, or kept whole."""
    axes, given = thing.given.dims[place], thing.given
    if not axes:
        return unless_empty(thing, given.with_dim(place, None if is_open else ()))
    flags = given.open or (False,) * len(given.dims)
    return replace(given, open=(*flags[:place], is_open, *flags[place + 1 :]))


def _with_priority(given: Sharding, place: int, priority: int) -> Sharding:
    now = given.priorities or (0,) * len(given.dims)
    return replace(given, priorities=(*now[:place], priority, *now[place + 1 :]))


def _keep_out(gesture: Mapping[str, Any], thing: GestureTarget) -> Edit:
    axis, is_out = str(gesture.get("axis", ""))[:80], gesture.get("out") is True
    others = tuple(each for each in thing.given.replicated if each != axis)
    return thing.edit(unless_empty(thing, replace(thing.given, replicated=(*others, axis) if is_out else others)))


def _unreduced(gesture: Mapping[str, Any], thing: GestureTarget) -> Edit:
    """The sum over an axis left to do, or done again. What is left to propagation is closed as it lies: open, it asks for the whole."""
    axis, is_left = str(gesture.get("axis", ""))[:80], gesture.get("left") is True
    if not thing.is_value:
        raise LayoutError(
            f"`{thing.subject}` cannot be a partial sum over `{axis}`: {BETWEEN_STEPS}.",
            ["ask for the partial sum of an intermediate value, in Values", "split one of its dimensions over the axis"],
        )
    others = tuple(each for each in thing.given.unreduced if each != axis)
    if not is_left:
        return thing.edit(unless_empty(thing, replace(thing.given, unreduced=others)))
    dims = tuple(now if asked is None else asked for asked, now in zip(thing.given.dims, thing.axes, strict=True))
    place = next((place for place, axes in enumerate(dims) if axis in axes), None)
    if place is not None:
        raise LayoutError(
            f"`{thing.subject}` has `{thing.called(place)}` on mesh axis `{axis}`: a device has a part of it there, not a part of a sum.",
            [f"leave `{thing.called(place)}` whole first", "choose an axis that none of its dimensions lies on"],
        )
    kept = tuple(each for each in thing.given.replicated if each != axis)
    return thing.edit(Sharding(dims, replicated=kept, unreduced=(*others, axis)))


def _other_place(name: str, plan: Plan) -> str:
    """As a person names it: `@` may be left out before a value."""
    name = name.strip()
    is_argument = any(matches(name, tensor.path) for tensor in plan.program.arguments)
    return name if name.startswith("@") or is_argument or not name else f"@{name}"
