"""Seconds of a model's units on hardware that need not be attached, from the cost model of the planner: the blocks of its network, each
estimated as a program of its own on one device, and transfers at the bandwidth between a device and its host.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.hardware.hardware import Hardware
from workbench.multimodel.fleet import FleetModel
from workbench.multimodel.greedy_partition import Layer
from workbench.multimodel.unit_chains import Job, Pass, Unit
from workbench.multimodel.unit_estimates import layers_of, state_ratio
from workbench.pipeline.choose_boundaries import network_blocks
from workbench.pipeline.estimate_block_cost import StageContext
from workbench.pipeline.estimate_stage_costs import stage_block_costs
from workbench.plan.plan import Plan
from workbench.tracing.grad_accumulation.gradient_partial_sums import NO_GROUPS
from workbench.tracing.stage_partition.trace_network import network_of

_ONE_DEVICE = Mesh("device:1")


class PlannedLayer(NamedTuple):
    """One block on one device: seconds of its passes and of its update; bytes of its parameters and of the optimiser's state for them."""

    layer: Layer
    forward: float
    backward: float
    update: float
    parameters: int
    state: int


@cache_with_program(5)
def plan_layers(program: Program, hardware: Hardware) -> tuple[PlannedLayer, ...]:
    """The blocks of a program in order, for one mini-batch on one device of this hardware. Raises `PipelineError` for a program that cannot
    be partitioned."""
    plan = Plan(program, _ONE_DEVICE, hardware=hardware)
    stage = StageContext(program, Layout(""), hardware, _ONE_DEVICE, (), NO_GROUPS, plan)
    ratio, blocks, layers = state_ratio(program), network_blocks(program), layers_of(program)
    return tuple(
        PlannedLayer(
            layer,
            cost.forward,
            cost.backward_input + cost.backward_weight,
            2 * layer.resident / hardware.chip.memory_bandwidth,  # reads and writes parameters, gradients and state once
            block.parameter_bytes,
            ceil(block.parameter_bytes * ratio),
        )
        for layer, block, cost in zip(layers, blocks, stage_block_costs(stage, network_of(program, 1)), strict=True)
    )


def planned_job(model: FleetModel, starts: Sequence[int], hardware: Hardware) -> Job:
    """The model partitioned before the blocks `starts`, with the units that this hardware would take."""
    planned = plan_layers(model.program, hardware)
    shards = [planned[begin:end] for begin, end in pairwise([*starts, len(planned)])]
    inputs = [shard[0].layer.input_activations for shard in shards]
    host, last = hardware.chip.host_bandwidth, len(shards) - 1

    def forward(shard: int) -> Unit:
        blocks = shards[shard]
        parameters = sum(each.parameters for each in blocks)
        return Unit(shard, Pass.FORWARD, sum(each.forward for each in blocks), parameters / host, 0.0, inputs[shard] / host)

    def backward(shard: int) -> Unit:
        """Computes the forward pass of its shard again, or for the first time: that of the last shard."""
        blocks = shards[shard]
        seconds = sum(each.forward + each.backward + each.update for each in blocks)
        moved = sum(each.parameters + each.state for each in blocks) / host
        arriving = 0 if shard == last else inputs[shard + 1]
        kind = Pass.FORWARD_LOSS if shard == last else Pass.BACKWARD
        return Unit(shard, kind, seconds, moved, moved, (inputs[shard] + arriving) / host)

    units = (*map(forward, range(last)), *map(backward, reversed(range(last + 1))))
    return Job(model.name, units, model.mini_batches, model.epochs)
