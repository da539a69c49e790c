"""All recipes for a plan as rows of a menu, with their edits or the reason why they do not apply."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.errors import DocumentError, RecipeError, WorkbenchError, unknown_name, wrong_type
from workbench.plan.plan import Plan
from workbench.recipes.as_written import AsWritten
from workbench.recipes.context_parallel import ContextParallel, RingAttention
from workbench.recipes.data_parallel import DataParallel
from workbench.recipes.expert_parallel import ExpertParallel
from workbench.recipes.recipe import Recipe
from workbench.recipes.sequence_parallel import SequenceParallel
from workbench.recipes.spatial import Spatial
from workbench.recipes.tensor_parallel import Megatron
from workbench.recipes.two_dimensional import TwoDimensional
from workbench.recipes.zero import Zero1, Zero2, Zero3

ALL_RECIPES: tuple[type[Recipe], ...] = (
    *(DataParallel, Megatron, SequenceParallel, Zero1, Zero2, Zero3),
    *(TwoDimensional, ExpertParallel, ContextParallel, RingAttention, Spatial, AsWritten),
)

OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("ddp", "dp", "dataparallelism"), "data_parallel"),
    **dict.fromkeys(("tp", "tensorparallel", "tensorparallelism", "megatronlm", "modelparallel"), "megatron"),
    **dict.fromkeys(("fsdp", "fsdp2", "fullysharded", "fullyshardeddataparallel", "zero", "hsdp"), "zero_3"),
    **dict.fromkeys(("zero1", "distributedoptimizer"), "zero_1"),
    **dict.fromkeys(("zero2",), "zero_2"),
    **dict.fromkeys(("zero3",), "zero_3"),
    **dict.fromkeys(("sp", "sequenceparallelism"), "sequence_parallel"),
    **dict.fromkeys(("ep", "moe", "expertparallelism"), "expert_parallel"),
    **dict.fromkeys(("cp", "contextparallelism", "ulysses"), "context_parallel"),
    **dict.fromkeys(("ring", "ringattn"), "ring_attention"),
    **dict.fromkeys(("2d", "summa"), "two_dimensional"),
}
"""Other frameworks' names of recipes, without spaces and hyphens."""


@dataclass(frozen=True, slots=True)
class RecipeRow:
    """One recipe for a plan.

    - `edits`: the text of each edit; empty if it does not apply;
    - `reason`: why it does not apply, with `ways_out`; or a note on dimensions left whole;
    - `holds`: it does not apply because the plan is sharded so already;
    - `axes`: the mesh axes it uses, given or chosen, at most `most_axes`; empty if none can be chosen.
    """

    name: str
    title: str
    about: str
    applies: bool
    edits: tuple[str, ...] = ()
    reason: str = ""
    ways_out: tuple[str, ...] = ()
    holds: bool = False
    axes: tuple[str, ...] = ()
    most_axes: int = 1


def find_recipe(name: str, axes: tuple[str, ...] = ()) -> Recipe:
    """The recipe with this name and these axes, if any. Raises `DocumentError` for an unknown name."""
    if not isinstance(name, str):
        raise RecipeError(wrong_type("name", name, "the name of a recipe"), ['write `plan.recipe("data_parallel")`'])
    if wrong := [item for item in axes if not isinstance(item, str)]:
        raise RecipeError(wrong_type("axes", wrong[0], "names of mesh axes"), ['write `plan.recipe("megatron", "model")`'])
    for item in ALL_RECIPES:
        if item.name == name.replace("-", "_").lower():
            return item(axes)
    message, ways_out = unknown_name("recipe", name, (item.name for item in ALL_RECIPES))
    if known := OTHER_NAMES.get(re.sub(r"[-_\s]", "", name.lower())):
        ways_out = (f"use `{known}`, which does that",)
    raise DocumentError(message, ways_out)


def list_recipes(plan: Plan, axes: Mapping[str, tuple[str, ...]] | None = None) -> tuple[RecipeRow, ...]:
    """A row for every recipe, in order, with the axes given for its name, if any; nothing is planned."""
    return tuple(_make_row(recipe_type((axes or {}).get(recipe_type.name, ())), plan) for recipe_type in ALL_RECIPES)


def _make_row(recipe: Recipe, plan: Plan) -> RecipeRow:
    row = RecipeRow(recipe.name, recipe.title, recipe.about, applies=False, axes=recipe.axes, most_axes=recipe.most_axes)
    try:
        draft = recipe.draft_within_axes(plan)
    except WorkbenchError as error:
        return replace(row, reason=error.message, ways_out=error.ways_out)
    row = replace(row, axes=draft.axes)
    if not draft.edits:
        already = recipe.already_error()
        return replace(row, holds=True, reason=already.message, ways_out=already.ways_out)
    return replace(row, applies=True, edits=tuple(map(str, draft.edits)), reason="; ".join(draft.notes))
