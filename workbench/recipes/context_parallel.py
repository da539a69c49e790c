"""Context parallelism: each device has its part of every sequence, throughout; its queries look at all keys and values, which are gathered,
or go around (ring attention).

    mesh context:n    x, q [batch, seq/n, ...]     k, v [batch, seq/n, ...]  -> all-gather ->  [batch, seq, ...]
                      scores [batch, heads, seq/n, seq]     mixed [batch, seq/n, heads, d_head]

Megatron-LM's context parallelism (`cp_comm_type: all_gather`), Llama 3 (Dubey et al. 2024, arXiv:2407.21783, section 3.3.2).

**Communication**, a layer: all-gathers of k and of v forward; backward both once more, and reduce-scatters of their gradients: 6 V (n-1)/n
bytes leave each device, V the bytes of k or of v for all tokens of a device's examples. The weights see other tokens on each device, so
their gradients are all-reduced over this axis too.

The result of attention is constrained to the sharding of its queries; otherwise propagation may as well split the keys, and gather queries.
"""

from dataclasses import dataclass

from workbench.core.program import Program
from workbench.errors import RecipeError
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
    about = "sequences sharded throughout; keys and values all-gathered for attention"
    source = "Dubey et al. 2024, section 3.3.2"

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_axis(plan, "sequence", self.title, self.given_axis(0))
        lies, edits = _place_sequences(plan, axis, self.title)
        return RecipeDraft(drop_redundant_edits(plan, (*edits, *constrain(plan, find_token_mixes(plan.program), lies))), axes=(axis,))


def _place_sequences(plan: Plan, axis: str, title: str) -> tuple[dict[str, tuple[str, ...]], list[Edit]]:
    """Where the sequences lie once they are on the axis, too, and the edits."""
    sequences = sequences_of(plan, title)
    verify_unused(plan, axis, sequences, title)
    lies, edits = dict[str, tuple[str, ...]](), list[Edit]()
    for each in sequences:
        before = plan.layout.rule(each)
        lies[each] = before if axis in before else (*before, axis)
        verify_divides(plan, each, lies[each], title)
        edits += () if axis in before else place_dim(plan, each, lies[each])
    return lies, edits


# Ring attention: each device has its part of every sequence, throughout, and keys and values go around (Liu et al. 2023, arXiv:2310.01889).
#
#     mesh context:n    x, q, k, v [batch, seq/n, ...]     a step of n: attend to the block that is here, pass it on meanwhile
#
# The program does that by itself (`models.layers.ring_attention`; a decoder with `ring=n`); the recipe splits its sequences over an axis of
# as many devices. Nothing is constrained: the result of attention has the blocks of its queries.
#
# **Communication**, a layer: n - 1 collective permutes of a block of keys and values forward, as many backward, and n
# of their gradients: V (3 n - 2) / n bytes leave each device, V those of keys and values of all tokens of a device's examples. It runs
# beside the attention to the block before: hidden if that takes longer, as it does with long sequences (attention grows with the square of
# a block, what is sent with the block).


_SCOPE, _BLOCKS = "/pass_on/", 1  # the named scope in which a block of keys and values is passed on, and its dimension of blocks


@dataclass(frozen=True, slots=True)
class RingAttention(Recipe):
    """Tokens over an axis, throughout, for a program whose keys and values go around."""

    name = "ring_attention"
    title = "Ring attention"
    about = "sequences sharded throughout; keys and values passed around a ring, overlapped with attention"
    source = "Liu et al. 2023"

    def draft(self, plan: Plan) -> RecipeDraft:
        blocks = count_blocks(plan.program)
        if not blocks:
            raise RecipeError(
                "Ring attention needs a program with a ring of keys and values; this program's attention reads all of them at once.",
                ['build the program with a ring, `build("decoder", ring=8)`', "gather them, recipe `context_parallel`"],
            )
        axis = choose_axis(plan, "sequence", self.title, self.given_axis(0))
        if plan.mesh[axis] != blocks:
            raise RecipeError(
                f"The ring of this program has {blocks} devices; mesh axis `{axis}` has {plan.mesh[axis]}.",
                [f"make `{axis}` {blocks}", f"build the program with `ring={plan.mesh[axis]}`"],
            )
        return RecipeDraft(drop_redundant_edits(plan, _place_sequences(plan, axis, self.title)[1]), axes=(axis,))


def count_blocks(program: Program) -> int:
    """The blocks of the sequence that a program passes around; 0 if it passes none."""
    return max((each.shape[_BLOCKS] for each in program.operations if _SCOPE in each.path and each.path.endswith("concatenate")), default=0)
