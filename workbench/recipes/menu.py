"""Every recipe beside a plan: whether it applies, what it would do, or why not. A menu draws these rows as they are."""

from dataclasses import dataclass

from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.plan import Plan
from workbench.recipes.context_parallel import ContextParallel
from workbench.recipes.data_parallel import DataParallel
from workbench.recipes.expert_parallel import ExpertParallel
from workbench.recipes.megatron import Megatron
from workbench.recipes.recipe import Recipe
from workbench.recipes.sequence_parallel import SequenceParallel
from workbench.recipes.spatial import Spatial
from workbench.recipes.two_dimensional import TwoDimensional
from workbench.recipes.zero_1 import Zero1
from workbench.recipes.zero_2 import Zero2
from workbench.recipes.zero_3 import Zero3

ALL_RECIPES: tuple[type[Recipe], ...] = (
    *(DataParallel, Megatron, SequenceParallel, Zero1, Zero2, Zero3),
    *(TwoDimensional, ExpertParallel, ContextParallel, Spatial),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One recipe beside a plan.

    - `edits`: the text of each edit it would make; empty where it does not apply;
    - `reason`: why it does not apply, with `ways_out`; or what it would leave undone.
    """

    name: str
    title: str
    about: str
    applies: bool
    edits: tuple[str, ...] = ()
    reason: str = ""
    ways_out: tuple[str, ...] = ()


def find_recipe(name: str, axes: tuple[str, ...] = ()) -> Recipe:
    """The recipe of that name, over these axes if any are given. Raises `DocumentError` for a name that is not there."""
    for each in ALL_RECIPES:
        if each.name == name.replace("-", "_").lower():
            return each(axes)
    raise DocumentError(*unknown_name("recipe", name, (each.name for each in ALL_RECIPES)))


def list_recipes(plan: Plan) -> tuple[Row, ...]:
    """A row for every recipe, in order; nothing is planned."""
    return tuple(_row(each(), plan) for each in ALL_RECIPES)


def _row(recipe: Recipe, plan: Plan) -> Row:
    try:
        draft = recipe.verified(plan)
    except WorkbenchError as error:
        return Row(recipe.name, recipe.title, recipe.about, applies=False, reason=error.message, ways_out=error.ways_out)
    return Row(recipe.name, recipe.title, recipe.about, applies=True, edits=tuple(map(str, draft.edits)), reason="; ".join(draft.notes))
