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

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.errors import RecipeError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.propagation import structure_of
from workbench.recipes.choose_axis import choose_axis, find_remainder, verify_divides, verify_unused
from workbench.recipes.choose_dims import batch_dim, hidden_dims, vocabulary_dims
from workbench.recipes.dim_roles import dim_roles
from workbench.recipes.recipe import Recipe, RecipeDraft
from workbench.recipes.recipe_edits import place_dim
from workbench.recipes.traced_dots import find_weight_dots

_NOTABLE = 0.02  # fraction of the work of weight products
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Megatron(Recipe):
    """Heads, hidden units and vocabulary sharded over an axis."""

    name = "megatron"
    title = "Megatron tensor parallel"
    about = "heads, hidden units and vocabulary sharded; two all-reduces per layer forward, two backward"
    source = "Shoeybi et al. 2019, section 3"

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_axis(plan, "model", self.title, self.given_axis(0))
        return tensor_parallel(plan, axis, self.title)


def tensor_parallel(plan: Plan, axis: str, title: str) -> RecipeDraft:
    """Shard heads, hidden units and vocabulary over the axis, with notes on dimensions and products left whole.

    These are a vocabulary that the axis does not divide (Megatron-LM pads it), merged heads that it would split, and
    products without such dimensions. Raises `RecipeError` if the program has no such dimension, or the axis does not
    divide heads or hidden units.
    """
    dims, words = hidden_dims(plan.program), vocabulary_dims(plan.program)
    inside = [dim for dim in dims if dim not in words]
    if not inside:
        raise RecipeError(
            f"{title} shards a dimension between two weight products (heads, hidden units), but `{plan.program.name}` has no such "
            f"dimension; it has {', '.join(f'`{dim}`' for dim in plan.program.dims) or 'none'}.",
            ["name it `heads` or `d_ff`", "shard a dimension manually"],
        )
    verify_unused(plan, axis, dims, title)
    edits: list[Edit] = []
    notes, split = [], [dim for dim in dims if axis in plan.layout.rule(dim)]
    for dim in dims:
        axes = (*plan.layout.rule(dim), axis)
        if dim in split:
            continue
        if note := _note_whole_heads(plan, dim, axes) or (_note_whole_words(plan, dim, axes) if dim in words else ""):
            notes.append(note)
            continue
        verify_divides(plan, dim, axes, title)
        edits += place_dim(plan, dim, axes)
        split.append(dim)
    if not split:
        raise RecipeError(f"{title} over `{axis}` has no effect: {'; '.join(notes)}.", ["make the axis smaller", "choose another axis"])
    return RecipeDraft(tuple(edits), (*notes, *_note_whole_products(plan, axis, split)), (axis,))


def _note_whole_words(plan: Plan, dim: str, axes: tuple[str, ...]) -> str:
    if problem := find_remainder(plan, dim, axes):
        size, parts = problem
        padded = -(-size // parts) * parts
        return f"`{dim}` ({size}) stays unsharded, because {size} % {parts} = {size % parts}; padding to {padded} would allow it"
    return ""


def _note_whole_heads(plan: Plan, dim: str, axes: tuple[str, ...]) -> str:
    role = dim_roles(plan.program, batch_dim(plan.program)).get(dim)
    parts = math.prod(plan.mesh[axis] for axis in axes)
    if role is None or not role.heads or role.heads % parts == 0:
        return ""
    return f"`{dim}` stays unsharded: it has {role.heads} heads, and {role.heads} % {parts} = {role.heads % parts}; heads are not sharded"


def _note_whole_products(plan: Plan, axis: str, split: Sequence[str]) -> Iterator[str]:
    """A note on the weight products that every device of the axis computes whole, if they are a notable part."""
    program, batch = plan.program, batch_dim(plan.program)
    structure, roles = structure_of(program), dim_roles(program, batch)
    work = {dot: structure.ops[dot.operation_id].work.flops for dot in find_weight_dots(program, batch)}
    work = {dot: flops * structure.regions[structure.ops[dot.operation_id].region].runs_per_step for dot, flops in work.items()}
    whole = {dot: flops for dot, flops in work.items() if {*dot.dims, *dot.shared}.isdisjoint(split)}
    share = sum(whole.values()) / (sum(work.values()) or 1)
    if share < _NOTABLE:
        return
    dims = dict.fromkeys(dim for dot in sorted(whole, key=lambda dot: -whole[dot]) for dim in dot.weight(batch) if dim in program.dims)
    reasons = {dim: roles[dim].reason if dim in roles else program.proposed.reason(dim) for dim in dims}
    described = "; ".join(f"`{dim}`: {reason}" for dim, reason in [*reasons.items()][:_MOST_NAMED] if reason)
    yield f"{share:.0%} of the weight products are replicated on every device of `{axis}`{f' ({described})' if described else ''}"
