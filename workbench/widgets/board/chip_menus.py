"""Menus of chips and axes. Each item carries its own gesture, so that the front end needs no verbs of its own."""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.widgets.board.drop_legality import dropped_axes
from workbench.widgets.gestures.gesture import Gesture
from workbench.widgets.gestures.setup_gestures import RemoveAxisGesture, RenameAxisGesture, ShiftAxisGesture
from workbench.widgets.gestures.tensor_gestures import DropGesture, MajorGesture, RenameDimGesture, WholeGesture

_NAMES = ("data", "model", "pipe", "expert", "x", "y", "z")


def dim_menu(
    mesh: tuple[str, ...], dim: str, source: str, axes: tuple[str, ...], why_not: Callable[[tuple[str, ...]], str | None]
) -> list[dict[str, Any]]:
    """Menu items of a dimension: move, split, reorder, free, rename; `why_not` checks the resulting axes."""
    items = []
    for add in (False, True) if axes else (False,):
        for target in (name for name in mesh if name not in axes):
            label = f"Also split over {target}" if add else f"Move to {target}" if source and axes else f"Put on {target}"
            gesture = DropGesture(dim, source, target, add)
            items.append(item(label, gesture, why_not(dropped_axes(axes, source, target, add=add))))
    items += [item(f"Make {axis} the major axis", MajorGesture(dim, axis)) for axis in axes[1:]]
    if axes:
        items.append(item("Leave whole", WholeGesture(dim)))
    return [*items, item("Rename…", RenameDimGesture(dim, name=""), ask={"label": "New name", "value": dim, "verb": "Rename"})]


def axis_menu(mesh: tuple[str, ...], axis: str) -> list[dict[str, Any]]:
    """Menu items that rename a mesh axis, reorder it (which decides the neighbouring devices) or remove it."""
    place = mesh.index(axis)
    items = [item("Rename…", RenameAxisGesture(axis, name=""), ask={"label": "New name", "value": axis, "verb": "Rename"})]
    if place > 0:
        items.append(item("Move left (more major)", ShiftAxisGesture(axis, -1)))
    if place < len(mesh) - 1:
        items.append(item("Move right (more minor)", ShiftAxisGesture(axis, 1)))
    return [*items, item("Remove axis", RemoveAxisGesture(axis))]


def spare_axis_name(mesh: tuple[str, ...]) -> str:
    """Suggest a name for a new axis."""
    return next((name for name in _NAMES if name not in mesh), f"axis{len(mesh)}")


def heading(label: str) -> dict[str, Any]:
    return {"heading": label}


def item(label: str, gesture: Gesture, reason: str | None = None, ask: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build a menu item; `reason` explains a refusal, `ask` prompts for the gesture's `name`."""
    message = gesture.as_message()
    if ask:
        del message["name"]
    return {"label": label, "gesture": message, "reason": reason, "ask": ask}


def choices(label: str, options: list[dict[str, Any]], *, many: bool = False) -> dict[str, Any]:
    return {"choices": label, "options": options, "many": many}


def option(label: str, gesture: Gesture, reason: str | None = None, *, checked: bool) -> dict[str, Any]:
    return {"label": label, "gesture": gesture.as_message(), "reason": reason, "checked": checked}
