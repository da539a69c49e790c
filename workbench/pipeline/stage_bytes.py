"""Bytes of a virtual stage from its blocks: peaks of its tasks, data that a micro-batch keeps between them, parameters,
and values between blocks.

A task is one compiled program, whose temporaries are in device memory only if they do not all fit on the chip. If
it recomputes, the forward pass keeps only what both passes need as one program: many of the values kept between two
tasks are then recomputed within the kernel that reads them.

Notation: block i of the stage reads x_i of the previous block, keeps K_i for its backward pass and needs W_i at its peak; its backward
pass gets y_i and returns dx_i, which overwrites x_i. During the backward pass of block i the stage has

    x_1 + .. + x_i-1  +  K_0 + .. + K_i-1  +  W_i + y_i + max(x_i, dx_i)
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from workbench.core.derived_value_cache import cache_with_owner, cache_with_program
from workbench.core.path_patterns import find_parameter
from workbench.core.schedules.stage_cost import AtWork
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role, Tensor
from workbench.cost.tile_padding import tiled_bytes
from workbench.pipeline.block_layouts import LaidBlock, lay_out_network, tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext, TogetherBytes, place_results
from workbench.plan.plan import Plan
from workbench.tracing.jaxpr.equations import size_of
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.stage_update import accumulator_type
from workbench.tracing.stage_partition.trace_network import Network


def local_value_bytes(aval: Any, shards: int, tile: tuple[int, ...]) -> int:
    """Bytes on one device of a value split into `shards` along its first dimension, padded to the chip's tiles.

    An indivisible value counts as an equal fraction.
    """
    even = size_of(aval) // shards
    is_plain = hasattr(aval.dtype, "itemsize") and len(aval.shape) > 0 and aval.shape[0] % shards == 0
    if not tile or not is_plain:
        return even
    return max(even, tiled_bytes((aval.shape[0] // shards, *aval.shape[1:]), str(aval.dtype), tile))


def sum_value_bytes(avals: Iterable[Any], shards: int, tile: tuple[int, ...]) -> int:
    """Total bytes of several values on one device, each as in `local_value_bytes`."""
    return sum(local_value_bytes(aval, shards, tile) for aval in avals)


def bytes_keeping_residuals(
    blocks: Sequence[BlockCost], residuals: int, arriving: int, outputs: int, departing: int, capacity: int
) -> AtWork:
    """Bytes of the running tasks if residuals are kept.

    `arriving`, `outputs`, `departing`: gradients of the stage's outputs, its outputs, gradients of its inputs;
    `capacity`: bytes of on-chip memory.
    """
    extra = max(max(block.at_forward.working - block.at_backward.staying, 0) for block in blocks)
    anywhere = max(block.at_backward.anywhere + block.at_backward.arriving + block.at_backward.made for block in blocks)
    beside = max(block.at_backward.beside for block in blocks)
    return AtWork(residuals + outputs + extra, residuals + (arriving + departing if anywhere <= capacity else max(beside, departing)))


def bytes_recomputing(
    blocks: Sequence[BlockCost], together: Sequence[TogetherBytes], inputs: int, arriving: int, outputs: int, departing: int, capacity: int
) -> AtWork:
    """Bytes of the running tasks if the stage keeps only its `inputs` and recomputes its forward pass.

    `together`: each block's forward and backward pass as one program; the other arguments are those of
    `bytes_keeping_residuals`.
    """
    forward_anywhere = max(block.at_forward.staying + block.at_forward.anywhere + block.at_forward.made for block in blocks)
    forward = inputs + outputs if forward_anywhere <= capacity else max(_forward_moments(blocks, inputs))
    anywhere = max(_backward_moments(blocks, together, on_chip=True), default=0)
    if anywhere <= capacity:
        return AtWork(forward, inputs + arriving + departing)
    return AtWork(forward, max(forward, inputs + max(departing, *_backward_moments(blocks, together, on_chip=False))))


def _forward_moments(blocks: Sequence[BlockCost], inputs: int) -> Iterator[int]:
    yield inputs + blocks[0].at_forward.made + blocks[0].at_forward.working
    yield from (inputs + block.at_forward.whole for block in blocks[1:])


def _backward_moments(blocks: Sequence[BlockCost], together: Sequence[TogetherBytes], *, on_chip: bool) -> Iterator[int]:
    """Yield the bytes beside the stage's inputs during the backward pass of each block; with `on_chip` in any memory."""
    before = 0
    for number, (block, both) in enumerate(zip(blocks, together, strict=True)):
        read = activation_bytes(block) if number else 0
        working = both.anywhere if on_chip else both.most
        yield before + working + block.at_backward.arriving + max(read, block.at_backward.made)
        before += read + both.kept


