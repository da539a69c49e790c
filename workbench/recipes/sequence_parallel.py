"""Sequence parallelism: between the products of tensor parallelism, the tokens are split over the same axis.

    mesh model:n      x [batch, seq/n, d_model]   norm, dropout, residual: each device its tokens
                      -> all-gather over seq
                      h [batch, seq, d_ff/n]      the products, split as Megatron's
                      -> reduce-scatter over seq
                      x [batch, seq/n, d_model]

Korthikanti et al. 2022 (arXiv:2205.05198), section 4.2.2.

**Communication**, a layer: each of Megatron's four all-reduces becomes a reduce-scatter and an all-gather of the same activation, V (n-1)/n
bytes each: as many as before. Two all-gathers more fetch again in the backward pass what was kept in pieces (the paper overlaps them).
What a layer keeps between its products is 1/n.

The tokens propagate after heads and hidden units (priority 1), which alone decide the products.
"""

from dataclasses import dataclass

from workbench.errors import RecipeError
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides
from workbench.recipes.choose_dims import batch_dim, hidden_dims, sequence_dims, vocabulary_dims, width_dims
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import constrain
from workbench.recipes.tensor_parallel import tensor_parallel
from workbench.recipes.traced_dots import find_weight_dots, float_operations

AFTER_THE_DOTS = 1


@dataclass(frozen=True, slots=True)
class SequenceParallel(Recipe):
    """Tokens sharded over the axis of the heads, everywhere outside of the dots."""

    name = "sequence_parallel"
    title = "Sequence parallel"
    about = "Megatron with tokens sharded between the products: reduce-scatters and all-gathers replace all-reduces"
    source = "Korthikanti et al. 2022, section 4.2.2"

    def draft(self, plan: Plan) -> RecipeDraft:
        sequences = sequences_of(plan, self.title)
        axis = choose_axis(plan, "model", self.title, self.given_axis(0))
        split = tensor_parallel(plan, axis, self.title)
        axes_by_dim = {}
        for dim in sequences:
            axes_by_dim[dim] = tuple(dict.fromkeys((*plan.layout.rule(dim), axis)))
            verify_divides(plan, dim, axes_by_dim[dim], self.title)
        stream, priorities = (*residual_sums(plan), *lookups(plan)), dict.fromkeys(sequences, AFTER_THE_DOTS)
        constraints = constrain(plan, stream, axes_by_dim, priorities, hidden_dims(plan.program))
        return RecipeDraft(drop_redundant_edits(plan, (*split.edits, *constraints)), split.notes, (axis,))


def sequences_of(plan: Plan, title: str) -> tuple[str, ...]:
    """The token dimensions. Raises `RecipeError` if there are none."""
    sequences = sequence_dims(plan.program)
    if not sequences:
        raise RecipeError(
            f"{title} shards the sequence dimension, but no input of `{plan.program.name}` has one.",
            ["name one `seq`", "choose another recipe"],
        )
    return sequences


def lookups(plan: Plan) -> tuple[int, ...]:
    """The ids of the forward embedding lookups, by index or as a product, that begin the residual stream."""
    program, widths, words = plan.program, set(width_dims(plan.program)), set(vocabulary_dims(plan.program))
    dots = [item for item in find_weight_dots(program, batch_dim(program)) if words & set(item.shared) and widths & set(item.dims)]
    products = {item.operation_id for item in dots if item.is_forward}
    tokens = {*sequence_dims(program)}
    return tuple(
        i
        for i, item in enumerate(program.operations)
        if i in products
        or (item.kind == "gather" and widths & {*item.dims} and tokens & {*item.dims} and not item.path.startswith(("grad/", "optimizer/")))
    )


def residual_sums(plan: Plan) -> tuple[int, ...]:
    """The ids of the forward additions to the residual stream. Raises `RecipeError` if there are none."""
    program, hidden, widths = plan.program, set(hidden_dims(plan.program)), set(width_dims(plan.program))
    made = [item for item in find_weight_dots(program, batch_dim(program)) if hidden & set(item.shared) and not item.is_convolution]
    stream = {item.dims for item in made if widths & set(item.dims)}
    computed = float_operations(program)
    sums = tuple(
        i
        for i, item in enumerate(program.operations)
        if item.kind == "add" and item.dims in stream and i in computed and not item.path.startswith(("grad/", "optimizer/"))
    )
    if not sums:
        raise RecipeError(
            f"`{program.name}` has no residual stream between its blocks.", ["choose another recipe", "add constraints manually"]
        )
    return sums
