"""The recipes panel: each recipe with its effect on the plan or why it does not apply; a recipe is applied as one edit."""

import logging
from collections.abc import Mapping
from typing import Any

from workbench.core.public_error_text import describe_error
from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.recipes import RecipeRow, find_recipe, list_recipes
from workbench.session.plan_history import Session
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.gestures.setup_gestures import RecipeAxisGesture, RecipeGesture, RecipesGesture

_log = logging.getLogger(__name__)


class RecipesPanel:
    """Open state of the list, and the mesh axes chosen for each recipe; a recipe finds the other axes by name."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open = False
        self._chosen: dict[str, tuple[str, ...]] = {}

    def handlers(self) -> Handlers:
        return handlers_of(on(RecipesGesture, self._show), on(RecipeAxisGesture, self._choose))

    def state(self, colours: Mapping[str, int]) -> dict[str, Any] | None:
        """Return every recipe as JSON; `None`, without computing anything, while the list is closed."""
        if not self._open:
            return None
        plan = self._session.plan
        try:
            rows = list_recipes(plan, self._valid_choices(plan))
        except Exception as error:  # noqa: BLE001 - a list that fails is no reason to lose the tables
            _log.exception("The recipes failed")
            return {"rows": [], "problem": f"The recipes could not be listed: {describe_error(error)}"}
        return {"rows": [self._row(row, plan, colours) for row in rows], "problem": ""}

    def _valid_choices(self, plan: Plan) -> dict[str, tuple[str, ...]]:
        return {name: axes for name, axes in self._chosen.items() if all(axis in plan.mesh for axis in axes)}

    def _show(self, gesture: RecipesGesture) -> None:
        self._open = gesture.open

    def _choose(self, gesture: RecipeAxisGesture) -> None:
        """Choose the axis for one purpose, swapped if already chosen for another; raises `WorkbenchError`."""
        plan, name, place, axis = self._session.plan, gesture.name, gesture.place, gesture.axis
        find_recipe(name)
        row = next(row for row in list_recipes(plan, self._valid_choices(plan)) if row.name == name)
        if place not in range(min(len(row.axes) + 1, row.most_axes)) or axis not in plan.mesh:
            raise WorkbenchError(f"`{axis}` cannot be used as an axis of that recipe.", ["choose an axis of the mesh"])
        axes = [*row.axes, ""][: max(len(row.axes), place + 1)]
        before = axes[place]
        axes = [before if name == axis else name for name in axes]
        axes[place] = axis
        self._chosen[name] = tuple(filter(None, axes))

    def _row(self, row: RecipeRow, plan: Plan, colours: Mapping[str, int]) -> dict[str, Any]:
        options = [{"name": name, "label": f"{name} ×{size}"} for name, size in plan.mesh.axes if size > 1 or name in row.axes]
        places = max(len(row.axes), min(1, len(options))) if row.axes or not row.holds else 0
        return {
            "key": row.name,
            "name": row.name,
            "title": row.title,
            "about": row.about,
            "state": "applies" if row.applies else "holds" if row.holds else "barred",
            "edits": list(row.edits),
            "reason": row.reason,
            "ways_out": list(row.ways_out),
            "given": list(self._valid_choices(plan).get(row.name, ())),
            "axes": [_axis(row.axes[place] if place < len(row.axes) else "", options, colours) for place in range(places)],
        }


def _axis(name: str, options: list[dict[str, str]], colours: Mapping[str, int]) -> dict[str, Any]:
    return {"name": name, "colour": colours.get(name), "options": options}


def recipe_edit(gesture: RecipeGesture, plan: Plan) -> Edit:
    """Combine all edits of a recipe into one; raises `WorkbenchError` if it does not apply."""
    return find_recipe(gesture.name, gesture.axes).edit(plan)