def activation_bytes(block: BlockCost) -> int:
    """Bytes that a block reads from other blocks."""
    return sum(size for path, size in block.at_forward.read if path.startswith("input_activations/"))


# Data of a micro-batch on the devices of a virtual stage between its tasks, by block, in bytes on one device.

KeptBytes = tuple[tuple[int, int], ...]
"""(block, bytes): the block makes the residual, or reads it if another stage makes it."""


class KeptByBlock(NamedTuple):
    """Data kept by blocks of virtual stages from `starts`, without the batch; `sizes` are of values between blocks."""

    sizes: Sequence[int]
    costs: Sequence[BlockCost]
    tasks: Sequence[BlockTasks]
    starts: tuple[int, ...]

    def residuals(self, stage: int) -> KeptBytes:
        """Bytes kept from the forward to the backward pass, inside and between blocks."""
        a, b = self._bounds[stage]
        result = Counter[int]()
        values = {value: block for block in reversed(range(a, b)) for value in self.tasks[block].residuals.values}
        for block in range(a, b):
            result[block] += self.costs[block].kept(self.tasks[block].residuals.inside)
        for value, block in values.items():
            result[block] += self.sizes[value]
        return tuple(result.items())

    def input_activations(self, stage: int) -> KeptBytes:
        """Bytes kept by a stage that recomputes: the values that it reads from other stages."""
        a, b = self._bounds[stage]
        partition = self.tasks[0].stage.partition
        read = {value: block for block in reversed(range(a, b)) for value in partition.virtual_stages[block].input_activations}
        result = Counter[int]()
        for value, block in read.items():
            if not a <= partition.values[value].maker < b:
                result[block] += self.sizes[value]
        return tuple(result.items())

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        return list(pairwise((0, *self.starts, len(self.costs))))


# Bytes of each parameter slice on one device of a stage.


class SliceBytes(NamedTuple):
    """Bytes on one device of a parameter slice, its accumulated gradient, and its optimizer state."""

    param: int
    sums: int
    state: int

    @property
    def resident(self) -> int:
        return self.param + self.sums


def param_slice_bytes(plan: Plan, network: Network) -> tuple[SliceBytes, ...]:
    """Return the bytes of each parameter slice. They do not depend on boundaries, and stay cached while one is dragged."""
    return _weigh_params(plan.updated(pipeline=None, name=""), network)


@cache_with_program(5)
def _weigh_params(plan: Plan, network: Network) -> tuple[SliceBytes, ...]:
    arguments = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    leaves = [(tensor, sharding) for tensor, sharding in arguments if tensor.role is Role.PARAMETER]
    states: list[list[tuple[Tensor, Sharding]]] = [[] for _ in network.parameter_paths]
    for tensor, sharding, leaf in zip(
        plan.program.arguments, plan.argument_shardings, parameter_indices(network, plan.program.arguments), strict=True
    ):
        if leaf >= 0 and tensor.role is Role.OPTIMIZER_STATE:
            states[leaf].append((tensor, sharding))
    result: dict[tuple[int, bool], SliceBytes] = {}  # layers of a stack are equal
    for (leaf, layer), _ in network.flat.param_slices:
        if (leaf, layer is None) not in result:
            tensor, sharding = leaves[leaf]
            held = _local_bytes(tensor.shape, tensor.dtype, layer, sharding, plan)
            if leaf in network.frozen:
                result[leaf, layer is None] = SliceBytes(held, 0, 0)
                continue
            sums = _local_bytes(tensor.shape, str(accumulator_type(tensor.dtype, network.sums)), layer, sharding, plan)
            state = sum(_local_bytes(moment.shape, moment.dtype, layer, placement, plan) for moment, placement in states[leaf])
            has_master = plan.program.precision.master is not None
            copies = plan.hardware.runtime.copies_beside(tensor.dtype, has_master=has_master) if plan.hardware else 0
            alike = next((placement for each, placement in states[leaf] if each.shape == tensor.shape), sharding)
            beside = copies * _local_bytes(tensor.shape, "float32", layer, alike, plan)
            result[leaf, layer is None] = SliceBytes(held, sums, state + beside)
    return tuple(result[leaf, layer is None] for (leaf, layer), _ in network.flat.param_slices)


