"""Context parallelism: each device has its part of every sequence, throughout; its queries look at all keys and values.

    mesh context:n    x, q [batch, seq/n, ...]     k, v [batch, seq/n, ...]  -> all-gather ->  [batch, seq, ...]
                      scores [batch, heads, seq/n, seq]     mixed [batch, seq/n, heads, d_head]

Megatron-LM's context parallelism (`cp_comm_type: all_gather`), Llama 3 (Dubey et al. 2024, arXiv:2407.21783, section 3.3.2).

**Communication**, a layer: all-gathers of k and of v forward; backward both once more, and reduce-scatters of their gradients: 6 V (n-1)/n
bytes leave each device, V the bytes of k or of v for all tokens of a device's examples. The weights see other tokens on each device, so
their gradients are all-reduced over this axis too.

The result of attention is constrained to the sharding of its queries; otherwise propagation may as well split the keys, and gather queries.
"""

from dataclasses import dataclass

from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides, verify_unused
from workbench.recipes.choose_dims import find_token_mixes
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import constrain, place_dim
from workbench.recipes.sequence_parallel import sequences_of


@dataclass(frozen=True, slots=True)
class ContextParallel(Recipe):
    """Tokens over an axis, throughout."""

    name = "context_parallel"
    title = "Context parallel"
    about = "sequences split throughout; keys and values all-gathered for attention"
    source = "Dubey et al. 2024, section 3.3.2"

    def draft(self, plan: Plan) -> RecipeDraft:
        sequences = sequences_of(plan, self.title)
        axis = choose_axis(plan, "sequence", self.title, self.given_axis(0))
        verify_unused(plan, axis, sequences, self.title)
        lies, edits = dict[str, tuple[str, ...]](), list[Edit]()
        for each in sequences:
            before = plan.layout.rule(each)
            lies[each] = before if axis in before else (*before, axis)
            verify_divides(plan, each, lies[each], self.title)
            edits += () if axis in before else place_dim(plan, each, lies[each])
        return RecipeDraft(drop_redundant_edits(plan, (*edits, *constrain(plan, find_token_mixes(plan.program), lies))), axes=(axis,))
