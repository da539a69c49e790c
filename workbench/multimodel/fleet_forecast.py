"""Forecast of a fleet: how its models are partitioned, how long their units are, and the schedule that follows. Nothing is executed.

Sizes and seconds of a partition that was compiled and timed (`FleetTimes`) are used as they are. Those of any other partition are estimated
from the layers, and scaled by the ratio of compiled to estimated for the same model. For hardware that is named, and was not timed, seconds
are those of the planner's cost model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.layout import Layout
from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.errors import FleetError
from workbench.hardware.catalogue import is_device_kind
from workbench.hardware.hardware import Hardware
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_measurement import FleetTimes, ModelTimes
from workbench.multimodel.greedy_partition import Layer, Room, greedy_shards, shard_bytes, verify_shards
from workbench.multimodel.policies import Policy, policy_named
from workbench.multimodel.simulate_fleet import simulate
from workbench.multimodel.unit_chains import Job, Pass, Unit
from workbench.multimodel.unit_estimates import estimated_job, layers_of, scale_job, state_ratio
from workbench.multimodel.unit_schedule import FleetSchedule, Strategy, lower_bound, strategies
from workbench.pipeline.balance import network_blocks
from workbench.pipeline.estimate_block_cost import StageContext
from workbench.pipeline.estimate_stage_costs import stage_block_costs
from workbench.plan.plan import Plan
from workbench.tracing.grad_accumulation.gradient_partial_sums import NO_GROUPS
from workbench.tracing.stage_partition.trace_network import network_of

SOURCES = ("timed", "scaled", "planned", "estimated")
MOST_PLANNED = 64  # devices that a board plans for
MOST_IF_UNKNOWN = 8  # devices to plan for if a fleet gives no number and the number attached is unknown


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive layers of a model: the paths of the first and the last, and the bytes that a unit of it needs."""

    first: str
    last: str
    bytes: int


@dataclass(frozen=True)
class ModelForecast:
    """One partitioned model. `source` says where its seconds come from: `timed`, `scaled` from another partition that was timed,
    `planned` by the cost model for hardware that is named, or `estimated`."""

    model: FleetModel
    shards: tuple[Shard, ...]
    job: Job
    source: str

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.shards)


@dataclass(frozen=True)
class FleetForecast:
    """A fleet on so many devices, partitioned and scheduled; `usable` are the bytes of each that a unit may use, if they are limited."""

    fleet: Fleet
    devices: int
    models: tuple[ModelForecast, ...]
    usable: int | None = None

    @property
    def doubtful(self) -> tuple[ModelForecast, ...]:
        """Models with a shard whose estimate is larger than the memory: its compiled size will decide."""
        return tuple(each for each in self.models if self.usable and max(shard.bytes for shard in each.shards) > self.usable)

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(each.job for each in self.models)

    @cached_property
    def schedule(self) -> FleetSchedule:
        """The schedule. Raises `FleetError` where `exact` is asked for, and too large for the solver."""
        return simulate(self.jobs, self.devices, self.policy, double_buffer=self.fleet.double_buffer)

    @cached_property
    def policy(self) -> Policy:
        """The policy, ready to decide."""
        policy = policy_named(self.fleet.policy)
        if policy.name != "exact":
            return policy
        from workbench.multimodel.optimal_schedule import prepare_policy  # the solver is a large import, and needed for this alone

        return prepare_policy(policy, self.jobs, self.devices)

    @cached_property
    def bound(self) -> float:
        return lower_bound(self.jobs, self.devices)

    @property
    def ways(self) -> tuple[Strategy, ...]:
        return strategies(self.jobs, self.devices)

    @property
    def units(self) -> int:
        return sum(each.length for each in self.jobs)

    @property
    def source(self) -> str:
        """The least certain source among its models."""
        return max((each.source for each in self.models), key=SOURCES.index)


def forecast(fleet: Fleet, timed: Sequence[FleetTimes] = (), attached: int | None = None) -> FleetForecast:
    """The forecast of the fleet; `timed` has the newest first. `attached` is the number of devices, if that is known.

    Raises `FleetError` for a layer, or a given shard, that does not fit; `PipelineError` for a program that cannot be partitioned.
    """
    devices = count_devices(fleet, attached)
    timed = [each for each in timed if fleet.hardware is None or is_device_kind(fleet.hardware, each.device_kind)]
    room = _find_room(fleet, timed)
    return FleetForecast(
        fleet, devices, tuple(_forecast_model(fleet, each, timed, room) for each in fleet.models), room.usable if room else None
    )


def count_devices(fleet: Fleet, attached: int | None = None) -> int:
    """The number of devices it is planned for and trained on: a fleet without a number gets one per model, up to the number of its
    hardware, else the number `attached`; eight at most where that is not known."""
    there = fleet.hardware.size if fleet.hardware else attached or MOST_IF_UNKNOWN
    return fleet.devices or min(len(fleet.models), there)


