"""ZeRO, stage 1: each replica keeps and updates its share of the optimiser's state.

    mesh data:n          weights [...]    gradients             moments [.../n]      new weights
    device i of n        all              reduce-scattered      share i              all-gathered

Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.1; Xu et al. 2020 (arXiv:2004.13336), "automatic cross-replica sharding of weight
update": in GSPMD it is only this annotation (Xu et al. 2021, arXiv:2105.04663, section 3.2).

Each tensor is split along its largest dimension that n divides.

**Communication**, a step: V (n-1)/n bytes of gradients by reduce-scatter and as many of weights by all-gather leave each device: the
2 V (n-1)/n of an all-reduce. Moments take 1/n of the memory. (XLA:CPU forms no reduce-scatter: it all-reduces and slices.)
"""

from dataclasses import dataclass

from workbench.errors import RecipeError
from workbench.plan.plan import Plan
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import is_state
from workbench.recipes.zero_common import choose_shard_axis, override_shards, place_examples, shard_state, whole_tensors_note


@dataclass(frozen=True, slots=True)
class Zero1(Recipe):
    """Optimiser state over the axis of the examples."""

    name = "zero_1"
    title = "ZeRO 1"
    about = "optimiser state split over the data axis: each replica updates its share"
    source = "Rajbhandari et al. 2020, section 5.1"
    saves_memory = True

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_shard_axis(plan, self.title, self.given_axis(0))
        if not any(is_state(each) and each.shape for each in plan.program.arguments):
            raise RecipeError(
                f"{self.title} splits the optimiser's state, and `{plan.program.name}` keeps none.",
                ["take ZeRO 3, which splits the weights", "train with an optimiser that keeps moments, Adam say"],
            )
        wanted, whole = shard_state(plan, axis, states=True, parameters=False)
        edits = (*place_examples(plan, axis, self.title), *override_shards(plan, wanted))
        return RecipeDraft(drop_redundant_edits(plan, edits), whole_tensors_note(whole, axis, plan.mesh[axis]), (axis,))
