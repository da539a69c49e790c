"""The interface of a recipe: a known way to shard a program, as edits of a plan."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from workbench.core.layout import Layout
from workbench.errors import RecipeError
from workbench.plan.edits import Constrain, Edit, EditGroup, LayoutEdit, Override, ShardDim
from workbench.plan.layout_legality import verify_layout
from workbench.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class RecipeDraft:
    """The edits of a recipe for one plan, what they leave undone (a dimension that stays whole, say), and the mesh axes it takes."""

    edits: tuple[Edit, ...]
    notes: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe(ABC):
    """A known way to shard a program. `edits` of a plan are ordinary edits: nothing records that a recipe made them.

    `axes` are the mesh axes to use, where a recipe shall not find them by their names (see `naming_conventions.AXES`).

    **Invariants**

    - `name` is unique in `ALL_RECIPES` and an identifier; `title` is what a menu shows, `about` one line, `source` where it is from.
    - `saves_memory` says that a longer step is its price, and no drawback.
    - `draft` changes nothing, plans nothing and is quick; its edits can be applied one after another.
    """

    axes: tuple[str, ...] = ()

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    source: ClassVar[str]
    most_axes: ClassVar[int] = 1
    saves_memory: ClassVar[bool] = False

    @abstractmethod
    def draft(self, plan: Plan) -> RecipeDraft:
        """The edits, with notes. Raises `RecipeError` where the recipe does not apply, `MeshError` for an unknown axis."""

    def edits(self, plan: Plan) -> tuple[Edit, ...]:
        """The edits that shard the plan so; raises `RecipeError`, saying why, where that is impossible."""
        return self.draft_changes(plan).edits

    def edit(self, plan: Plan) -> EditGroup:
        """All edits as one entry of the history."""
        return EditGroup(str(self), self.edits(plan))

    def draft_changes(self, plan: Plan) -> RecipeDraft:
        """The draft, if it changes anything."""
        draft = self.draft_within_axes(plan)
        if not draft.edits:
            raise self.already_error()
        return draft

    def already_error(self) -> RecipeError:
        """The error where it would change nothing."""
        return RecipeError(f"The plan is already {self.title.lower()}.", ["undo to the previous plan", "choose another recipe"])

    def draft_within_axes(self, plan: Plan) -> RecipeDraft:
        """The draft, empty where the plan is sharded so already; raises `RecipeError` if more axes are given than it uses."""
        if len(self.axes) > self.most_axes:
            kept = " and ".join(f"`{axis}`" for axis in self.axes[: self.most_axes])
            raise RecipeError(
                f"{self.title} takes {('no mesh axis', 'one mesh axis', 'two mesh axes', 'three mesh axes')[self.most_axes]}; "
                f"given are {len(self.axes)}: {' and '.join(self.axes)}.",
                [f"give {kept}" if kept else "leave the axes out"],
            )
        return self.draft(plan)

    def given_axis(self, number: int) -> str | None:
        """The axis given for its first, second, ... purpose."""
        return self.axes[number] if number < len(self.axes) else None

    def __str__(self) -> str:
        return f"{self.name} on {'+'.join(self.axes)}" if self.axes else self.name


def drop_redundant_edits(plan: Plan, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that change something. Raises `WorkbenchError` if the plan would be illegal with them."""
    layout, needed = plan.layout, []
    for edit in edits:
        if not isinstance(edit, LayoutEdit):
            raise TypeError(edit)
        if not _is_stated(edit, layout):
            needed.append(edit)
            layout = edit.layout_after(layout)
    if needed:
        verify_layout(plan.program, plan.mesh, layout, padded=plan.pads_shards)
    return tuple(needed)


def _is_stated(edit: LayoutEdit, layout: Layout) -> bool:
    """Whether the layout has this statement already. Among statements of one kind the order counts, so a repeated one would change it."""
    match edit:
        case ShardDim(dim, axes):
            return layout.rule(dim) == axes
        case Override(pattern, sharding):
            return (pattern, sharding) in layout.overrides
        case Constrain(pattern, sharding):
            return (pattern, sharding) in layout.constraints