@cache_with_owner
def parameter_indices(network: Network, arguments: tuple[Tensor, ...]) -> tuple[int, ...]:
    """Return for each argument the number of its parameter, or of the parameter of its optimizer state; -1 for others."""
    number = {path.partition("/")[2]: leaf for leaf, path in enumerate(network.parameter_paths)}
    leaves = []
    for tensor in arguments:
        is_state = tensor.role is Role.OPTIMIZER_STATE
        owner = find_parameter(tensor.path, number) if is_state else tensor.path.partition("/")[2]
        leaves.append(number.get(owner or "", -1) if tensor.role in (Role.PARAMETER, Role.OPTIMIZER_STATE) else -1)
    return tuple(leaves)


def _local_bytes(shape: tuple[int, ...], dtype: str, layer: int | None, sharding: Sharding, plan: Plan) -> int:
    dims = tuple(dim or () for dim in sharding.dims)
    if layer is not None:
        shape, dims = (1, *shape[1:]), ((), *dims[1:])
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    return tiled_bytes(tuple(Sharding(dims).local_shape(shape, plan.mesh)), dtype, tile)


# Bytes on one device passed between blocks, and between the halves of a backward task.


class HandedBytes(NamedTuple):
    """Input bytes of a block's weight gradients: `made` in its backward task or arrived, `kept` by the forward pass."""

    made: int
    kept: int


class ValueBytes(NamedTuple):
    """Bytes of a value between blocks: `held` by its maker, padded to tiles, and `sent` to another stage."""

    held: int
    sent: int


@cache_with_program(5)
def value_bytes(stage: StageContext, network: Network) -> tuple[ValueBytes, ...]:
    """Bytes of each value in the order of `StagePartition.values` with a boundary at every block."""
    values = tasks_of(network)[0].stage.partition.values
    placed: dict[int, Sharding] = {}
    for block, laid in zip(tasks_of(network), lay_out_network(stage, network), strict=True):
        placed |= zip(block.stage.virtual_stage.output_activations, laid.outputs, strict=True)
    tiles = _tile_of(stage), ()
    return tuple(
        ValueBytes(*(_placed_bytes(value.aval, placed[number], stage, tile) for tile in tiles)) for number, value in enumerate(values)
    )


@cache_with_program(5)
def handed_bytes(stage: StageContext, network: Network) -> tuple[HandedBytes, ...]:
    """Bytes handed over by each block. Traces the halves of backward tasks, for schedules that split them."""
    laid = lay_out_network(stage, network)
    by_block = {block: _handed_by(block) for block in dict.fromkeys(laid)}
    return tuple(by_block[block] for block in laid)


def _handed_by(laid: LaidBlock) -> HandedBytes:
    block, stage = laid.block, laid.stage
    first, second = block.half_programs(stage.parts, recompute=False, add_separately=stage.adds_separately)
    placed = dict(stage.entering) | dict(place_results(first, stage) if first else ())
    bytes_of = {"pending": 0, "arriving": 0, "kept": 0, "input_activations": 0}
    for tensor in second.arguments if second else ():
        group = tensor.path.partition("/")[0]
        if tensor.role is Role.INPUT and group in bytes_of:
            sharding = placed["/".join(tensor.path.split("/")[:2])]
            bytes_of[group] += tiled_bytes(sharding.local_shape(tensor.shape, stage.plan.mesh), tensor.dtype, _tile_of(stage))
    return HandedBytes(bytes_of["pending"] + bytes_of["arriving"], bytes_of["kept"] + bytes_of["input_activations"])


def _tile_of(stage: StageContext) -> tuple[int, ...]:
    return stage.hardware.chip.array_tile if stage.hardware else ()


def _placed_bytes(aval: Any, sharding: Sharding, stage: StageContext, tile: tuple[int, ...]) -> int:
    if not hasattr(aval.dtype, "itemsize"):
        return size_of(aval)
    return tiled_bytes(sharding.local_shape(aval.shape, stage.plan.mesh), str(aval.dtype), tile)
