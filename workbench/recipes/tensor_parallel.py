"""Tensor parallelism as Megatron-LM does it: a block's first product split by columns, its second by rows.

    mesh model:n       attention                               MLP
                       wqkv [d_model, heads/n, d_head]         w1 [d_model, d_ff/n]      by columns: nothing sent
                       heads/n heads of attention              d_ff/n hidden units
                       wo   [heads/n, d_head, d_model]         w2 [d_ff/n, d_model]      by rows: partial sums, all-reduced
    embedding, head    table [vocab/n, d_model]                                          partial sums; the loss over a split vocabulary

Shoeybi et al. 2019 (arXiv:1909.08053), section 3; the layout `heads:model; d_ff:model; vocab:model` of Mesh-TensorFlow's Transformer.

**Communication**, a layer: two all-reduces of [batch, seq, d_model] forward, two backward: 4 x 2 V (n-1)/n bytes leave each device, V
the bytes of that activation. A split vocabulary adds one for the lookup, one for the head's gradient and three of [batch, seq] for the
loss.
"""

from dataclasses import dataclass

from workbench.errors import RecipeError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, find_remainder, verify_divides, verify_unused
from workbench.recipes.choose_dims import hidden_dims
from workbench.recipes.naming_conventions import DimUse, is_named
from workbench.recipes.recipe import Recipe, RecipeDraft
from workbench.recipes.recipe_edits import place_dim


@dataclass(frozen=True, slots=True)
class Megatron(Recipe):
    """Heads, hidden units and words over an axis."""

    name = "megatron"
    title = "Megatron tensor parallel"
    about = "heads, hidden units and vocabulary split; two all-reduces a layer forward, two backward"
    source = "Shoeybi et al. 2019, section 3"

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_axis(plan, "model", self.title, self.given_axis(0))
        return tensor_parallel(plan, axis, self.title)


def tensor_parallel(plan: Plan, axis: str, title: str) -> RecipeDraft:
    """Heads, hidden units and words onto the axis. A vocabulary that it does not divide stays whole, with a note: Megatron-LM pads it.

    Raises `RecipeError` where the program has no such dimension, or the axis does not divide the heads or the hidden units.
    """
    dims = hidden_dims(plan.program)
    inside = [dim for dim in dims if not is_named(dim, DimUse.VOCABULARY)]
    if not inside:
        raise RecipeError(
            f"{title} splits a dimension between two products with weights (heads, hidden units), and `{plan.program.name}` has no such "
            f"dimension; it has {', '.join(f'`{dim}`' for dim in plan.program.dims) or 'none'}.",
            ["name it `heads` or `d_ff`", "place a dimension by hand"],
        )
    verify_unused(plan, axis, dims, title)
    edits: list[Edit] = []
    notes = []
    for dim in dims:
        if axis in plan.layout.rule(dim):
            continue
        axes = (*plan.layout.rule(dim), axis)
        if dim not in inside and (problem := find_remainder(plan, dim, axes)):
            size, parts = problem
            padded = -(-size // parts) * parts
            notes.append(f"`{dim}` ({size}) stays whole, for {size} % {parts} = {size % parts}; padded to {padded} it could be split")
            continue
        verify_divides(plan, dim, axes, title)
        edits += place_dim(plan, dim, axes)
    return RecipeDraft(tuple(edits), tuple(notes), (axis,))
