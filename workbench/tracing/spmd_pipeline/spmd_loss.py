"""The loss of a program, pipelined as one SPMD program: equal layers in the shifting buffer, prefix and suffix over all
stages.

Prefix and suffix run on the micro-batches where the stream holds them, each stage's devices on their share, so that no
device idles. The loss equals that of separate micro-batches, including means over unequal masks.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec, Split, plan_input_splits
from workbench.core.program import Program
from workbench.core.remat import ALL_LAYERS
from workbench.errors import PipelineError
from workbench.tracing.grad_accumulation.micro_batch_marks import fold_each
from workbench.tracing.spmd_pipeline.shifting_buffer import HomogeneousLayers, homogeneous_layers, shifting_buffer
from workbench.tracing.stage_partition.trace_network import network_of
from workbench.tracing.trace_training_step import with_loss, with_traced_loss

PlaceOnStages = Callable[[Any], Any]
MOST_UNROLLED = 4  # layers


def spmd_loss(program: Program, spec: PipelineSpec, place_on_stages: PlaceOnStages) -> Callable[[Any, Any], Any]:
    """`loss(params, batch)` on the program's own pytrees; `place_on_stages` shards leaves [stages, ...] over the
    stages' devices.

    Raises `PipelineError` for a program without equal layers, or whose layers are not divisible by the virtual stages.
    """
    run = find_layers(program, spec)
    splits = plan_input_splits(program, spec.micro_batches)

    def loss(params: Any, batch: Any) -> Any:
        param_slices = _ParamSlices(run, jax.tree.leaves(params), spec.micro_batches)
        parts = [_split_leaf(leaf, split, spec.micro_batches) for leaf, split in zip(jax.tree.leaves(batch), splits, strict=True)]
        return _loss(run, spec, param_slices, parts, place_on_stages)

    return loss


def find_layers(program: Program, spec: PipelineSpec) -> HomogeneousLayers:
    """The layers that the stages run; raises `PipelineError` unless they are equal and divisible by the stages."""
    if program.remat.layers != ALL_LAYERS:
        whole = str(replace(program.remat, layers=ALL_LAYERS))
        raise PipelineError(
            f"Engine `spmd` runs equal layers in step, and remat `{program.remat}` of `{program.name}` is for a part of them.",
            ["use engine:mpmd, which supports different stages", f"take remat {whole} for all layers"],
        )
    run = homogeneous_layers(network_of(program, spec.micro_batches))
    verify_divides(program.name, len(run.param_slices), spec)
    return run


def find_stacked_leaves(program: Program, spec: PipelineSpec) -> tuple[int, ...]:
    """Numbers of the parameter leaves with one slice per layer of the run, which are sharded over the stages."""
    run = homogeneous_layers(network_of(program, spec.micro_batches))
    flat = run.partition.network.flat
    layers = len(run.param_slices)
    leaves = [flat.param_slices[number][0] for number in run.param_slices[0]]
    whole = {leaf for leaf, layer in leaves if layer is not None}
    return tuple(sorted(leaf for leaf in whole if sum(param_slice.leaf == leaf for param_slice, _ in flat.param_slices) == layers))


def verify_divides(name: str, layers: int, spec: PipelineSpec) -> None:
    """Raise `PipelineError` unless the virtual stages divide the layers."""
    if layers % spec.virtual_stages == 0:
        return
    requirement = f"{spec.stages} stages x {spec.chunks} chunks = {spec.virtual_stages}" if spec.chunks > 1 else f"{spec.stages} stages"
    fitting = [count for count in range(1, layers + 1) if layers % (count * spec.chunks) == 0]
    near = sorted(fitting, key=lambda count: abs(count - spec.stages))[:2]
    raise PipelineError(
        f"Engine `spmd` gives each stage as many of the {layers} equal layers of `{name}`; {requirement}, "
        f"and {layers} % {spec.virtual_stages} = {layers % spec.virtual_stages}.",
        [f"make stages {' or '.join(map(str, sorted(near)))}" if near else "make chunks 1", "use engine:mpmd"],
    )


class _ParamSlices:
    """The parameters by number of the parameter slice."""

    def __init__(self, run: HomogeneousLayers, leaves: Sequence[Any], micro_batches: int) -> None:
        self.flat = run.partition.network.flat
        self.leaves = leaves
        self.share = 1.0 / micro_batches

    def __getitem__(self, number: int) -> Any:
        leaf, layer = self.flat.param_slices[number][0]
        value = self.leaves[leaf] if layer is None else self.leaves[leaf][layer : layer + 1]
        return _share_gradient(value, self.share) if number in self.flat.averages else value

    def stack(self, numbers: Sequence[int]) -> Any:
        """One parameter slice of each layer, [layers, ...]; a fully stacked leaf is not copied."""
        slices = [self.flat.param_slices[number][0] for number in numbers]
        leaf = self.leaves[slices[0].leaf]
        whole = [(slices[0].leaf, layer) for layer in range(leaf.shape[0] if leaf.ndim else 0)]
        if slices == whole and not self.flat.averages.intersection(numbers):
            return leaf[:, None]
        return jnp.stack([self[number] for number in numbers])


def _loss(
    run: HomogeneousLayers, spec: PipelineSpec, param_slices: _ParamSlices, batch: Sequence[Any], place_on_stages: PlaceOnStages
) -> Any:
    suffix, values = run.suffix, _run_prefix(run, param_slices, batch)
    weights = [_group_by_stage(param_slices.stack(layer_slices), spec) for layer_slices in zip(*run.param_slices, strict=True)]
    inputs = {
        "carry": tuple(batch[number] if kind == "batch" else values[number] for kind, number in run.carry),
        "shared": tuple(values[value] for value in run.shared),
        "batch": tuple(batch[i] for i in run.batch),
    }
    done = shifting_buffer(
        partial(_run_stage, run),
        weights,
        inputs,
        stages=spec.stages,
        repeats=spec.chunks,
        remat=spec.remat != "never",
        place_on_stages=place_on_stages,
    )
    values |= dict(zip(run.last, done["carry"], strict=True))
    parts = [batch[i] for i in suffix.batch], [values[value] for value in suffix.input_activations]
    losses, *counts = jax.vmap(
        lambda own, input_activations: tuple(suffix.call(*(param_slices[i] for i in suffix.param_slices), *own, *input_activations))
    )(*parts)
    return losses.sum() / counts[0].sum() if counts else losses.mean()


def _run_prefix(run: HomogeneousLayers, param_slices: _ParamSlices, batch: Sequence[Any]) -> dict[int, Any]:
    prefix = run.prefix
    if prefix is None:
        return {}
    outputs = jax.vmap(lambda parts: prefix.call(*(param_slices[i] for i in prefix.param_slices), *parts))([batch[i] for i in prefix.batch])
    return dict(zip(prefix.output_activations, outputs, strict=True))


def _run_stage(run: HomogeneousLayers, weights: Sequence[Any], x: Any) -> Any:
    """The layers of one virtual stage, [layers of a stage, ...]; few are unrolled, as a loop copies residuals."""

    def layer(carry: Any, layer_weights: Any) -> tuple[Any, None]:
        return run.layer(layer_weights, x["batch"], x["shared"], carry), None

    carry, layers = x["carry"], weights[0].shape[0]
    if layers > MOST_UNROLLED:
        carry, _ = jax.lax.scan(layer, carry, tuple(weights))
    else:
        for number in range(layers):
            carry, _ = layer(carry, tuple(leaf[number] for leaf in weights))
    return {**x, "carry": carry}


def _group_by_stage(leaf: Any, spec: PipelineSpec) -> Any:
    """[layers, ...] as [stages, chunks, layers, ...]; virtual stage k is chunk k // stages of stage k % stages."""
    reshaped = leaf.reshape(spec.chunks, spec.stages, leaf.shape[0] // spec.virtual_stages, *leaf.shape[1:])
    return jnp.swapaxes(reshaped, 0, 1)


def _split_leaf(leaf: Any, split: Split, count: int) -> Any:
    if split.dim is not None:
        shape = leaf.shape
        reshaped = leaf.reshape(*shape[: split.dim], count, shape[split.dim] // count, *shape[split.dim + 1 :])
        return jnp.moveaxis(reshaped, split.dim, 0)
    if not split.folds or count == 1:
        return jnp.broadcast_to(leaf, (count, *leaf.shape))
    numbers = jnp.arange(count)
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.vmap(lambda number: fold_each(leaf, number))(numbers)
    return jax.vmap(lambda number: jax.random.key_data(fold_each(jax.random.wrap_key_data(leaf), number)))(numbers)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _share_gradient(value: Any, share: float) -> Any:  # noqa: ARG001 - used by the derivative
    """`value`, a moving average, whose gradient is the mean over micro-batches."""
    return value


_share_gradient.defvjp(lambda value, _: (value, None), lambda share, _, arriving: (share * arriving,))


# A training step pipelined as one SPMD program: traced for an abstract mesh, to be planned, or with its step for real devices.


@cache_with_program(700)
def trace_spmd_step(program: Program, spec: PipelineSpec, mesh: Mesh) -> Program:
    """The program of the pipelined step. Raises `PipelineError` if the layers cannot be pipelined."""
    abstract = AbstractMesh(tuple(size for _, size in mesh.axes), mesh.names, axis_types=(AxisType.Auto,) * len(mesh.names))
    return with_traced_loss(program, _loss_on_mesh(program, spec, abstract))


def with_spmd_step(program: Program, spec: PipelineSpec, mesh: jax.sharding.Mesh) -> Program:
    """The program with its step pipelined over these devices. Raises `PipelineError` as `trace_spmd_step` does."""
    return with_loss(program, _loss_on_mesh(program, spec, mesh))


def _loss_on_mesh(program: Program, spec: PipelineSpec, mesh: jax.sharding.Mesh | AbstractMesh) -> Callable[[Any, Any], Any]:
    return spmd_loss(program, spec, lambda tree: _place_on_stages(tree, spec, mesh))


def _place_on_stages(tree: Any, spec: PipelineSpec, mesh: jax.sharding.Mesh | AbstractMesh) -> Any:
    """Constrain leaves [stages, ...] to their stages' devices; other dimensions stay open."""
    if spec.stages == 1:
        return tree

    def place_leaf(leaf: Any) -> Any:
        others = [PartitionSpec.UNCONSTRAINED] * (leaf.ndim - 1)
        return jax.lax.with_sharding_constraint(leaf, NamedSharding(mesh, PartitionSpec(spec.axis, *others)))

    return jax.tree.map(place_leaf, tree)
