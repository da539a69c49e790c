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
    """A recipe's edits for one plan, notes on dimensions left whole, and the mesh axes it uses."""

    edits: tuple[Edit, ...]
    notes: tuple[str, ...] = ()
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe(ABC):
    """A known way to shard a program, as ordinary edits of a plan, which do not record their recipe.

    `axes` are the mesh axes to use, instead of choosing by name (see `naming_conventions.AXES`).

    **Invariants**

    - `name` is a unique identifier in `ALL_RECIPES`; `title` is the menu entry, `about` one line, `source` the
      reference.
    - `saves_memory`: a longer step is expected, and not a drawback.
    - `draft` is fast, changes nothing and plans nothing; its edits can be applied one after another.
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
        """The edits, with notes. Raises `RecipeError` if the recipe does not apply, `MeshError` for an unknown axis."""

    def edits(self, plan: Plan) -> tuple[Edit, ...]:
        """The edits of the recipe; raises `RecipeError` with the reason if it does not apply or changes nothing."""
        return self.draft_changes(plan).edits

    def edit(self, plan: Plan) -> EditGroup:
        return EditGroup(str(self), self.edits(plan))

    def draft_changes(self, plan: Plan) -> RecipeDraft:
        """The draft; raises `RecipeError` if it has no edits."""
        draft = self.draft_within_axes(plan)
        if not draft.edits:
            raise self.already_error()
        return draft

    def already_error(self) -> RecipeError:
        return RecipeError(f"The plan is already {self.title.lower()}.", ["undo to the previous plan", "choose another recipe"])

    def draft_within_axes(self, plan: Plan) -> RecipeDraft:
        """The draft, empty if the plan is sharded so already; raises `RecipeError` if too many axes are given."""
        if len(self.axes) > self.most_axes:
            allowed = " and ".join(f"`{axis}`" for axis in self.axes[: self.most_axes])
            raise RecipeError(
                f"{self.title} takes {('no mesh axis', 'one mesh axis', 'two mesh axes', 'three mesh axes')[self.most_axes]}; "
                f"given are {len(self.axes)}: {' and '.join(self.axes)}.",
                [f"give {allowed}" if allowed else "leave the axes out"],
            )
        return self.draft(plan)

    def given_axis(self, number: int) -> str | None:
        return self.axes[number] if number < len(self.axes) else None

    def __str__(self) -> str:
        return f"{self.name} on {'+'.join(self.axes)}" if self.axes else self.name


def drop_redundant_edits(plan: Plan, edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits that change the layout. Raises `WorkbenchError` if the plan would be illegal with them."""
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
    """Return whether the layout has this statement; as order counts, repeating one could change the layout."""
    match edit:
        case ShardDim(dim, axes):
            return layout.rule(dim) == axes
        case Override(pattern, sharding):
            return (pattern, sharding) in layout.overrides
        case Constrain(pattern, sharding):
            return (pattern, sharding) in layout.constraints
