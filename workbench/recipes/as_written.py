"""As written: each argument with the sharding that the traced program itself states for it.

Sources are the types of arguments, the shardings of given arrays (`jax.NamedSharding`), the `in_specs` of a
`shard_map`, and constraints on unmodified arguments. The moments of a parameter are sharded like it.

Communication: only that of the program's own statements; arguments already have the sharding in which they are used.
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
