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
    """Tokens sharded over an axis throughout."""

    name = "context_parallel"
    title = "Context parallel"
    about = "sequences sharded throughout; keys and values all-gathered for attention"
    source = "Dubey et al. 2024, section 3.3.2"

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_axis(plan, "sequence", self.title, self.given_axis(0))
        rules, edits = _place_sequences(plan, axis, self.title)
        return RecipeDraft(drop_redundant_edits(plan, (*edits, *constrain(plan, find_token_mixes(plan.program), rules))), axes=(axis,))


def _place_sequences(plan: Plan, axis: str, title: str) -> tuple[dict[str, tuple[str, ...]], list[Edit]]:
    """The rules of the token dimensions with the axis added, and the edits."""
    sequences = sequences_of(plan, title)
    verify_unused(plan, axis, sequences, title)
    rules, edits = dict[str, tuple[str, ...]](), list[Edit]()
    for dim in sequences:
        before = plan.layout.rule(dim)
        rules[dim] = before if axis in before else (*before, axis)
        verify_divides(plan, dim, rules[dim], title)
        edits += () if axis in before else place_dim(plan, dim, rules[dim])
    return rules, edits


# Ring attention: sequences are sharded throughout, and keys and values are passed around a ring (Liu et al. 2023, arXiv:2310.01889).
#
#     mesh context:n    x, q, k, v [batch, seq/n, ...]     each of n steps: attend to the local block while passing it on
#
# The program implements the ring (`models.layers.ring_attention`; a decoder with `ring=n`); the recipe shards its sequences over an axis of
# n devices. No constraints are needed: the result of attention has the blocks of its queries.
#
# **Communication**, a layer: n - 1 collective permutes of a block of keys and values forward, as many backward, and n
# of their gradients: V (3 n - 2) / n bytes leave each device, V those of keys and values of all tokens of a device's examples. It runs
# overlapped with attention to the previous block, and is hidden for long sequences (attention grows with the square of
# the block length, the payload linearly).


_SCOPE, _BLOCKS = "/pass_on/", 1  # the named scope in which a block of keys and values is passed on, and its dimension of blocks


@dataclass(frozen=True, slots=True)
class RingAttention(Recipe):
    """Tokens sharded over an axis throughout, for a program with a ring of keys and values."""

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
    """The number of sequence blocks that a program passes around a ring; 0 without a ring."""
    return max((item.shape[_BLOCKS] for item in program.operations if _SCOPE in item.path and item.path.endswith("concatenate")), default=0)
