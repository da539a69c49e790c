"""Bytes, on one device, of what blocks hand on: to each other, and from one half of a backward task to the other."""

from typing import Any, NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.cost.tiled_bytes import tiled_bytes
from workbench.pipeline.block_layouts import LaidBlock, laid_network, tasks_of
from workbench.pipeline.estimate_block_cost import StageContext, place_results
from workbench.tracing.jaxpr.equation_costs import size_of
from workbench.tracing.stage_partition.network_blocks import Network


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
