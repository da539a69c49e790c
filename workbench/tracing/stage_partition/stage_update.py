"""The end of a step by stage: each stage's gradients go through the optimizer into its own parameters.

An elementwise optimizer (SGD, Adam, AdamW, weight decay, schedules, one optimizer per group of parameters) runs on a
part of the parameters, with the other leaves removed from the tree. One that also sums over all of them (clipping by
norm) runs in two parts, with the stages' sums added in between. Others are refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.extend import core as jax_core

from workbench.core.path_patterns import find_parameter
from workbench.core.program import Program, Training
from workbench.core.tensor import Role
from workbench.errors import PipelineError
from workbench.tracing.grad_accumulation.micro_batch_marks import mean_gradient
from workbench.tracing.jaxpr.equations import closed_jaxpr, inline, select_needed
from workbench.tracing.leaves import named_leaves
from workbench.tracing.model_state import cast
from workbench.tracing.stage_partition.optimizer_global_sums import SharedSums
from workbench.tracing.stage_partition.partition_network import StagePartition


@dataclass(frozen=True)
class StageUpdate:
    """The optimizer's update of one stage.

    - `owned`: numbers of the parameter slices that this stage updates; a shared one belongs to its first stage;
    - `state`: for each leaf of the stage's optimizer state its number among the program's arguments, and its layer if
      it is stacked;
    - `call(param_slices, state, gradients, total) -> (param_slices, state)`: gradients are sums over micro-batches,
      with the specs `accumulators`; `total` is the sum of the micro-batches' weights;
    - `sums`: the number of sums over all parameters it needs (`optimizer_global_sums`). Then `terms(param_slices,
      state, gradients, total)` are the stage's terms of each, and `finish(param_slices, state, gradients, total, sums)`
      is the update with the total sums; `call` uses its own terms alone.
    """

    owned: tuple[int, ...]
    state: tuple[tuple[int, int | None], ...]
    call: Callable[[Sequence[Any], Sequence[Any], Sequence[Any], Any], tuple[list[Any], list[Any]]]
    accumulators: tuple[jax.ShapeDtypeStruct, ...] = ()
    sums: int = 0
    terms: Callable[..., list[Any]] = lambda *_: []
    finish: Callable[..., tuple[list[Any], list[Any]]] | None = None


def owners(partition: StagePartition) -> tuple[int, ...]:
    """The stage that updates each parameter slice: the first that uses it, or stage 0 if none does."""
    first: dict[int, int] = {}
    for virtual_stage in partition.virtual_stages:
        for param_slice in virtual_stage.param_slices:
            first.setdefault(param_slice, virtual_stage.number)
    return tuple(first.get(param_slice, 0) for param_slice in range(len(partition.network.flat.param_slices)))


def stage_update(program: Program, partition: StagePartition, stage: int, whole: SharedSums | None = None) -> StageUpdate:
    """The update of one stage; `whole` has the optimizer's sums over all parameters, if any (`common_sums`)."""
    training = program.step.training
    assert training is not None, "only training steps are partitioned"
    flat = partition.network.flat
    owned = tuple(i for i, owner in enumerate(owners(partition)) if owner == stage and flat.param_slices[i][0].leaf not in training.frozen)
    specs = [jax.ShapeDtypeStruct(flat.param_slices[i][1].aval.shape, flat.param_slices[i][1].aval.dtype) for i in owned]
    state_specs = jax.eval_shape(
        lambda values: training.optimizer.init(cast(_owned_tree(training, partition, owned, values), training.moments)), specs
    )
    places, structure = _locate_state(program, partition, owned, state_specs), jax.tree.structure(state_specs)

    def call(param_slices: Sequence[Any], state: Sequence[Any], gradients: Sequence[Any], total: Any) -> tuple[list[Any], list[Any]]:
        mean = [
            mean_gradient(item, param_slice.dtype, total, partition.network.micro_batches, is_average=i in flat.averages)
            for item, param_slice, i in zip(gradients, param_slices, owned, strict=True)
        ]
        weights, gradient = (_owned_tree(training, partition, owned, item) for item in (param_slices, mean))
        moments = jax.tree.unflatten(structure, state)
        with jax.named_scope("optimizer"):
            updates, moments = training.optimizer.update(cast(gradient, training.moments), moments, cast(weights, training.moments))
            weights = optax.apply_updates(weights, updates)
        return jax.tree.leaves(weights), jax.tree.leaves(moments)

    update = StageUpdate(owned, places, call, tuple(accumulator(item, training.sums) for item in specs))
    return _split_update(update, specs, jax.tree.leaves(state_specs), whole) if whole and whole.sums and owned else update


