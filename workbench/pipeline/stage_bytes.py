"""Bytes of a virtual stage, from its blocks alone: while its tasks run, what a micro-batch leaves between them, what the parameters take,
and what blocks hand on.

A task is one program for the compiler, whose temporaries are in the device's memory only where the chip has no room for all of them. Where
it recomputes, the forward pass keeps no more for the backward pass than those two need as one program: much of what is kept between two
tasks is computed again where it is read, as part of a kernel.

Letters: block i of the stage reads x_i of the block before, keeps K_i for its backward pass and needs W_i at its worst moment; its backward
pass is given y_i and returns dx_i, which is written over x_i. During the backward pass of block i the stage has

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
from workbench.pipeline.block_layouts import LaidBlock, laid_network, tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext, TogetherBytes, place_results
from workbench.plan.plan import Plan
from workbench.tracing.jaxpr.equations import size_of
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.stage_update import accumulator_type


def local_value_bytes(aval: Any, shards: int, tile: tuple[int, ...]) -> int:
    """Bytes on one device of a value of a micro-batch that so many devices share along its first dimension, padded to the chip's tiles; of
    one that cannot be shared so, its even part."""
    even = size_of(aval) // shards
    is_plain = hasattr(aval.dtype, "itemsize") and len(aval.shape) > 0 and aval.shape[0] % shards == 0
    if not tile or not is_plain:
        return even
    return max(even, tiled_bytes((aval.shape[0] // shards, *aval.shape[1:]), str(aval.dtype), tile))


def sum_value_bytes(avals: Iterable[Any], shards: int, tile: tuple[int, ...]) -> int:
    """The same of several values."""
    return sum(local_value_bytes(each, shards, tile) for each in avals)


def keeping_at_work(blocks: Sequence[BlockCost], residuals: int, arriving: int, outputs: int, departing: int, capacity: int) -> AtWork:
    """Bytes at work where residuals are kept. `arriving`, `outputs`, `departing`: gradients of the stage's outputs, its outputs, gradients
    of its inputs; `capacity`: of the chip's own memory."""
    extra = max(max(each.at_forward.working - each.at_backward.staying, 0) for each in blocks)
    anywhere = max(each.at_backward.anywhere + each.at_backward.arriving + each.at_backward.made for each in blocks)
    beside = max(each.at_backward.beside for each in blocks)
    return AtWork(residuals + outputs + extra, residuals + (arriving + departing if anywhere <= capacity else max(beside, departing)))


def recomputing_at_work(
    blocks: Sequence[BlockCost],
    together: Sequence[TogetherBytes],
    inputs: int,
    arriving: int,
    outputs: int,
    departing: int,
    capacity: int,
) -> AtWork:
    """The same where the stage keeps only its `inputs` and computes its forward pass again; `together`: of each block its forward and its
    backward pass as one program."""
    passed = max(each.at_forward.staying + each.at_forward.anywhere + each.at_forward.made for each in blocks)
    forward = inputs + outputs if passed <= capacity else max(_forward_moments(blocks, inputs))
    anywhere = max(_backward_moments(blocks, together, on_chip=True), default=0)
    if anywhere <= capacity:
        return AtWork(forward, inputs + arriving + departing)
    return AtWork(forward, max(forward, inputs + max(departing, *_backward_moments(blocks, together, on_chip=False))))


def _forward_moments(blocks: Sequence[BlockCost], inputs: int) -> Iterator[int]:
    yield inputs + blocks[0].at_forward.made + blocks[0].at_forward.working
    yield from (inputs + each.at_forward.whole for each in blocks[1:])


def _backward_moments(blocks: Sequence[BlockCost], together: Sequence[TogetherBytes], *, on_chip: bool) -> Iterator[int]:
    """Bytes beside the stage's inputs during the backward pass of each block; with `on_chip` wherever they are."""
    before = 0
    for number, (each, both) in enumerate(zip(blocks, together, strict=True)):
        read = activation_bytes(each) if number else 0
        working = both.anywhere if on_chip else both.most
        yield before + working + each.at_backward.arriving + max(read, each.at_backward.made)
        before += read + kept_in_one_program(each, both)


