"""ZeRO's three stages (Rajbhandari et al. 2020, arXiv:1910.02054): tensors split over the axis of the examples in addition."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor
from workbench.errors import RecipeError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides
from workbench.recipes.choose_dims import batch_dim, undotted_dims
from workbench.recipes.data_parallel import batch_of
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import constrain, is_parameter, is_state, override_arguments, place_dim
from workbench.recipes.traced_dots import UNNAMED
from workbench.units import format_bytes

# The common parts of ZeRO's three stages: the axis of the examples, and tensors split over it in addition.

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

    return shard_tensors(plan, axis, is_meant, undotted_dims(plan.program), SHARD_PRIORITY)


def override_shards(plan: Plan, shardings: dict[str, Sharding]) -> Iterator[Edit]:
    return override_arguments(plan, shardings)


def constrain_gradients(plan: Plan, axis: str) -> Iterator[Edit]:
    """Constraints on the gradients of the weights, each along the dimension that its parameter would be split by; only on gradients whose
    path distinguishes them from the activations' cotangents: propagation shards the others."""
    program, batch = plan.program, batch_dim(plan.program)
    param_shardings, _ = shard_tensors(plan.updated(layout=plan.layout), axis, is_parameter, undotted_dims(program), SHARD_PRIORITY)
    along: dict[frozenset[str], str] = {}
    for tensor in program.arguments:
        sharding = param_shardings.get(tensor.path) or (plan.layout.sharding(tensor) if is_parameter(tensor) else None)
        split = [dim for dim, axes in zip(tensor.dims, sharding.dims, strict=True) if axis in (axes or ())] if sharding else []
        if split:
            along.setdefault(frozenset(tensor.dims) - undotted_dims(program), split[0])
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
            f"{title} shards the state of a training step, but `{plan.program.name}` has no parameters.", ["trace it with `trace_training`"]
        )


def verify_gradients(plan: Plan, title: str) -> None:
    """Raises `RecipeError` for a program that makes no gradients: one of inference."""
    if not any(each.path.startswith("grad/") for each in plan.program.operations):
        raise RecipeError(f"{title} shards gradients, but `{plan.program.name}` has none.", ["use ZeRO 3, which shards the weights"])


def _draft(plan: Plan, axis: str, title: str, *gradients: Edit, parameters: bool = False) -> RecipeDraft:
    """The examples and the optimiser's state over the axis, `parameters` too, and edits of gradients."""
    wanted, whole = shard_state(plan, axis, states=True, parameters=parameters)
    edits = (*place_examples(plan, axis, title), *override_shards(plan, wanted), *gradients)
    return RecipeDraft(drop_redundant_edits(plan, edits), whole_tensors_note(whole, axis, plan.mesh[axis]), (axis,))


# ZeRO, stage 1: each replica keeps and updates its share of the optimiser's state.
#
#     mesh data:n          weights [...]    gradients             moments [.../n]      new weights
#     device i of n        all              reduce-scattered      share i              all-gathered
#
# Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.1; Xu et al. 2020 (arXiv:2004.13336), "automatic cross-replica sharding of weight
# update": in GSPMD it is only this annotation (Xu et al. 2021, arXiv:2105.04663, section 3.2).
#
# Each tensor is split along its largest dimension that n divides.
#
# **Communication**, a step: V (n-1)/n bytes of gradients by reduce-scatter and as many of weights by all-gather leave
# each device: the 2 V (n-1)/n of an all-reduce. Moments take 1/n of the memory. (XLA:CPU forms no reduce-scatter: it all-reduces and
# slices.)


@dataclass(frozen=True, slots=True)
class Zero1(Recipe):
    """Optimiser state over the axis of the examples."""

    name = "zero_1"
    title = "ZeRO 1"
    about = "optimiser state sharded over the data axis: each replica updates its shard"
    source = "Rajbhandari et al. 2020, section 5.1"
    saves_memory = True

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_shard_axis(plan, self.title, self.given_axis(0))
        if not any(is_state(each) and each.shape for each in plan.program.arguments):
            raise RecipeError(
                f"{self.title} shards the optimiser's state, but `{plan.program.name}` has none.",
                ["use ZeRO 3, which shards the weights", "use an optimiser with moments, such as Adam"],
            )
        return _draft(plan, axis, self.title)