def _split_update(update: StageUpdate, specs: Sequence[Any], state: Sequence[Any], whole: SharedSums) -> StageUpdate:
    """The update split at its sums over all parameters. A stage without any of the summed parameters has no terms."""
    count, width = len(specs), len(state)
    total = jax.ShapeDtypeStruct((), jnp.float32)

    def flat(*values: Any) -> Any:
        return update.call(values[:count], values[count : count + width], values[count + width : -1], values[-1])

    closed = jax.make_jaxpr(flat)(*specs, *state, *update.accumulators, total)
    eqns, constants, outvars = inline(closed)
    invars = closed.jaxpr.invars
    leaves_of = {var: frozenset((i % (count + width),)) for i, var in enumerate(invars[:-1]) if i < count or i >= count + width}
    stage_sums = SharedSums(whole.name, leaves_of).read(eqns, outvars)
    summed = list(stage_sums.sums)
    if summed and (len(summed) != len(whole.sums) or not stage_sums.steps >= whole.steps):
        raise PipelineError(
            f"The optimiser of {whole.name} does other things with the sums over a stage's parameters than with those over all: it treats "
            "layers apart that are stacked in the whole, or counts what it sums over.",
            ["use an optimiser such as adam, adamw or sgd", "clip by the global norm (`optax.clip_by_global_norm`), or each element"],
        )
    first = closed_jaxpr(closed.jaxpr, constants, invars, select_needed(eqns, summed), summed)
    second = closed_jaxpr(closed.jaxpr, constants, [*invars, *summed], _select_after(eqns, summed, outvars), outvars)

    def terms(param_slices: Sequence[Any], moments: Sequence[Any], gradients: Sequence[Any], total: Any) -> list[Any]:
        return list(jax_core.jaxpr_as_fun(first)(*param_slices, *moments, *gradients, jnp.asarray(total, jnp.float32)))

    def finish(
        param_slices: Sequence[Any], moments: Sequence[Any], gradients: Sequence[Any], total: Any, given: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        sums = [value.astype(var.aval.dtype) for value, var in zip(given, summed, strict=False)]
        results = jax_core.jaxpr_as_fun(second)(*param_slices, *moments, *gradients, jnp.asarray(total, jnp.float32), *sums)
        return list(results[:count]), list(results[count:])

    return replace(update, sums=len(summed), terms=terms, finish=finish)


def _select_after(eqns: Sequence[Any], given: Sequence[Any], outvars: Sequence[Any]) -> list[Any]:
    return select_needed([eqn for eqn in eqns if not any(var in given for var in eqn.outvars)], outvars)


def _owned_tree(training: Training, partition: StagePartition, owned: Sequence[int], values: Sequence[Any]) -> Any:
    """The parameters' pytree without other stages' leaves; a stacked leaf is a tuple of its owned slices."""
    leaves: list[Any] = [None] * training.params.num_leaves
    for param_slice, value in zip(owned, values, strict=True):
        leaf, layer = partition.network.flat.param_slices[param_slice][0]
        leaves[leaf] = value if layer is None else (*(leaves[leaf] or ()), value)
    return jax.tree.unflatten(training.params, leaves)


def _locate_state(program: Program, partition: StagePartition, owned: Sequence[int], state: Any) -> tuple[tuple[int, int | None], ...]:
    """The program argument of each leaf of a stage's optimizer state; a slice's path ends in its tuple index."""
    argument_of = {tensor.path: i for i, tensor in enumerate(program.arguments) if tensor.role is Role.OPTIMIZER_STATE}
    layers: dict[str, list[int]] = {}
    for param_slice in owned:
        leaf, layer = partition.network.flat.param_slices[param_slice][0]
        if layer is not None:
            layers.setdefault(partition.network.parameter_paths[leaf].partition("/")[2], []).append(layer)
    places: list[tuple[int, int | None]] = []
    for path in named_leaves("opt_state", state)[0]:
        stacked, _, number = path.rpartition("/")
        if path in argument_of:
            places.append((argument_of[path], None))
        else:
            leaf_path = find_parameter(stacked, layers)
            assert leaf_path is not None, "a slice needs a parameter of this stage"
            places.append((argument_of[stacked], layers[leaf_path][int(number)]))
    return tuple(places)


def accumulator(spec: jax.ShapeDtypeStruct, sums: str | None) -> jax.ShapeDtypeStruct:
    """Shape and type of the accumulator for a parameter's gradients; `sums` as in `Training`."""
    return jax.ShapeDtypeStruct(spec.shape, accumulator_type(spec.dtype, sums))


def accumulator_type(dtype: Any, sums: str | None) -> Any:
    """
    >>> str(accumulator_type("bfloat16", None)), str(accumulator_type("float64", None)), str(accumulator_type("bfloat16", "bfloat16"))
    ('float32', 'float64', 'bfloat16')
    """
    return jnp.promote_types(dtype, sums or jnp.float32)