def kept_in_one_program(block: BlockCost, both: TogetherBytes) -> int:
    """Bytes that a block keeps while later ones run; where a block alone has room for it on the chip, of several no more is known than that
    it is at most all it needs, and what is kept between two tasks."""
    return both.kept or min(block.at_backward.staying, both.anywhere)


def activation_bytes(block: BlockCost) -> int:
    """What a block reads of other blocks."""
    return sum(size for path, size in block.at_forward.read if path.startswith("input_activations/"))


# What a micro-batch leaves on the devices of a virtual stage between its tasks, block by block, in bytes on one device.

KeptBytes = tuple[tuple[int, int], ...]
"""(block, bytes): of a residual the block that makes it, or reads it where another stage makes it."""


class KeptByBlock(NamedTuple):
    """The blocks of a network with the virtual stages that begin at `starts`, and the `sizes` of the values between them (`value_bytes`);
    batch data is not counted."""

    sizes: Sequence[int]
    costs: Sequence[BlockCost]
    tasks: Sequence[BlockTasks]
    starts: tuple[int, ...]

    def residuals(self, stage: int) -> KeptBytes:
        """What is kept from the forward to the backward pass: inside the blocks as it is sharded there, and values between blocks."""
        a, b = self._bounds[stage]
        found = Counter[int]()
        values = {value: block for block in reversed(range(a, b)) for value in self.tasks[block].residuals.values}
        for block in range(a, b):
            found[block] += self.costs[block].kept(self.tasks[block].residuals.inside)
        for value, block in values.items():
            found[block] += self.sizes[value]
        return tuple(found.items())

    def input_activations(self, stage: int) -> KeptBytes:
        """What a stage that recomputes keeps: the values that it reads of other stages."""
        a, b = self._bounds[stage]
        partition = self.tasks[0].stage.partition
        read = {value: block for block in reversed(range(a, b)) for value in partition.virtual_stages[block].input_activations}
        found = Counter[int]()
        for value, block in read.items():
            if not a <= partition.values[value].maker < b:
                found[block] += self.sizes[value]
        return tuple(found.items())

    @property
    def _bounds(self) -> list[tuple[int, int]]:
        return list(pairwise((0, *self.starts, len(self.costs))))


# Bytes of each parameter slice on one device of a stage: the slice, the sum of its gradients, and the optimiser's state for it.


class SliceBytes(NamedTuple):
    """Bytes on one device of a parameter slice, of its accumulated gradient, and of the optimiser's state for it."""

    param: int
    sums: int
    state: int

    @property
    def resident(self) -> int:
        return self.param + self.sums


def weigh_params(plan: Plan, network: Network) -> tuple[SliceBytes, ...]:
    """The bytes of each parameter slice. They do not depend on boundaries, and stay cached while one is dragged."""
    return _weigh_params(plan.updated(pipeline=None, name=""), network)


@cache_with_program(5)
def _weigh_params(plan: Plan, network: Network) -> tuple[SliceBytes, ...]:
    arguments = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    leaves = [(tensor, sharding) for tensor, sharding in arguments if tensor.role is Role.PARAMETER]
    states: list[list[tuple[Tensor, Sharding]]] = [[] for _ in network.parameter_paths]
    for tensor, sharding, leaf in zip(
        plan.program.arguments, plan.argument_shardings, leaves_of_arguments(network, plan.program.arguments), strict=True
    ):
        if leaf >= 0 and tensor.role is Role.OPTIMIZER_STATE:
            states[leaf].append((tensor, sharding))
    found: dict[tuple[int, bool], SliceBytes] = {}  # layers of a stack are alike
    for (leaf, layer), _ in network.flat.param_slices:
        if (leaf, layer is None) not in found:
            tensor, sharding = leaves[leaf]
            types = tensor.dtype, str(accumulator_type(tensor.dtype, network.sums))
            param_bytes, sum_bytes = (_local_bytes(tensor.shape, dtype, layer, sharding, plan) for dtype in types)
            state = sum(_local_bytes(each.shape, each.dtype, layer, placement, plan) for each, placement in states[leaf])
            has_master = plan.program.precision.master is not None
            copies = plan.hardware.runtime.copies_beside(tensor.dtype, has_master=has_master) if plan.hardware else 1.0
            found[leaf, layer is None] = SliceBytes(param_bytes, sum_bytes, round(state * copies))
    return tuple(found[leaf, layer is None] for (leaf, layer), _ in network.flat.param_slices)


