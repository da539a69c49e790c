"""Expert parallelism: each device has some of the experts; tokens go to the devices of theirs and come back.

    mesh expert:n    sent      [batch/n, experts, capacity, d_model]     each device: of its examples, to all experts
                     -> all-to-all
                     received  [batch, experts/n, capacity, d_model]     each device: of all examples, to its experts
                     w1 [experts/n, d_model, d_expert]  w2 [experts/n, d_expert, d_model]
                     -> all-to-all
                     returned  [batch/n, experts, capacity, d_model]

GShard (Lepikhin et al. 2020, arXiv:2006.16668), section 3.2; Mesh-TensorFlow's `moe.py`: `experts` and `batch` on one mesh axis.

**Communication**, a layer: two all-to-alls forward and two backward, each V (n-1)/n bytes out of each device, V the bytes of its part of
`sent`; and what is small beside them (a token's weight, where it is sent along). Experts' gradients are not reduced over this axis.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.core.program import Program
from workbench.errors import RecipeError
from workbench.plan.edits import Edit, apply_layout_edits
from workbench.plan.plan import Plan
from workbench.propagation import structure_of
from workbench.recipes.choose_axis import choose_axis, verify_divides, verify_unused
from workbench.recipes.choose_dims import batch_dim, expert_dims
from workbench.recipes.data_parallel import batch_of
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import constrain, place_dim
from workbench.recipes.traced_dots import TracedDot, find_weight_dots
from workbench.recipes.zero import shard_examples

DATA_MOVEMENT = ("transpose", "reshape", "convert", "reduce_precision", "broadcast_in_dim", "sharding_constraint")
"""Operations that leave a token's values unchanged."""


@dataclass(frozen=True, slots=True)
class ExpertParallel(Recipe):
    """Experts sharded over an axis, and examples outside the experts."""

    name = "expert_parallel"
    title = "Expert parallel"
    about = "experts sharded; an all-to-all to the experts and one back"
    source = "Lepikhin et al. 2020, section 3.2"

    def draft(self, plan: Plan) -> RecipeDraft:
        experts = expert_dims(plan.program)
        if not experts:
            raise RecipeError(
                f"{self.title} shards the expert dimension, but no weight of `{plan.program.name}` has one; its dimensions are "
                f"{', '.join(f'`{dim}`' for dim in plan.program.dims) or 'none'}.",
                ["choose another recipe", "plan a mixture of experts, --model mixture"],
            )
        axis = choose_axis(plan, "experts", self.title, self.given_axis(0))
        batch = batch_of(plan, self.title)
        verify_unused(plan, axis, (batch, *experts), self.title)
        batch_edits = list(shard_examples(plan, axis, self.title))
        for dim in experts:
            if axis not in plan.layout.rule(dim):
                verify_divides(plan, dim, (*plan.layout.rule(dim), axis), self.title)
                batch_edits += place_dim(apply_layout_edits(plan, batch_edits), dim, (*plan.layout.rule(dim), axis))
        tokens = _constrain_tokens(apply_layout_edits(plan, batch_edits), batch, experts)
        return RecipeDraft(drop_redundant_edits(plan, (*batch_edits, *tokens)), axes=(axis,))


def _constrain_tokens(plan: Plan, batch: str, experts: tuple[str, ...]) -> Iterator[Edit]:
    """Constrain the tokens: sharded by example where they are sent and returned, by expert in between."""
    outside = {batch: plan.layout.rule(batch), **dict.fromkeys(experts, ())}
    inside = {dim: plan.layout.rule(dim) for dim in experts}
    expert_axes = {axis for axes in inside.values() for axis in axes}
    inside[batch] = tuple(axis for axis in plan.layout.rule(batch) if axis not in expert_axes)
    dots = [dot for dot in find_weight_dots(plan.program, batch) if set(experts) & set(dot.weight(batch))]
    to, back = _producer_chain(plan.program, dots[0]), _consumer_chain(plan.program, dots[-1], batch)
    marked = [[at for at in chain if _is_mirrored(plan.program, at)] for chain in (to, back)]
    to, back = (mirrored if len(mirrored) > 1 else chain for mirrored, chain in zip(marked, (to, back), strict=True))
    between = [_producer_chain(plan.program, dot)[-1] for dot in dots[1:]]
    yield from constrain(plan, to[:1], outside)
    yield from constrain(plan, [*to[1:2], *between, *back[:1]], inside)
    yield from constrain(plan, back[1:][-1:], outside)


def _is_mirrored(program: Program, at: int) -> bool:
    """Return whether the backward pass has a cotangent of the same path and dimensions."""
    path, dims = program.operations[at].path, program.operations[at].dims
    is_transpose = program.operations[at].kind == "transpose"  # its cotangent has the dimensions in another order
    return not is_transpose and any(operation.path == f"grad/{path}" and operation.dims == dims for operation in program.operations[at:])


def _producer_chain(program: Program, dot: TracedDot) -> list[int]:
    """The operations that pass a dot its tokens unchanged, starting with their producer."""
    structure, tokens = structure_of(program), dot.activation(batch_dim(program))
    side = 0 if dot.left == tokens else 1
    value, chain = structure.ops[dot.operation_id].operands[side], list[int]()
    while (made_by := structure.values[value].maker) >= 0:
        chain.append(made_by)
        if program.operations[made_by].kind not in DATA_MOVEMENT:
            break
        value = structure.ops[made_by].operands[0]
    return chain[::-1]


def _consumer_chain(program: Program, dot: TracedDot, batch: str) -> list[int]:
    """The dot and the operations that pass its result on unchanged, or multiply it by the scale of a quantized weight, which is where the
    experts are."""
    structure = structure_of(program)
    chain, value = [dot.operation_id], structure.ops[dot.operation_id].results[0]
    while True:
        readers = [i for i in range(chain[-1] + 1, len(structure.ops)) if value in structure.ops[i].operands]
        moving = [i for i in readers if program.operations[i].kind in DATA_MOVEMENT or _is_rescaled(program, i, value, batch)]
        if not moving:
            return chain
        chain.append(moving[0])
        value = structure.ops[moving[0]].results[0]


def _is_rescaled(program: Program, at: int, value: int, batch: str) -> bool:
    """Whether an operation multiplies a value by another that is equal for all examples."""
    structure = structure_of(program)
    others = [operand for operand in structure.ops[at].operands if operand != value]
    if program.operations[at].kind != "multiply" or len(others) != 1:
        return False
    made_by, is_broadcast = structure.values[others[0]].maker, False
    while made_by >= 0 and program.operations[made_by].kind in DATA_MOVEMENT:
        is_broadcast = is_broadcast or program.operations[made_by].kind == "broadcast_in_dim"
        made_by = structure.values[structure.ops[made_by].operands[0]].maker
    return is_broadcast and (made_by < 0 or batch not in program.operations[made_by].dims)
