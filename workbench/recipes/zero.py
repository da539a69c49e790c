"""ZeRO's three stages (Rajbhandari et al. 2020, arXiv:1910.02054): tensors additionally sharded over the data axis."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor
from workbench.errors import RecipeError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.recipes.choose_axis import choose_axis, verify_divides
from workbench.recipes.choose_dims import batch_dim, dims_without_dots, sequence_dims
from workbench.recipes.data_parallel import batch_of
from workbench.recipes.naming_conventions import AXES, strip_affixes
from workbench.recipes.recipe import Recipe, RecipeDraft, drop_redundant_edits
from workbench.recipes.recipe_edits import constrain, is_parameter, is_state, override_arguments, place_dim
from workbench.recipes.traced_dots import UNNAMED
from workbench.units import format_bytes

# Common parts of ZeRO's three stages: the data axis, and tensors additionally sharded over it.

SHARD_PRIORITY = 2
"""Propagation priority of these shards, after examples (0) and Megatron's dimensions (1), in the order of Shardy's
documentation. At 0, a weight's sharded dimension would compete with the examples for every activation, and win some.
"""


def choose_shard_axes(plan: Plan, title: str, given: Sequence[str]) -> tuple[str, ...]:
    """The axes to shard over: those given, else the examples' own axis or one by name, with those of sequences or
    experts.

    Devices along the latter hold other tokens and the same weights (Megatron Core's data-parallel group includes its
    context-parallel ranks). A second replica axis stays replicated, as in hybrid sharding.
    """
    if given:
        return tuple(choose_axis(plan, "shards", title, axis) for axis in given)
    batch, sequences = plan.layout.rule(batch_of(plan, title)), map(plan.layout.rule, sequence_dims(plan.program))
    first = choose_axis(plan, "shards", title, batch[0] if len(batch) == 1 else None)
    others = (axis for axes in (batch, *sequences) for axis in axes if strip_affixes(axis) not in AXES["data"] and plan.mesh[axis] > 1)
    return tuple(dict.fromkeys((first, *others)))


def shard_examples(plan: Plan, axis: str, title: str) -> Iterator[Edit]:
    """Shard the examples over the axis too, unless they are."""
    batch = batch_of(plan, title)
    if axis not in (before := plan.layout.rule(batch)):
        verify_divides(plan, batch, (*before, axis), title)
        yield from place_dim(plan.updated(layout=plan.layout.with_rule(batch, ())), batch, (*before, axis))


def constrain_gradients(plan: Plan, axes: Sequence[str]) -> Iterator[Edit]:
    """Constrain weight gradients along the dimensions in which their parameters would be sharded.

    Only gradients whose path distinguishes them from activations' cotangents; propagation shards the others.
    """
    program, batch = plan.program, batch_dim(plan.program)
    param_shardings, _ = shard_tensors(plan, axes, is_parameter)
    along: dict[frozenset[str], dict[str, tuple[str, ...]]] = {}
    for tensor in program.arguments:
        sharding = param_shardings.get(tensor.path) or (plan.layout.sharding(tensor) if is_parameter(tensor) else None)
        split = {dim: used for dim, used in zip(tensor.dims, sharding.dims, strict=True) if {*axes} & {*(used or ())}} if sharding else {}
        if split:
            added = {dim: tuple(axis for axis in used or () if axis in axes) for dim, used in split.items()}
            along.setdefault(frozenset(tensor.dims) - dims_without_dots(program), added)
    for number, operation in enumerate(program.operations):
        dims = frozenset(operation.dims) - {UNNAMED}
        if operation.kind in GRADIENTS and operation.path.startswith("grad/") and batch not in dims and dims in along:
            axes_by_dim = {dim: (*plan.layout.rule(dim), *added) for dim, added in along[dims].items()}
            priorities = dict.fromkeys(axes_by_dim, SHARD_PRIORITY)
            yield from constrain(plan, (number,), axes_by_dim, priorities, excluded_dims=(batch,) if batch else ())


GRADIENTS = ("dot_general", "convolution", "reduce", "scatter")
"""Operations that make weight gradients: a dot of two activations, a sum over the examples, rows added into a table."""


def unsharded_tensors_note(tensors: Iterable[Tensor], axes: Sequence[str], parts: int) -> tuple[str, ...]:
    """A note on the tensors with no dimension that the axes divide."""
    whole = list(tensors)
    if not whole:
        return ()
    size, axis = format_bytes(sum(tensor.bytes for tensor in whole)), "+".join(axes)
    if len(whole) == 1:
        return (f"`{whole[0].path}` ({size}) stays whole: `{axis}` ({parts}) divides none of its dimensions",)
    return (f"`{whole[0].path}` and {len(whole) - 1} more ({size}) stay whole: `{axis}` ({parts}) divides none of their dimensions",)


def verify_has_parameters(plan: Plan, title: str) -> None:
    """Raise `RecipeError` for a program without parameters."""
    if not any(is_parameter(tensor) for tensor in plan.program.arguments):
        raise RecipeError(
            f"{title} shards the state of a training step, but `{plan.program.name}` has no parameters.", ["trace it with `trace_training`"]
        )


def verify_has_gradients(plan: Plan, title: str) -> None:
    """Raise `RecipeError` for a program without gradients, such as inference."""
    if not any(operation.path.startswith("grad/") for operation in plan.program.operations):
        raise RecipeError(f"{title} shards gradients, but `{plan.program.name}` has none.", ["use ZeRO 3, which shards the weights"])


def _draft(plan: Plan, axes: Sequence[str], title: str, *gradients: Edit, parameters: bool = False) -> RecipeDraft:
    """The draft that shards examples, optimizer state and, with `parameters`, parameters over the axes."""

    def is_meant(tensor: Tensor) -> bool:
        return is_state(tensor) or (parameters and is_parameter(tensor))

    shardings, whole = shard_tensors(plan, axes, is_meant)
    edits = (*shard_examples(plan, axes[0], title), *override_arguments(plan, shardings), *gradients)
    parts = prod(plan.mesh[axis] for axis in axes)
    return RecipeDraft(drop_redundant_edits(plan, edits), unsharded_tensors_note(whole, axes, parts), tuple(axes))


# ZeRO, stage 1: each replica holds and updates its shard of the optimizer state.
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
    """Optimizer state sharded over the data axis."""

    name = "zero_1"
    title = "ZeRO 1"
    about = "optimizer state sharded over the data axis: each replica updates its shard"
    source = "Rajbhandari et al. 2020, section 5.1"
    saves_memory = True
    most_axes = 3

    def draft(self, plan: Plan) -> RecipeDraft:
        axes = choose_shard_axes(plan, self.title, self.axes)
        if not any(is_state(tensor) and tensor.shape for tensor in plan.program.arguments):
            raise RecipeError(
                f"{self.title} shards the optimizer's state, but `{plan.program.name}` has none.",
                ["use ZeRO 3, which shards the weights", "use an optimizer with moments, such as Adam"],
            )
        return _draft(plan, axes, self.title)


# ZeRO, stage 2: as stage 1, and gradients are sharded where they are made.
#
#     mesh data:n          weights [...]    gradients [.../n]             moments [.../n]      new weights
#     device i of n        all              share i, reduce-scattered     share i              all-gathered
#
# Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.2.
#
# Stage 1 leaves to propagation where a gradient becomes sharded; here every weight gradient is constrained where it is made, also in the
# loop over layers, and its readers before the optimizer (a norm for clipping, a sum over micro-batches) read shards.
#
# **Communication**, a step: as stage 1, 2 V (n-1)/n bytes leave each device. Gradients take 1/n of the memory.


@dataclass(frozen=True, slots=True)
class Zero2(Recipe):
    """Optimizer state and gradients sharded over the data axis."""

    name = "zero_2"
    title = "ZeRO 2"
    about = "gradients and optimizer state sharded over the data axis: reduce-scatter, then all-gather of the weights"
    source = "Rajbhandari et al. 2020, section 5.2"
    saves_memory = True
    most_axes = 3

    def draft(self, plan: Plan) -> RecipeDraft:
        axes = choose_shard_axes(plan, self.title, self.axes)
        verify_has_parameters(plan, self.title)
        verify_has_gradients(plan, self.title)
        return _draft(plan, axes, self.title, *constrain_gradients(plan, axes))


# ZeRO, stage 3, "fully sharded data parallel": weights are sharded too, and gathered where they are used.
#
#     mesh data:n          weights [.../n]        gradients [.../n]         moments [.../n]
#     device i of n        share i                share i                   share i
#     forward, backward    all-gathered           reduce-scattered          -
#
# Rajbhandari et al. 2020 (arXiv:1910.02054), section 5.3; FSDP (Zhao et al. 2023, arXiv:2304.11277); `fsdp` in MaxText.
#
# Each tensor is sharded along its largest dimension that n divides, but never along stacked scanned layers: that would gather all
# of them for each.
#
# **Communication**, a step: an all-gather of each weight forward and one backward, a reduce-scatter of its gradient: 3
# V (n-1)/n bytes leave each device, 1.5 times those of data parallelism. All persistent tensors take 1/n of the memory.


@dataclass(frozen=True, slots=True)
class Zero3(Recipe):
    """Parameters, gradients and optimizer state sharded over the data axis."""

    name = "zero_3"
    title = "ZeRO 3 (fully sharded)"
    about = "weights, gradients and optimizer state sharded over the data axis; weights gathered before use"
    source = "Rajbhandari et al. 2020, section 5.3; Zhao et al. 2023"
    saves_memory = True
    most_axes = 3

    def draft(self, plan: Plan) -> RecipeDraft:
        axes = choose_shard_axes(plan, self.title, self.axes)
        verify_has_parameters(plan, self.title)
        return _draft(plan, axes, self.title, *constrain_gradients(plan, axes), parameters=True)


# The dimensions along which ZeRO shards a tensor over more axes.


def shard_tensors(plan: Plan, axes: Sequence[str], is_meant: Callable[[Tensor], bool]) -> tuple[dict[str, Sharding], list[Tensor]]:
    """Shard selected tensors over the axes they do not use yet; also returns those that cannot be sharded."""
    shardings: dict[str, Sharding] = {}
    whole = []
    for tensor in plan.program.arguments:
        before = after = plan.layout.sharding(tensor)
        if not is_meant(tensor) or not tensor.shape or {*axes} <= {*before.axes}:
            continue
        missing = [axis for axis in axes if axis not in before.axes]
        for together in (missing, *([axis] for axis in missing)):
            after = _split(plan, tensor, after, together)
        if after == before:
            whole.append(tensor)
        else:
            shardings[tensor.path] = after
    return shardings, whole


def _split(plan: Plan, tensor: Tensor, sharding: Sharding, axes: Sequence[str]) -> Sharding:
    """The sharding with more axes on the largest divisible dimension, unsharded first, stacked layers last: on one, gradients are summed
    by one collective.
    """
    parts, avoid = prod(plan.mesh[axis] for axis in axes), dims_without_dots(plan.program)
    local = sharding.local_shape(tensor.shape, plan.mesh)
    fitting = [i for i, size in enumerate(local) if size % parts == 0]
    if not fitting and plan.pads_shards and len(axes) == 1:
        fitting = [i for i, size in enumerate(local) if size >= parts]
    if {*axes} & {*sharding.axes} or not fitting:
        return sharding
    at = max(fitting, key=lambda i: (tensor.dims[i] not in avoid, not sharding.dims[i], tensor.shape[i], -i))
    return with_shards(sharding, at, *axes)


def with_shards(sharding: Sharding, at: int, *axes: str) -> Sharding:
    """The sharding with more axes on a dimension, at the priority of shards."""
    priorities = tuple(SHARD_PRIORITY if i == at else sharding.priority(i) for i in range(len(sharding.dims)))
    return Sharding(sharding.with_dim(at, (*(sharding.dims[at] or ()), *axes)).dims, priorities=priorities)
