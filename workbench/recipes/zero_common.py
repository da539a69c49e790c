"""The common parts of ZeRO's three stages: the axis of the examples, and tensors split over it in addition."""

from collections.abc import Iterable, Iterator

from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor
from workbench.errors import RecipeError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides
from workbench.recipes.choose_dims import batch_dim, stacked_dims
from workbench.recipes.data_parallel import batch_of
from workbench.recipes.recipe_edits import constrain, is_parameter, is_state, override_arguments, place_dim
from workbench.recipes.traced_dots import UNNAMED
from workbench.recipes.zero_sharded_dim import shard_tensors
from workbench.units import format_bytes

SHARD_PRIORITY = 2
"""The priority with which shards propagate: after the examples (0) and what Megatron splits (1), as Shardy's documents order them. At 0 a
weight's split dimension would compete with the examples for every activation, and win some."""


def choose_shard_axis(plan: Plan, title: str, given: str | None) -> str:
    """The axis to split over: the one given, else of the examples' own, else one by its name."""
    own = plan.layout.rule(batch_of(plan, title))
    return choose_axis(plan, "shards", title, given or (own[0] if len(own) == 1 else None))


def place_examples(plan: Plan, axis: str, title: str) -> Iterator[Edit]:
    """Shard the examples over the axis too, where they are not."""
    batch = batch_of(plan, title)
    if axis not in (before := plan.layout.rule(batch)):
        verify_divides(plan, batch, (*before, axis), title)
        yield from place_dim(plan.updated(layout=plan.layout.with_rule(batch, ())), batch, (*before, axis))


def shard_state(plan: Plan, axis: str, *, states: bool, parameters: bool) -> tuple[dict[str, Sharding], list[Tensor]]:
    """Optimiser state and parameters split over the axis, and those that nothing divides."""

    def is_meant(tensor: Tensor) -> bool:
        return (states and is_state(tensor)) or (parameters and is_parameter(tensor))

    return shard_tensors(plan, axis, is_meant, stacked_dims(plan.program), SHARD_PRIORITY)


def override_shards(plan: Plan, shardings: dict[str, Sharding]) -> Iterator[Edit]:
    return override_arguments(plan, shardings)


def constrain_gradients(plan: Plan, axis: str) -> Iterator[Edit]:
    """Constraints on the gradients of the weights, each along the dimension that its parameter would be split by; only on gradients whose
    path distinguishes them from the activations' cotangents: propagation shards the others."""
    program, batch = plan.program, batch_dim(plan.program)
    param_shardings, _ = shard_tensors(plan.updated(layout=plan.layout), axis, is_parameter, stacked_dims(program), SHARD_PRIORITY)
    along: dict[frozenset[str], str] = {}
    for tensor in program.arguments:
        sharding = param_shardings.get(tensor.path) or (plan.layout.sharding(tensor) if is_parameter(tensor) else None)
        split = [dim for dim, axes in zip(tensor.dims, sharding.dims, strict=True) if axis in (axes or ())] if sharding else []
        if split:
            along.setdefault(frozenset(tensor.dims) - stacked_dims(program), split[0])
    for at, each in enumerate(program.operations):
        named = frozenset(each.dims) - {UNNAMED}
        if each.kind in GRADIENTS and each.path.startswith("grad/") and batch not in named and named in along:
            axes_by_dim = {along[named]: (*plan.layout.rule(along[named]), axis)}
            yield from constrain(plan, (at,), axes_by_dim, {along[named]: SHARD_PRIORITY}, excluded_dims=(batch,) if batch else ())


GRADIENTS = ("dot_general", "convolution", "reduce", "scatter")
"""What makes the gradient of a weight: a dot of two activations, a sum over the examples, rows added into a table."""


def whole_tensors_note(tensors: Iterable[Tensor], axis: str, parts: int) -> tuple[str, ...]:
    """A note on the tensors no dimension of which the axis divides."""
    found = list(tensors)
    if not found:
        return ()
    size = format_bytes(sum(each.bytes for each in found))
    if len(found) == 1:
        return (f"`{found[0].path}` ({size}) stays whole: `{axis}` ({parts}) divides none of its dimensions",)
    return (f"`{found[0].path}` and {len(found) - 1} more ({size}) stay whole: `{axis}` ({parts}) divides none of their dimensions",)


def verify_trained(plan: Plan, title: str) -> None:
    """Raises `RecipeError` for a program without parameters."""
    if not any(is_parameter(each) for each in plan.program.arguments):
        raise RecipeError(
            f"{title} splits what a training step keeps, and `{plan.program.name}` has no parameters.", ["trace it with `trace_training`"]
        )


def verify_gradients(plan: Plan, title: str) -> None:
    """Raises `RecipeError` for a program that makes no gradients: one of inference."""
    if not any(each.path.startswith("grad/") for each in plan.program.operations):
        raise RecipeError(f"{title} splits gradients, and `{plan.program.name}` makes none.", ["take ZeRO 3, which splits the weights"])
