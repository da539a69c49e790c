"""ZeRO's three stages (Rajbhandari et al. 2020, arXiv:1910.02054): tensors split over the axis of the examples in addition."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor
from workbench.errors import RecipeError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides
from workbench.recipes.choose_dims import batch_dim, sequence_dims, undotted_dims
from workbench.recipes.data_parallel import batch_of
from workbench.recipes.naming_conventions import AXES, strip_affixes
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import constrain, is_parameter, is_state, override_arguments, place_dim
from workbench.recipes.traced_dots import UNNAMED
from workbench.units import format_bytes

# The common parts of ZeRO's three stages: the axis of the examples, and tensors split over it in addition.

SHARD_PRIORITY = 2
"""The priority with which shards propagate: after the examples (0) and what Megatron splits (1), as Shardy's documents order them. At 0 a
weight's split dimension would compete with the examples for every activation, and win some."""


def choose_shard_axes(plan: Plan, title: str, given: Sequence[str]) -> tuple[str, ...]:
    """The axes to split over: those given; else the examples' own, or one by its name, and with it each along which devices hold other
    tokens and the same weights: of the sequences, or of experts (Megatron Core's data-parallel group has its context-parallel ranks). A
    second axis of replicas stays one, as in hybrid sharding."""
    if given:
        return tuple(choose_axis(plan, "shards", title, axis) for axis in given)
    batch, sequences = plan.layout.rule(batch_of(plan, title)), map(plan.layout.rule, sequence_dims(plan.program))
    first = choose_axis(plan, "shards", title, batch[0] if len(batch) == 1 else None)
    others = (axis for axes in (batch, *sequences) for axis in axes if strip_affixes(axis) not in AXES["data"] and plan.mesh[axis] > 1)
    return tuple(dict.fromkeys((first, *others)))


def place_examples(plan: Plan, axis: str, title: str) -> Iterator[Edit]:
    """Shard the examples over the axis too, where they are not."""
    batch = batch_of(plan, title)
    if axis not in (before := plan.layout.rule(batch)):
        verify_divides(plan, batch, (*before, axis), title)
        yield from place_dim(plan.updated(layout=plan.layout.with_rule(batch, ())), batch, (*before, axis))


def constrain_gradients(plan: Plan, axes: Sequence[str]) -> Iterator[Edit]:
    """Constraints on the gradients of the weights, each along the dimensions that its parameter would be split by; only on gradients whose
    path distinguishes them from the activations' cotangents: propagation shards the others."""
    program, batch = plan.program, batch_dim(plan.program)
    param_shardings, _ = shard_tensors(plan, axes, is_parameter)
    along: dict[frozenset[str], dict[str, tuple[str, ...]]] = {}
    for tensor in program.arguments:
        sharding = param_shardings.get(tensor.path) or (plan.layout.sharding(tensor) if is_parameter(tensor) else None)
        split = {dim: own for dim, own in zip(tensor.dims, sharding.dims, strict=True) if {*axes} & {*(own or ())}} if sharding else {}
        if split:
            added = {dim: tuple(axis for axis in own or () if axis in axes) for dim, own in split.items()}
            along.setdefault(frozenset(tensor.dims) - undotted_dims(program), added)
    for at, each in enumerate(program.operations):
        named = frozenset(each.dims) - {UNNAMED}
        if each.kind in GRADIENTS and each.path.startswith("grad/") and batch not in named and named in along:
            axes_by_dim = {dim: (*plan.layout.rule(dim), *added) for dim, added in along[named].items()}
            priorities = dict.fromkeys(axes_by_dim, SHARD_PRIORITY)
            yield from constrain(plan, (at,), axes_by_dim, priorities, excluded_dims=(batch,) if batch else ())


GRADIENTS = ("dot_general", "convolution", "reduce", "scatter")
"""What makes the gradient of a weight: a dot of two activations, a sum over the examples, rows added into a table."""


