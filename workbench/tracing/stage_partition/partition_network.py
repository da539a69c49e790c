"""A network partitioned into consecutive stages, each a pure function with its parameters, input and output values.

Any loss can be partitioned, including those of `layered_losses.sequential_loss` and `scanned_loss`.
A value goes directly from the stage that makes it to each stage that reads it, without passing through the stages in
between.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core

from workbench.errors import PipelineError, unknown_name
from workbench.tracing.jaxpr.equations import closed_jaxpr, flops_of, select_needed, size_of, variables
from workbench.tracing.stage_partition.trace_network import Network

SHARED = ("replicate", "report")


@dataclass(frozen=True, slots=True)
class StageValue:
    """A value sent from stage `maker` to the stages in `readers`; `flows_back`: it has a gradient."""

    aval: Any
    maker: int
    readers: tuple[int, ...]
    flows_back: bool

    @property
    def bytes(self) -> int:
        return size_of(self.aval)


@dataclass(frozen=True, eq=False)
class StageFunction:
    """One stage: `call(*param_slices, *batch, *input_activations) -> (*output_activations, *results)`, all flat.

    - `blocks`: paths of its blocks;
    - `param_slices`, `batch`: numbers of the parameter slices and batch leaves it reads;
    - `input_activations`, `output_activations`: numbers of the partition's values that it reads, and makes for later
      stages;
    - only the last stage has `results`: the loss times its weight, and the weight (shape ()).
    """

    number: int
    blocks: tuple[str, ...]
    param_slices: tuple[int, ...]
    batch: tuple[int, ...]
    input_activations: tuple[int, ...]
    output_activations: tuple[int, ...]
    call: Callable[..., list[Any]]
    flops: int


@dataclass(frozen=True, eq=False)
class StagePartition:
    """Consecutive virtual stages of a network; `shared`: parameter slices of several stages."""

    network: Network
    starts: tuple[int, ...]
    virtual_stages: tuple[StageFunction, ...]
    values: tuple[StageValue, ...]

    @cached_property
    def shared(self) -> dict[int, tuple[int, ...]]:
        users: dict[int, list[int]] = {}
        for virtual_stage in self.virtual_stages:
            for param_slice in virtual_stage.param_slices:
                users.setdefault(param_slice, []).append(virtual_stage.number)
        return {param_slice: tuple(stages) for param_slice, stages in users.items() if len(stages) > 1}

    def path(self, param_slice: int) -> str:
        """The readable path of a parameter slice: `params/layers/w1[3]`."""
        leaf, layer = self.network.flat.param_slices[param_slice][0]
        return self.network.parameter_paths[leaf] + ("" if layer is None else f"[{layer}]")


def partition_network(network: Network, starts: Sequence[int]) -> StagePartition:
    """The network partitioned before the blocks with numbers `starts`; the first stage begins at block 0.

    A parameter that several stages use is held by each, with its gradients added.
    """
    bounds_in_proper = [0, *(network.block_starts[start] for start in starts), len(network.proper)]
    parts = [list(network.proper[a:b]) for a, b in pairwise(bounds_in_proper)]
    stage_of = {var: stage for stage, eqns in enumerate(parts) for eqn in eqns for var in eqn.outvars}
    readers = _find_readers(network, parts, stage_of)
    crossing = {var: stages for var, stages in readers.items() if stages != {stage_of[var]}}
    numbers = {var: number for number, var in enumerate(crossing)}
    values = tuple(
        StageValue(var.aval, stage_of[var], tuple(sorted(stages - {stage_of[var]})), bool(jnp.issubdtype(var.aval.dtype, jnp.inexact)))
        for var, stages in crossing.items()
    )
    bounds = [0, *starts, len(network.paths)]
    virtual_stages = tuple(
        _virtual_stage(
            network, stage, network.paths[bounds[stage] : bounds[stage + 1]], eqns, numbers, stage_of, last=stage == len(parts) - 1
        )
        for stage, eqns in enumerate(parts)
    )
    return StagePartition(network, tuple(starts), virtual_stages, values)


def _find_readers(network: Network, parts: Sequence[Sequence[Any]], made: dict[Any, int]) -> dict[Any, set[int]]:
    """The stages that read each variable of the network proper; the last stage reads its results."""
    readers: dict[Any, set[int]] = {}
    for stage, eqns in enumerate(parts):
        for eqn in eqns:
            for var in variables(eqn.invars):
                if var in made:
                    readers.setdefault(var, set()).add(stage)
    for var in network.results:
        if var in made:
            readers.setdefault(var, set()).add(len(parts) - 1)
    return readers


def _virtual_stage(
    network: Network,
    stage: int,
    blocks: tuple[str, ...],
    stage_eqns: Sequence[Any],
    numbers: dict[Any, int],
    made: dict[Any, int],
    *,
    last: bool,
) -> StageFunction:
    flat = network.flat
    output_activations = [var for var in numbers if made[var] == stage]
    results = network.results if last else []
    eqns = select_needed(network.with_free(stage_eqns, results), [*output_activations, *results])
    reads = _list_reads(eqns, results)
    param_slices = tuple(number for number, (_, var) in enumerate(flat.param_slices) if var in reads)
    batch = tuple(number for number, var in enumerate(flat.batch) if var in reads)
    input_activations = tuple(numbers[var] for var in numbers if var in reads)
    order = list(numbers)
    invars = [*(flat.param_slices[i][1] for i in param_slices), *(flat.batch[i] for i in batch), *(order[i] for i in input_activations)]
    constants = {var: flat.constants[var] for var in reads if var in flat.constants}
    outvars = [*output_activations, *([flat.loss] if last else []), *([] if flat.weight is None or not last else [flat.weight])]
    call = jex_core.jaxpr_as_fun(closed_jaxpr(flat.base, constants, invars, eqns, outvars))
    return StageFunction(
        stage,
        blocks,
        param_slices,
        batch,
        input_activations,
        tuple(numbers[var] for var in output_activations),
        _weigh_loss(call, has_weight=flat.weight is not None) if last else call,
        sum(map(flops_of, eqns)),
    )


def _list_reads(eqns: Sequence[Any], results: Sequence[Any]) -> dict[Any, None]:
    produced = {var for eqn in eqns for var in eqn.outvars}
    read = [*(var for eqn in eqns for var in variables(eqn.invars)), *results]
    return dict.fromkeys(var for var in read if var not in produced)


def _weigh_loss(call: Callable[..., list[Any]], *, has_weight: bool) -> Callable[..., list[Any]]:
    def run(*values: Any) -> list[Any]:
        if not has_weight:
            (loss,) = call(*values)
            return [loss]
        loss, weight = call(*values)
        weight = weight.astype(loss.dtype)
        return [loss * weight, weight]

    return run


def starts_at(network: Network, boundaries: Sequence[str]) -> tuple[int, ...]:
    """The block numbers of these paths, in order. Raises `PipelineError` for an unknown or the first block."""
    numbers = []
    for path in boundaries:
        if path not in network.paths:
            message, ways_out = unknown_name("block", path, network.paths)
            raise PipelineError(f"{message} The boundary before it no longer exists.", [*ways_out, "take the boundary out"])
        if (number := network.paths.index(path)) == 0:
            raise PipelineError(f"`{path}` is the first block: nothing is before it.", ["begin the second stage at a later block"])
        numbers.append(number)
    return tuple(sorted(numbers))


# Shapes and types of a virtual stage's arguments and results.


@dataclass(frozen=True, eq=False)
class StageValues:
    """Shapes and types of one virtual stage's values; `arriving` and `departing` are of gradients."""

    partition: StagePartition
    virtual_stage: StageFunction

    @cached_property
    def param_slices(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.partition.network.flat.param_slices[i][1].aval) for i in self.virtual_stage.param_slices)

    @cached_property
    def batch(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.partition.network.flat.batch[i].aval) for i in self.virtual_stage.batch)

    @cached_property
    def input_activations(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(spec_of(self.partition.values[i].aval) for i in self.virtual_stage.input_activations)

    @cached_property
    def arriving(self) -> tuple[int, ...]:
        """Positions in `output_activations` of values with gradients."""
        return tuple(place for place, i in enumerate(self.virtual_stage.output_activations) if self.partition.values[i].flows_back)

    @cached_property
    def departing(self) -> tuple[int, ...]:
        """Positions in `input_activations` of values with gradients."""
        return tuple(place for place, i in enumerate(self.virtual_stage.input_activations) if self.partition.values[i].flows_back)

    @cached_property
    def trained(self) -> tuple[int, ...]:
        """Positions in `param_slices` of those with gradients."""
        trains = self.partition.network.trains
        slices = enumerate(zip(self.virtual_stage.param_slices, self.param_slices, strict=True))
        return tuple(place for place, (number, spec) in slices if trains(number) and jnp.issubdtype(spec.dtype, jnp.inexact))

    @property
    def is_last(self) -> bool:
        return self.virtual_stage.number == len(self.partition.virtual_stages) - 1


def spec_of(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
