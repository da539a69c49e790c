"""The run of equal layers in a network, as one function over stacked weights: the basis of an SPMD pipeline.

Before the run is the prefix (or nothing: the first layer reads the batch where the others read the previous layer),
after it the suffix. A layer takes the previous layer's output (`carry`) and the prefix's outputs common to all layers
(`shared`: a mask, positions). Layers are equal if the texts of their jaxprs are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import jax

from workbench.core.derived_value_cache import cache_with_owner
from workbench.errors import PipelineError
from workbench.tracing.stage_partition.block_programs import block_tasks
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.partition_network import StageFunction, StagePartition, partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks

Arrays = Sequence[Any]
Name = tuple[str, int]  # ("batch", leaf of it) or ("value", of the cut)


@dataclass(frozen=True)
class HomogeneousLayers:
    """`layer(param_slices, batch, shared, carry) -> carry`, all flat tuples.

    - `prefix` (`None` if the run begins the network), `suffix`; `param_slices`: the numbers of each layer's parameters,
      in one order;
    - `batch`: numbers of the batch leaves that every layer reads;
    - `shared`: numbers of the partition's values that all layers read; `carry`: the first layer's input; `last`: the
      last one's outputs.
    """

    partition: StagePartition
    prefix: StageFunction | None
    layer: Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]
    param_slices: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    shared: tuple[int, ...]
    carry: tuple[Name, ...]
    last: tuple[int, ...]

    @property
    def suffix(self) -> StageFunction:
        return self.partition.virtual_stages[-1]


@cache_with_owner
def homogeneous_layers(network: Network) -> HomogeneousLayers:
    """The longest run of equal layers. Raises `PipelineError` if there is none, or it cannot be chained."""
    begin, end = _find_longest_run(network)
    partition = partition_network(network, range(max(begin, 1), end + 1))
    prefix, layers = (partition.virtual_stages[0], partition.virtual_stages[1:-1]) if begin else (None, partition.virtual_stages[:-1])
    batch = layers[1].batch
    shared = tuple(value for value in layers[1].input_activations if value not in layers[0].output_activations)
    carries = [_sort_by_type(partition, virtual_stage, _list_carry(virtual_stage, batch, shared)) for virtual_stage in layers]
    outputs = [
        _sort_by_type(partition, virtual_stage, [("value", value) for value in virtual_stage.output_activations])
        for virtual_stage in layers
    ]
    for virtual_stage, carry, earlier in zip(layers[1:], carries[1:], outputs, strict=False):
        if set(carry) != set(earlier) or not set(shared) <= set(virtual_stage.input_activations):
            raise _unequal_error(network, virtual_stage, "has other inputs or outputs than the block before it")
    for virtual_stage in layers[:-1]:
        if any(partition.values[value].readers != (virtual_stage.number + 1,) for value in virtual_stage.output_activations):
            raise _unequal_error(network, virtual_stage, "has an output that is not read by the next block")
    common = (*(("batch", leaf) for leaf in batch), *(("value", value) for value in shared))
    calls = [_make_call(virtual_stage, (*common, *carry), out) for virtual_stage, carry, out in zip(layers, carries, outputs, strict=True)]
    texts = [
        _jaxpr_text(partition, virtual_stage, call, (batch, shared, carry))
        for virtual_stage, call, carry in zip(layers, calls, carries, strict=True)
    ]
    for virtual_stage, text in zip(layers, texts, strict=True):
        if text != texts[0]:
            raise _unequal_error(network, virtual_stage, "computes something other than the first block")
    last = tuple(value for _, value in outputs[-1])
    return HomogeneousLayers(partition, prefix, calls[0], tuple(stage.param_slices for stage in layers), batch, shared, carries[0], last)


def _list_carry(virtual_stage: StageFunction, batch: Sequence[int], shared: Sequence[int]) -> list[Name]:
    """The values that only this layer reads: from the previous layer, or from the batch for the first."""
    from_batch = [("batch", leaf) for leaf in virtual_stage.batch if leaf not in batch]
    return [*from_batch, *(("value", value) for value in virtual_stage.input_activations if value not in shared)]


def _find_longest_run(network: Network) -> tuple[int, int]:
    """The first block of the longest run of blocks with equal keys and a successor, and the block after it."""
    keys = [(block.layer_key, number) for number, block in enumerate(block_tasks(network))]
    runs = [[number for _, number in run] for _, run in groupby(keys, key=lambda pair: pair[0])]
    inner = [[number for number in run if number < len(keys) - 1] for run in runs]
    longest = max(inner, key=len, default=[])
    if len(longest) < 2:
        paths = ", ".join(f"`{path}`" for path in network.paths[:8])
        raise PipelineError(
            f"Engine `spmd` runs equal layers in lockstep; `{network.name}` has no two equal blocks in a row before its last one "
            f"({paths}{' and more' if len(network.paths) > 8 else ''}).",
            ["use engine:mpmd, which supports different stages"],
        )
    return longest[0], longest[-1] + 1


def _sort_by_type(partition: StagePartition, virtual_stage: StageFunction, names: Sequence[Name]) -> tuple[Name, ...]:
    """The carry ordered by shape and type; raises `PipelineError` for two values of one type."""
    avals = {name: _aval(partition, name) for name in names}
    types = {name: f"{aval.dtype}{list(aval.shape)}" for name, aval in avals.items()}
    if len(set(types.values())) < len(types):
        raise _unequal_error(partition.network, virtual_stage, f"passes on several values of one shape ({', '.join(types.values())})")
    return tuple(sorted(names, key=types.__getitem__))


def _aval(partition: StagePartition, name: Name) -> Any:
    kind, number = name
    return partition.network.flat.batch[number].aval if kind == "batch" else partition.values[number].aval


def _make_call(
    virtual_stage: StageFunction, names: Sequence[Name], made: Sequence[Name]
) -> Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Any, ...]]:
    reads = [*(("batch", leaf) for leaf in virtual_stage.batch), *(("value", value) for value in virtual_stage.input_activations)]

    def layer(param_slices: Arrays, batch: Arrays, common: Arrays, carry: Arrays) -> tuple[Any, ...]:
        value_by_name = dict(zip(names, (*batch, *common, *carry), strict=True))
        results = virtual_stage.call(*param_slices, *(value_by_name[name] for name in reads))
        by_value = dict(zip(virtual_stage.output_activations, results, strict=True))
        return tuple(by_value[value] for _, value in made)

    return layer


def _jaxpr_text(
    partition: StagePartition,
    virtual_stage: StageFunction,
    call: Callable[..., Any],
    given: tuple[Sequence[int], Sequence[int], Sequence[Name]],
) -> str:
    batch, shared, carry = given
    names = [[("batch", leaf) for leaf in batch], [("value", value) for value in shared], carry]
    avals = [[_aval(partition, name) for name in group] for group in names]
    specs = [[jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in group] for group in avals]
    closed = jax.make_jaxpr(call)(StageTasks(partition, virtual_stage).param_slices, *specs)
    return f"{closed.jaxpr}{[getattr(const, 'shape', ()) and const.tolist() for const in closed.consts]}"


def _unequal_error(network: Network, virtual_stage: StageFunction, why: str) -> PipelineError:
    return PipelineError(
        f"Engine `spmd` runs equal layers in step, and `{virtual_stage.blocks[0]}` of `{network.name}` {why}.",
        ["use engine:mpmd, which supports different stages", "scan the layers over stacked weights"],
    )