def plan_times(fleet: Fleet) -> FleetTimes:
    """The models of a fleet, partitioned and timed by the cost model for the fleet's hardware, for the simulator: nothing is executed.

    Raises `FleetError` for a fleet that names no hardware, and for a layer, or a given shard, that does not fit.
    """
    if fleet.hardware is None:
        raise FleetError("The fleet has no hardware to plan for.", ['set hardware="8 H100"', "time its units here"])
    seen, room = forecast(fleet), _find_room(fleet, ())
    starts = tuple(_starts_of(each) for each in seen.models)
    needs = tuple(tuple(shard.bytes for shard in each.shards) for each in seen.models)
    counts, kind = tuple(map(len, starts)), fleet.hardware.chip.name
    budget = room.capacity if room else None
    return FleetTimes(seen.jobs, counts, kind, budget, 0.0, fleet.memory, starts, needs, planned_for=str(fleet.hardware))


def _starts_of(model: ModelForecast) -> tuple[int, ...]:
    names = [each.name for each in layers_of(model.model.program)]
    return tuple(names.index(shard.first) for shard in model.shards)


def _forecast_model(fleet: Fleet, model: FleetModel, timed: Sequence[FleetTimes], room: Room | None) -> ModelForecast:
    layers = layers_of(model.program)
    found = [(each.memory, times) for each in timed if (times := each.of(model)) and times.starts[-1] < len(layers)]
    known = [times for _, times in found]
    exact = next((times for memory, times in found if memory == fleet.memory and times.cuts in (None, model.cuts)), None)
    factor = _measured_factor(layers, known)
    given = exact.starts if exact else _find_starts(model, layers, factor, room, is_compiled=bool(known))
    same = next((each for each in known if each.starts == given), None)
    if same:
        job = replace(same.job, mini_batches=model.mini_batches, epochs=model.epochs)
        return ModelForecast(model, _make_shards(layers, given, same.needs), job, "timed")
    sizes = [int(shard_bytes(layers, *ends) * factor) for ends in _pair_ends(layers, given)]
    estimate = estimated_job(model, given)
    if not known and fleet.hardware:
        return ModelForecast(model, _make_shards(layers, given, sizes), planned_job(model, given, fleet.hardware), "planned")
    if not known:
        return ModelForecast(model, _make_shards(layers, given, sizes), estimate, "estimated")
    pace = known[0].job.mini_batch_seconds / (estimated_job(model, known[0].starts).mini_batch_seconds or 1.0)
    return ModelForecast(model, _make_shards(layers, given, sizes), scale_job(estimate, pace), "scaled")


def _find_room(fleet: Fleet, timed: Sequence[FleetTimes]) -> Room | None:
    """The bytes of a device that a unit may use: the fleet's budget, limited by the memory of its hardware, or of the device where a timing
    knows that."""
    limit = next((each.budget for each in timed if each.budget != each.memory), fleet.hardware.chip.memory if fleet.hardware else None)
    budget = min((each for each in (fleet.memory, limit) if each is not None), default=None)
    return None if budget is None else Room(budget, fleet.buffer if fleet.double_buffer else 0.0)


def _find_starts(model: FleetModel, layers: Sequence[Layer], factor: float, room: Room | None, *, is_compiled: bool) -> tuple[int, ...]:
    """Where the shards of a model begin, as the executor will find it, but from estimates instead of compiled sizes.

    Unless it `is_compiled`, that is, shards of the model have been compiled, a layer's activations are no reason to refuse it.
    """
    names = [each.name for each in layers]
    if unknown := next((each for each in model.cuts if each not in names[1:]), None):
        raise FleetError(f"Model `{model.name}` has a cut at `{unknown}`, which is not one of its blocks.", names[1:9])
    given = (0, *sorted(names.index(each) for each in model.cuts)) if model.cuts else None
    if room is None:
        return given or (0,)
    try:
        found = _scale_layers(layers, factor) if is_compiled else _clip_activations(layers, room.usable)
        return greedy_shards(found, [room]) if given is None else verify_shards(found, given, [room])
    except FleetError as error:
        raise FleetError(f"Model `{model.name}`: {error.message}", error.ways_out) from None


def _scale_layers(layers: Sequence[Layer], factor: float) -> list[Layer]:
    return [
        Layer(each.name, int(each.resident * factor), int(each.residuals * factor), int(each.input_activations * factor)) for each in layers
    ]


def _clip_activations(layers: Sequence[Layer], usable: int) -> list[Layer]:
    """The layers with activations reduced so that each layer's parameters fit."""
    after = [*(each.input_activations for each in layers[1:]), 0]
    return [
        replace(each, residuals=max(0, min(each.residuals, usable - each.resident - each.input_activations - then)))
        for each, then in zip(layers, after, strict=True)
    ]


def _measured_factor(layers: Sequence[Layer], known: Sequence[ModelTimes]) -> float:
    """The largest ratio of compiled to estimated bytes of a shard."""
    found = [
        need / estimate
        for each in known
        for need, ends in zip(each.needs, _pair_ends(layers, each.starts), strict=True)
        if (estimate := shard_bytes(layers, *ends))
    ]
    return max(found, default=1.0)


def _pair_ends(layers: Sequence[Layer], starts: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(starts, [*starts[1:], len(layers)], strict=True))


def _make_shards(layers: Sequence[Layer], starts: Sequence[int], sizes: Sequence[int]) -> tuple[Shard, ...]:
    found = zip(_pair_ends(layers, starts), sizes, strict=True)
    return tuple(Shard(layers[begin].name, layers[end - 1].name, size) for (begin, end), size in found)


# Seconds of a model's units on hardware that need not be attached, from the cost model of the planner: the blocks of its network, each
# estimated as a program of its own on one device, and transfers at the bandwidth between a device and its host.

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
