"""The two-dimensional sharding of GSPMD: every weight over both axes, every activation too.

    mesh X:x Y:y      weights                     activations
                      w1 [d_model/x, d_ff/y]      x [batch/x, seq, d_model/y]
                      w2 [d_ff/y, d_model/x]      h [batch/x, seq, d_ff/y]

Xu et al. 2021 (arXiv:2105.04663), section 5.1, table 1, "2D finalized": `MH` on `[X, Y]`, `BSM` on `[X, _, Y]`, `BSH` on `[X, _, Y]`.

**Communication**, a layer: over X, each weight is gathered before use, forward and backward, and its gradient reduce-scattered (weight
update sharding); over Y, four all-gathers and four reduce-scatters of [batch/x, seq, d_model] in all, and two all-gathers more of what was
kept in pieces. Weights, moments and what a layer keeps all take 1/(x y).

Examples propagate first, then the width of the activations (priority 1), then that of the weights (2).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.core.sharding import Sharding
from workbench.errors import RecipeError
from workbench.plan.edits import Edit, apply_layout_edits
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides
from workbench.recipes.choose_dims import stacked_dims, width_dims
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import constrain, is_parameter, is_state, override_arguments
from workbench.recipes.sequence_parallel import AFTER_THE_DOTS, residual_sums
from workbench.recipes.tensor_parallel import tensor_parallel
from workbench.recipes.zero import shard_examples, with_shards


@dataclass(frozen=True, slots=True)
class TwoDimensional(Recipe):
    """Examples and weight widths over one axis; inner dimensions and activation widths over another."""

    name = "two_dimensional"
    title = "Two-dimensional (GSPMD)"
    about = "weights and activations sharded over both axes"
    source = "Xu et al. 2021, section 5.1, table 1"
    most_axes = 2

    def draft(self, plan: Plan) -> RecipeDraft:
        outer = choose_axis(plan, "data", self.title, self.given_axis(0))
        inner = choose_axis(plan, "model", self.title, self.given_axis(1))
        width = next(iter(width_dims(plan.program)), None)
        if width is None:
            raise RecipeError(f"`{plan.program.name}` has no residual width such as `d_model`.", ["choose another recipe"])
        if outer == inner:
            raise RecipeError(f"{self.title} needs two mesh axes; `{outer}` is one.", ["give two", "add an axis to the mesh"])
        for axis in (outer, inner):
            verify_divides(plan, width, (axis,), self.title)
        batch_edits = tuple(shard_examples(plan, outer, self.title))
        split = tensor_parallel(apply_layout_edits(plan, batch_edits), inner, self.title)
        rule_edits = (*batch_edits, *split.edits)
        placed_plan = apply_layout_edits(plan, rule_edits)
        weights = tuple(override_arguments(placed_plan, _shard_widths(placed_plan, width, outer, inner)))
        return RecipeDraft(
            drop_redundant_edits(plan, (*rule_edits, *weights, *_constrain_activations(placed_plan, width, inner))),
            split.notes,
            (outer, inner),
        )


def _shard_widths(plan: Plan, width: str, outer: str, inner: str) -> dict[str, Sharding]:
    """Parameters and moments with their width on the outer axis; width-only ones (scales) follow activations."""
    shardings, stacked = {}, stacked_dims(plan.program)
    for tensor in plan.program.arguments:
        if not (is_parameter(tensor) or is_state(tensor)) or width not in tensor.dims:
            continue
        axis = inner if not set(tensor.dims) - stacked - {width} else outer
        sharding, at = plan.layout.sharding(tensor), tensor.dims.index(width)
        if axis not in sharding.axes:
            shardings[tensor.path] = with_shards(sharding, at, axis)
    return shardings


def _constrain_activations(plan: Plan, width: str, axis: str) -> Iterator[Edit]:
    return constrain(plan, residual_sums(plan), {width: (axis,)}, {width: AFTER_THE_DOTS})