# ZeRO, stage 2: as stage 1, and the gradients are sharded from the moment they are made.
#
#     mesh data:n          weights [...]    gradients [.../n]             moments [.../n]      new weights
#     device i of n        all              share i, reduce-scattered     share i              all-gathered
#
# Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.2.
#
# Stage 1 leaves it to propagation where a gradient becomes sharded; here every gradient of a weight is constrained where it is made, in the
# loop over layers too, and whatever reads it on its way to the optimiser (a norm to clip by, a sum over micro-batches) reads shards.
#
# **Communication**, a step: as stage 1, 2 V (n-1)/n bytes leave each device. Gradients take 1/n of the memory.


@dataclass(frozen=True, slots=True)
class Zero2(Recipe):
    """Optimiser state and gradients over the axis of the examples."""

    name = "zero_2"
    title = "ZeRO 2"
    about = "gradients and optimiser state sharded over the data axis: reduce-scatter, then all-gather of the weights"
    source = "Rajbhandari et al. 2020, section 5.2"
    saves_memory = True

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_shard_axis(plan, self.title, self.given_axis(0))
        verify_trained(plan, self.title)
        verify_gradients(plan, self.title)
        return _draft(plan, axis, self.title, *constrain_gradients(plan, axis))


# ZeRO, stage 3, "fully sharded data parallel": weights are sharded too, and are gathered where they are used.
#
#     mesh data:n          weights [.../n]        gradients [.../n]         moments [.../n]
#     device i of n        share i                share i                   share i
#     forward, backward    all-gathered           reduce-scattered          -
#
# Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.3; FSDP (Zhao et al. 2023, arXiv:2304.11277); `fsdp` in MaxText.
#
# Each tensor is split along its largest dimension that n divides, a stack of scanned layers never along the layers: that would gather all
# of them for each.
#
# **Communication**, a step: an all-gather of each weight forward and one backward, a reduce-scatter of its gradient: 3
# V (n-1)/n bytes leave each device, half as many again as data parallelism. Everything that is kept takes 1/n of the memory.


@dataclass(frozen=True, slots=True)
class Zero3(Recipe):
    """Parameters, gradients and optimiser state over the axis of the examples."""

    name = "zero_3"
    title = "ZeRO 3 (fully sharded)"
    about = "weights, gradients and optimiser state sharded over the data axis; weights gathered before use"
    source = "Rajbhandari et al. 2020, section 5.3; Zhao et al. 2023"
    saves_memory = True

    def draft(self, plan: Plan) -> RecipeDraft:
        axis = choose_shard_axis(plan, self.title, self.given_axis(0))
        verify_trained(plan, self.title)
        return _draft(plan, axis, self.title, *constrain_gradients(plan, axis), parameters=True)


# The dimension along which ZeRO splits a tensor over one more axis.


def shard_tensors(
    plan: Plan, axis: str, is_meant: Callable[[Tensor], bool], avoid: frozenset[str], priority: int
) -> tuple[dict[str, Sharding], list[Tensor]]:
    """Split each of the tensors over one more axis along the largest dimension that it divides; also the tensors that it does not divide.

    A whole dimension is preferred to one that is split already; dimensions to avoid come last.
    """
    found: dict[str, Sharding] = {}
    whole = []
    for tensor in plan.program.arguments:
        if not is_meant(tensor) or not tensor.shape:
            continue
        sharding = plan.layout.sharding(tensor)
        if axis in sharding.axes:
            continue
        parts = plan.mesh[axis]
        local = sharding.local_shape(tensor.shape, plan.mesh)
        fitting = [i for i, size in enumerate(local) if size % parts == 0]
        if not fitting:
            whole.append(tensor)
            continue
        at = max(fitting, key=lambda i: (tensor.dims[i] not in avoid, not sharding.dims[i], tensor.shape[i], -i))
        priorities = tuple(priority if i == at else sharding.priority(i) for i in range(len(local)))
        found[tensor.path] = Sharding(sharding.with_dim(at, (*(sharding.dims[at] or ()), axis)).dims, priorities=priorities)
    return found, whole
