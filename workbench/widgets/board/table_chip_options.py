"""Drop targets and menu of a table chip, computed when it is picked up."""

from collections.abc import Callable, Iterator
from typing import Any

from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.board.annotation_menu import annotation_items, rule_items, value_items
from workbench.widgets.board.chip_menus import choices, dim_menu, heading, item, option
from workbench.widgets.board.drop_legality import WHOLE, brief_reason, distinct_arguments, dropped_axes
from workbench.widgets.board.gesture_target import LINE, GestureTarget, resolve_target
from workbench.widgets.board.tensor_edits import drop_error, place_of
from workbench.widgets.gestures.tensor_gestures import ByRulesGesture, OpenDimGesture, OpenGesture, OwnGesture, OwnWholeGesture, TakeGesture
from workbench.widgets.gestures.view_gestures import WhyGesture
from workbench.widgets.tabs.tensor_table import RESULT, TENSOR

Judge = Callable[[tuple[str, ...]], str | None]
NO_RULE = "unnamed dimension: no rule can apply to it"


def drag_options(gesture: TakeGesture, plan: Plan, report: Report) -> dict[str, Any]:
    """Return the illegal drops by zone, for the rule and for this tensor alone, and the menu unless dragged.

    Without a `place` the gesture is about a whole value, source line or graph box, and there is only the menu.
    """
    thing = resolve_target(gesture, plan, report)
    if gesture.place is None:
        return {"key": gesture.key, "illegal": {}, "menu": list(value_menu(plan, report, thing))}
    place, source = place_of(gesture, thing), WHOLE if gesture.source is None else gesture.source
    name, program = thing.dims[place], distinct_arguments(plan)
    named = name in plan.program.dims

    def by_rule(axes: tuple[str, ...]) -> str | None:
        return brief_reason(plan, program, name, axes) if named else NO_RULE

    def alone(axes: tuple[str, ...]) -> str | None:
        return drop_error(thing, dict(plan.mesh.axes), place, axes)

    def beside() -> Iterator[dict[str, Any]]:
        yield from annotation_items(plan, report, thing, place, thing.dim_name(place))
        yield from _questions(thing, place)

    ruled = plan.layout.rule(name) if named else ()
    ruling = _rule_items(plan, name, ruled, by_rule) if named else ()
    return {
        "key": gesture.key,
        "illegal": {
            "rule": dict(_illegal(plan.mesh.names, ruled, source if source in ruled else WHOLE, by_rule)),
            "only": dict(_illegal(plan.mesh.names, thing.axes[place], source, alone)),
        },
        "menu": [*ruling, *_own_items(plan.mesh.names, thing, place, alone), *beside()] if gesture.menu else [],
    }


def _illegal(mesh: tuple[str, ...], axes: tuple[str, ...], source: str, judge: Judge) -> Iterator[tuple[str, dict[str, str]]]:
    for target in mesh:
        reasons = {
            verb: reason for verb, add in (("move", False), ("add", True)) if (reason := judge(dropped_axes(axes, source, target, add=add)))
        }
        if reasons:
            yield target, reasons


def _rule_items(plan: Plan, name: str, axes: tuple[str, ...], judge: Judge) -> list[dict[str, Any]]:
    carried = sum(name in tensor.dims for tensor in plan.program.arguments)
    offers = [*dim_menu(plan.mesh.names, name, WHOLE, axes, judge), *rule_items(plan, name)]
    return [heading(f"Every {name}, in {carried:,} tensor{'s' * (carried != 1)}"), *offers]


def _questions(thing: GestureTarget, place: int) -> Iterator[dict[str, Any]]:
    for axis in thing.axes[place]:
        yield item(f"Why is {thing.dim_name(place)} on {axis}?", WhyGesture(f"axis {thing.kind} {place} {axis} {thing.subject}"))


