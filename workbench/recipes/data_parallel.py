"""Data parallelism: each device has its share of the examples and all of the weights.

    mesh data:n          inputs [batch, ...]    weights, moments [...]    gradients [...]
    device 0 of n        batch/n examples       all                       summed over data
    device n-1           batch/n examples       all                       summed over data

Goyal et al. 2017 (arXiv:1706.02677), section 2; Mesh-TensorFlow (Shazeer et al. 2018, arXiv:1811.02084), section 3: `batch` on all axes.

**Communication**, a step: one all-reduce of each gradient. With V bytes of gradients, each device sends 2 V (n-1)/n on a ring. A tied
table is used twice and has two gradients, each reduced by itself.
"""

from dataclasses import dataclass

from workbench.errors import RecipeError
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides, verify_unused
from workbench.recipes.choose_dims import batch_dim
from workbench.recipes.recipe import Recipe, RecipeDraft
from workbench.recipes.recipe_edits import place_dim


@dataclass(frozen=True, slots=True)
class DataParallel(Recipe):
    """Examples sharded over an axis."""

    name = "data_parallel"
    title = "Data parallel"
    about = "examples sharded; weights replicated, gradients all-reduced"
    source = "Goyal et al. 2017, section 2"

    def draft(self, plan: Plan) -> RecipeDraft:
        batch = batch_of(plan, self.title)
        axis = choose_axis(plan, "data", self.title, self.given_axis(0))
        verify_unused(plan, axis, (batch,), self.title)
        axes = (*(name for name in plan.layout.rule(batch) if name != axis), axis)
        if axis in plan.layout.rule(batch):
            return RecipeDraft((), axes=(axis,))
        verify_divides(plan, batch, axes, self.title)
        return RecipeDraft(tuple(place_dim(plan.updated(layout=plan.layout.with_rule(batch, ())), batch, axes)), axes=(axis,))


def batch_of(plan: Plan, title: str) -> str:
    """The batch dimension. Raises `RecipeError` if there is none."""
    batch = batch_dim(plan.program)
    if batch is None:
        raise RecipeError(
            f"{title} shards the batch dimension, but no input of `{plan.program.name}` has one.",
            ["name one `batch`", "give the step a batch of inputs"],
        )
    return batch
