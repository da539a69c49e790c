"""As written: each argument in the sharding that the traced program itself states for it.

Read are the types of arguments and the shardings of given arrays (`jax.NamedSharding`), the `in_specs` of a `shard_map` and the
constraints that take an argument as it comes. The moments of a parameter are split as it is.

**Communication**: what the program's own statements need; nothing is sent to bring an argument into the sharding in which it is used.
"""

from dataclasses import dataclass

from workbench.errors import LayoutError, RecipeError
from workbench.plan.edits import Override
from workbench.plan.plan import Plan
from workbench.plan.written_layout import written_layout
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits


@dataclass(frozen=True, slots=True)
class AsWritten(Recipe):
    """The program's own shardings."""

    name = "as_written"
    title = "As written"
    about = "arguments as the program itself shards them"
    source = "JAX, Distributed arrays and automatic parallelization"
    most_axes = 0

    def draft(self, plan: Plan) -> RecipeDraft:
        try:
            layout = written_layout(plan.program, plan.mesh)
        except LayoutError as error:
            raise RecipeError(error.message, error.ways_out) from error
        return RecipeDraft(drop_redundant_edits(plan, (Override(pattern, sharding) for pattern, sharding in layout.overrides)))