@cache_with_owner
def leaves_of_arguments(network: Network, arguments: tuple[Tensor, ...]) -> tuple[int, ...]:
    """For each argument the number of the parameter that it is, or is the optimiser's state of; -1 for any other."""
    number = {path.partition("/")[2]: leaf for leaf, path in enumerate(network.parameter_paths)}
    found = []
    for tensor in arguments:
        is_state = tensor.role is Role.OPTIMIZER_STATE
        owner = find_parameter(tensor.path, number) if is_state else tensor.path.partition("/")[2]
        found.append(number.get(owner or "", -1) if tensor.role in (Role.PARAMETER, Role.OPTIMIZER_STATE) else -1)
    return tuple(found)


def _local_bytes(shape: tuple[int, ...], dtype: str, layer: int | None, sharding: Sharding, plan: Plan) -> int:
    """Bytes on one device; of a stacked tensor those of one layer."""
    dims = tuple(dim or () for dim in sharding.dims)
    if layer is not None:
        shape, dims = (1, *shape[1:]), ((), *dims[1:])
    tile = plan.hardware.chip.array_tile if plan.hardware else ()
    return tiled_bytes(tuple(Sharding(dims).local_shape(shape, plan.mesh)), dtype, tile)


# Bytes, on one device, of what blocks hand on: to each other, and from one half of a backward task to the other.


class HandedBytes(NamedTuple):
    """Bytes of what the gradients of a block's weights read: `made` by the first half of its backward task or arrived, and `kept` by its
    forward pass."""

    made: int
    kept: int


class ValueBytes(NamedTuple):
    """Bytes of a value between blocks as its maker leaves it: `held`, padded to the chip's tiles, and `sent` to another stage."""

    held: int
    sent: int


@cache_with_program(5)
def value_bytes(stage: StageContext, network: Network) -> tuple[ValueBytes, ...]:
    """Of each value in the order of `StagePartition.values` with a boundary at every block."""
    values = tasks_of(network)[0].stage.partition.values
    placed: dict[int, Sharding] = {}
    for block, laid in zip(tasks_of(network), laid_network(stage, network), strict=True):
        placed |= zip(block.stage.virtual_stage.output_activations, laid.outputs, strict=True)
    tiles = _tile_of(stage), ()
    return tuple(
        ValueBytes(*(_placed_bytes(value.aval, placed[number], stage, tile) for tile in tiles)) for number, value in enumerate(values)
    )


@cache_with_program(5)
def handed_bytes(stage: StageContext, network: Network) -> tuple[HandedBytes, ...]:
    """Of each block. Traces the halves of backward tasks: for schedules that split them."""
    laid = laid_network(stage, network)
    known = {each: _handed_by(each) for each in dict.fromkeys(laid)}
    return tuple(known[each] for each in laid)


def _handed_by(laid: LaidBlock) -> HandedBytes:
    block, stage = laid.block, laid.stage
    first, second = block.half_programs(stage.parts, recompute=False, add_separately=stage.adds_separately)
    placed = dict(stage.entering) | dict(place_results(first, stage) if first else ())
    found = {"pending": 0, "arriving": 0, "kept": 0, "input_activations": 0}
    for tensor in second.arguments if second else ():
        group = tensor.path.partition("/")[0]
        if tensor.role is Role.INPUT and group in found:
            sharding = placed["/".join(tensor.path.split("/")[:2])]
            found[group] += tiled_bytes(sharding.local_shape(tensor.shape, stage.plan.mesh), tensor.dtype, _tile_of(stage))
    return HandedBytes(found["pending"] + found["arriving"], found["kept"] + found["input_activations"])


def _tile_of(stage: StageContext) -> tuple[int, ...]:
    return stage.hardware.chip.array_tile if stage.hardware else ()


def _placed_bytes(aval: Any, sharding: Sharding, stage: StageContext, tile: tuple[int, ...]) -> int:
    """Bytes of a value of this shape and type, padded to tiles."""
    if not hasattr(aval.dtype, "itemsize"):
        return size_of(aval)
    return tiled_bytes(sharding.local_shape(aval.shape, stage.plan.mesh), str(aval.dtype), tile)