def _own_items(mesh: tuple[str, ...], thing: GestureTarget, place: int, judge: Judge) -> Iterator[dict[str, Any]]:
    """Menu items for this tensor alone, and to replicate it or return it to the rules."""
    is_propagated = thing.kind != TENSOR  # results and values: propagation is the default
    name = thing.dim_name(place)
    address = thing.address(place, WHOLE)
    axes = thing.axes[place]
    yield heading("Constrain this value" if thing.is_value else "Annotate this result" if thing.kind == RESULT else f"Only {thing.subject}")
    for add in (False, True) if axes else (False,):
        for target in (axis_name for axis_name in mesh if axis_name not in axes):
            label = f"Also split {name} over {target}" if add else f"Put {name} on {target}"
            reason = judge(dropped_axes(axes, WHOLE, target, add=add))
            yield item(label, OwnGesture(**address, target=target, add=add), reason)
    for axis in axes[1:]:
        first = OwnGesture(**thing.address(place, axis), target=axes[0])
        yield item(f"Make {axis} the major axis of {name}", first)
    if axes or is_propagated:
        yield item(f"Keep {name} whole", OwnGesture(**address))
    if is_propagated and thing.own:
        yield item(f"Leave {name} to propagation", OpenDimGesture(**address))
    yield item("Replicate on every device", OwnWholeGesture(**address))
    if thing.own:
        yield item("Remove the constraint" if is_propagated else "Remove the override", ByRulesGesture(**address))


# The menu of a whole value, short enough for a graph box or a source line: a row of choices for each dimension, and items about all of them
# at once. The chips of the tables have a longer menu for each dimension.


def value_menu(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[dict[str, Any]]:
    """Menu of a whole value: the sharding of each dimension, then partial sums, excluded axes, groups, barriers."""
    yield heading(_value_title(thing))
    for place in range(len(thing.dims)):
        named = thing.dims[place] not in ("", "_")
        yield choices(f"{thing.dim_name(place)} {'' if named else '= '}{thing.shape[place]:,}", list(_options(plan, thing, place)))
    yield heading("All of it")
    yield from value_items(plan, report, thing)
    yield item("Replicate on every device", OwnWholeGesture(**thing.address()))
    if thing.own:
        yield item("Remove the override" if thing.kind == TENSOR else "Remove the constraint", ByRulesGesture(**thing.address()))
    if thing.kind != LINE:
        yield from _value_questions(thing)


def _value_title(thing: GestureTarget) -> str:
    if thing.kind == LINE:
        made = f"{thing.count} values are made" if thing.count > 1 else f"one value is made: {thing.path}"
        return f"Constrain line {thing.subject}: {made}"
    many = f" ×{thing.count}" if "*" in thing.subject else ""
    line = f", {thing.line}" if thing.line else ""
    return f"Constrain {thing.subject}{many}{line}" if thing.is_value else f"Only {thing.subject}{many}"


def _options(plan: Plan, thing: GestureTarget, place: int) -> Iterator[dict[str, Any]]:
    """Options of one dimension: left to propagation, replicated, on one axis, on one more."""
    address = thing.address(place, WHOLE)
    requested, present = thing.given.dims[place], thing.axes[place]
    mesh = dict(plan.mesh.axes)
    suffix = f": {'+'.join(present) or 'whole'}" if requested is None and thing.kind != LINE else ""
    if thing.kind == TENSOR:
        open_it = OpenGesture(**address, open=True)
        yield option(f"?{suffix}", open_it, None if not requested else "leave it whole first", checked=requested is None)
    else:
        yield option(f"by itself{suffix}", OpenDimGesture(**address), checked=requested is None)
    yield option("whole", OwnGesture(**address), checked=requested == ())
    for axis in plan.mesh.names:
        gesture = OwnGesture(**address, target=axis)
        yield option(axis, gesture, drop_error(thing, mesh, place, (axis,)), checked=requested == (axis,))
    if requested and len(requested) > 1:
        yield option("+".join(requested), OwnGesture(**address, target=requested[-1], add=True), checked=True)
    for axis in plan.mesh.names if requested else ():
        if requested and axis not in requested:
            gesture = OwnGesture(**address, target=axis, add=True)
            yield option(f"{'+'.join(requested)}+{axis}", gesture, drop_error(thing, mesh, place, (*requested, axis)), checked=False)


def _value_questions(thing: GestureTarget) -> Iterator[dict[str, Any]]:
    for place, axes in enumerate(thing.axes):
        for axis in axes:
            question = f"axis {thing.kind} {place} {axis} {thing.subject}"
            yield item(f"Why is {thing.dim_name(place)} on {axis}?", WhyGesture(question))
