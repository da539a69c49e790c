"""The menu of a whole value, short enough for a graph box or a source line: a row of choices for each dimension, and items about all of
them at once. The chips of the tables have a longer menu for each dimension."""

from collections.abc import Iterator
from typing import Any

from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.widgets.board.annotation_menu import whole_items
from workbench.widgets.board.drop_legality import WHOLE
from workbench.widgets.board.gesture_target import LINE, GestureTarget
from workbench.widgets.board.menus import choices, heading, item, option
from workbench.widgets.board.tensor_edits import drop_error
from workbench.widgets.gestures.annotation import OpenGesture
from workbench.widgets.gestures.one_tensor import ByRulesGesture, OpenDimGesture, OwnGesture, OwnWholeGesture
from workbench.widgets.gestures.view_changes import WhyGesture
from workbench.widgets.tabs.tensors import TENSOR


def value_menu(plan: Plan, report: Report, thing: GestureTarget) -> Iterator[dict[str, Any]]:
    """The sharding of each dimension, to be changed with a click; then partial sums, excluded axes, groups, barriers."""
    yield heading(_title(thing))
    for place in range(len(thing.dims)):
        named = thing.dims[place] not in ("", "_")
        yield choices(f"{thing.dim_name(place)} {'' if named else '= '}{thing.shape[place]:,}", list(_options(plan, thing, place)))
    yield heading("All of it")
    yield from whole_items(plan, report, thing)
    yield item("Replicate it: whole on every device", OwnWholeGesture(**thing.address()))
    if thing.own:
        yield item("By the rules again" if thing.kind == TENSOR else "Free it again", ByRulesGesture(**thing.address()))
    if thing.kind != LINE:
        yield from _questions(thing)


def _title(thing: GestureTarget) -> str:
    if thing.kind == LINE:
        made = f"{thing.count} values are made" if thing.count > 1 else f"one value is made: {thing.path}"
        return f"Constrain line {thing.subject}: {made}"
    many = f" ×{thing.count}" if "*" in thing.subject else ""
    line = f", {thing.line}" if thing.line else ""
    return f"Constrain {thing.subject}{many}{line}" if thing.is_value else f"Only {thing.subject}{many}"


def _options(plan: Plan, thing: GestureTarget, place: int) -> Iterator[dict[str, Any]]:
    """Left to propagation, replicated, on one axis, on one more; the present request is checked."""
    here = thing.address(place, WHOLE)
    asked, lies = thing.given.dims[place], thing.axes[place]
    mesh = dict(plan.mesh.axes)
    found = f": {'+'.join(lies) or 'whole'}" if asked is None and thing.kind != LINE else ""
    if thing.kind == TENSOR:
        open_it = OpenGesture(**here, open=True)
        yield option(f"?{found}", open_it, None if not asked else "leave it whole first", checked=asked is None)
    else:
        yield option(f"by itself{found}", OpenDimGesture(**here), checked=asked is None)
    yield option("whole", OwnGesture(**here), checked=asked == ())
    for axis in plan.mesh.names:
        gesture = OwnGesture(**here, target=axis)
        yield option(axis, gesture, drop_error(thing, mesh, place, (axis,)), checked=asked == (axis,))
    if asked and len(asked) > 1:
        yield option("+".join(asked), OwnGesture(**here, target=asked[-1], add=True), checked=True)
    for axis in plan.mesh.names if asked else ():
        if asked and axis not in asked:
            gesture = OwnGesture(**here, target=axis, add=True)
            yield option(f"{'+'.join(asked)}+{axis}", gesture, drop_error(thing, mesh, place, (*asked, axis)), checked=False)


def _questions(thing: GestureTarget) -> Iterator[dict[str, Any]]:
    for place, axes in enumerate(thing.axes):
        for axis in axes:
            of = f"axis {thing.kind} {place} {axis} {thing.subject}"
            yield item(f"Why is {thing.dim_name(place)} on {axis}?", WhyGesture(of))
