"""ZeRO, stage 2: as stage 1, and the gradients are sharded from the moment they are made.

    mesh data:n          weights [...]    gradients [.../n]             moments [.../n]      new weights
    device i of n        all              share i, reduce-scattered     share i              all-gathered

Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.2.

Stage 1 leaves it to propagation where a gradient becomes sharded; here every gradient of a weight is constrained where it is made, in the
loop over layers too, and whatever reads it on its way to the optimiser (a norm to clip by, a sum over micro-batches) reads shards.

**Communication**, a step: as stage 1, 2 V (n-1)/n bytes leave each device. Gradients take 1/n of the memory.
"""

from dataclasses import dataclass

from workbench.plan.plan import Plan
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.zero_common import (
    choose_shard_axis,
    constrain_gradients,
    override_shards,
    place_examples,
    shard_state,
    verify_gradients,
    verify_trained,
    whole_tensors_note,
)


@dataclass(frozen=True, slots=True)
class Zero2(Recipe):
    """Optimiser state and gradients over the axis of the examples."""

    name = "zero_2"
    title = "ZeRO 2"
    about = "gradients and optimiser state split over the data axis: reduce-scatter, then all-gather of the weights"
    source = "Rajbhandari et al. 2020, section 5.2"
    saves_memory = True

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_shard_axis(plan, self.title, self.given_axis(0))
        verify_trained(plan, self.title)
        verify_gradients(plan, self.title)
        wanted, whole = shard_state(plan, axis, states=True, parameters=False)
        edits = (*place_examples(plan, axis, self.title), *override_shards(plan, wanted), *constrain_gradients(plan, axis))
        return RecipeDraft(drop_redundant_edits(plan, edits), whole_tensors_note(whole, axis, plan.mesh[axis]), (axis,))