def whole_tensors_note(tensors: Iterable[Tensor], axes: Sequence[str], parts: int) -> tuple[str, ...]:
    """A note on the tensors no dimension of which the axis divides."""
    found = list(tensors)
    if not found:
        return ()
    size, axis = format_bytes(sum(each.bytes for each in found)), "+".join(axes)
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


def _draft(plan: Plan, axes: Sequence[str], title: str, *gradients: Edit, parameters: bool = False) -> RecipeDraft:
    """The examples and the optimiser's state over the axes, `parameters` too, and edits of gradients."""

    def is_meant(tensor: Tensor) -> bool:
        return is_state(tensor) or (parameters and is_parameter(tensor))

    wanted, whole = shard_tensors(plan, axes, is_meant)
    edits = (*place_examples(plan, axes[0], title), *override_arguments(plan, wanted), *gradients)
    parts = prod(plan.mesh[axis] for axis in axes)
    return RecipeDraft(drop_redundant_edits(plan, edits), whole_tensors_note(whole, axes, parts), tuple(axes))


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
    most_axes = 3

    def draft(self, plan: Plan) -> RecipeDraft:
        axes = choose_shard_axes(plan, self.title, self.axes)
        if not any(is_state(each) and each.shape for each in plan.program.arguments):
            raise RecipeError(
                f"{self.title} shards the optimiser's state, but `{plan.program.name}` has none.",
                ["use ZeRO 3, which shards the weights", "use an optimiser with moments, such as Adam"],
            )
        return _draft(plan, axes, self.title)


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
    most_axes = 3

    def draft(self, plan: Plan) -> RecipeDraft:
        axes = choose_shard_axes(plan, self.title, self.axes)
        verify_trained(plan, self.title)
        verify_gradients(plan, self.title)
        return _draft(plan, axes, self.title, *constrain_gradients(plan, axes))


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
    most_axes = 3

    def draft(self, plan: Plan) -> RecipeDraft:
        axes = choose_shard_axes(plan, self.title, self.axes)
        verify_trained(plan, self.title)
        return _draft(plan, axes, self.title, *constrain_gradients(plan, axes), parameters=True)


# The dimensions along which ZeRO splits a tensor over more axes.


def shard_tensors(plan: Plan, axes: Sequence[str], is_meant: Callable[[Tensor], bool]) -> tuple[dict[str, Sharding], list[Tensor]]:
    """Split each of the tensors over those of the axes that it does not use yet; also the tensors of which nothing can be split."""
    found: dict[str, Sharding] = {}
    whole = []
    for tensor in plan.program.arguments:
        before = after = plan.layout.sharding(tensor)
        if not is_meant(tensor) or not tensor.shape or {*axes} <= {*before.axes}:
            continue
        for axis in axes:
            after = _split(plan, tensor, after, axis)
        if after == before:
            whole.append(tensor)
        else:
            found[tensor.path] = after
    return found, whole


def _split(plan: Plan, tensor: Tensor, sharding: Sharding, axis: str) -> Sharding:
    """The tensor split over one more axis along the largest dimension that it divides; under a runtime that pads shards, where it divides
    none, along the largest. A whole dimension is preferred to one that is split already; stacked layers come last."""
    parts, avoid = plan.mesh[axis], undotted_dims(plan.program)
    local = sharding.local_shape(tensor.shape, plan.mesh)
    fitting = [i for i, size in enumerate(local) if size % parts == 0]
    if not fitting and plan.pads_shards:
        fitting = [i for i, size in enumerate(local) if size >= parts]
    if axis in sharding.axes or not fitting:
        return sharding
    at = max(fitting, key=lambda i: (tensor.dims[i] not in avoid, not sharding.dims[i], tensor.shape[i], -i))
    return with_shards(sharding, at, axis)


def with_shards(sharding: Sharding, at: int, axis: str) -> Sharding:
    """The dimension at a place split over one more axis, which propagates as shards do."""
    priorities = tuple(SHARD_PRIORITY if i == at else sharding.priority(i) for i in range(len(sharding.dims)))
    return Sharding(sharding.with_dim(at, (*(sharding.dims[at] or ()), axis)).dims, priorities=priorities)
