"""ZeRO, stage 3, "fully sharded data parallel": weights are sharded too, and are gathered where they are used.

    mesh data:n          weights [.../n]        gradients [.../n]         moments [.../n]
    device i of n        share i                share i                   share i
    forward, backward    all-gathered           reduce-scattered          -

Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.3; FSDP (Zhao et al. 2023, arXiv:2304.11277); `fsdp` in MaxText.

Each tensor is split along its largest dimension that n divides, a stack of scanned layers never along the layers: that would gather all of
them for each.

**Communication**, a step: an all-gather of each weight forward and one backward, a reduce-scatter of its gradient: 3 V (n-1)/n bytes leave
each device, half as many again as data parallelism. Everything that is kept takes 1/n of the memory.
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
    verify_trained,
    whole_tensors_note,
)


@dataclass(frozen=True, slots=True)
class Zero3(Recipe):
    """Parameters, gradients and optimiser state over the axis of the examples."""

    name = "zero_3"
    title = "ZeRO 3 (fully sharded)"
    about = "weights, gradients and optimiser state split over the data axis; weights gathered where they are used"
    source = "Rajbhandari et al. 2020, section 5.3; Zhao et al. 2023"
    saves_memory = True

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_shard_axis(plan, self.title, self.given_axis(0))
        verify_trained(plan, self.title)
        wanted, whole = shard_state(plan, axis, states=True, parameters=True)
        edits = (*place_examples(plan, axis, self.title), *override_shards(plan, wanted), *constrain_gradients(plan, axis))
        return RecipeDraft(drop_redundant_edits(plan, edits), whole_tensors_note(whole, axis, plan.mesh[axis]), (axis,))
