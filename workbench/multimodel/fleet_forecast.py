"""Forecast a fleet without executing it: partition of its models, length of their units, and schedule.

Sizes and seconds of a compiled and timed partition (`FleetTimes`) are used unchanged. Those of any other partition are
estimated from the layers and scaled by the ratio of compiled to estimated for the same model. On named hardware without
timings, seconds come from the planner's cost model.
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
MOST_PLANNED = 64  # limit of the number of devices on a board
MOST_IF_UNKNOWN = 8  # number of devices if the fleet gives none and the number attached is unknown


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive layers of a model: paths of the first and the last, and the bytes that a unit needs."""

    first: str
    last: str
    bytes: int


@dataclass(frozen=True)
class ModelForecast:
    """One partitioned model; the `source` of its seconds is `timed`, `scaled`, `planned` or `estimated`."""

    model: FleetModel
    shards: tuple[Shard, ...]
    job: Job
    source: str

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)


@dataclass(frozen=True)
class FleetForecast:
    """A partitioned and scheduled fleet; `usable`: bytes of each device that a unit may use, if limited."""

    fleet: Fleet
    devices: int
    models: tuple[ModelForecast, ...]
    usable: int | None = None

    @property
    def doubtful(self) -> tuple[ModelForecast, ...]:
        """Models with a shard whose estimate exceeds the memory; the compiled size will decide."""
        return tuple(model for model in self.models if self.usable and max(shard.bytes for shard in model.shards) > self.usable)

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(model.job for model in self.models)

    @cached_property
    def schedule(self) -> FleetSchedule:
        """The schedule. Raises `FleetError` if the policy is `exact` and the problem is too large for the solver."""
        return simulate(self.jobs, self.devices, self.policy, double_buffer=self.fleet.double_buffer)

    @cached_property
    def policy(self) -> Policy:
        policy = policy_named(self.fleet.policy)
        if policy.name != "exact":
            return policy
        from workbench.multimodel.optimal_schedule import prepare_policy  # a large import, only needed here

        return prepare_policy(policy, self.jobs, self.devices)

    @cached_property
    def bound(self) -> float:
        return lower_bound(self.jobs, self.devices)

    @property
    def ways(self) -> tuple[Strategy, ...]:
        return strategies(self.jobs, self.devices)

    @property
    def units(self) -> int:
        return sum(job.length for job in self.jobs)

    @property
    def source(self) -> str:
        return max((model.source for model in self.models), key=SOURCES.index)


def forecast(fleet: Fleet, timed: Sequence[FleetTimes] = (), attached: int | None = None) -> FleetForecast:
    """Forecast the fleet; `timed` is newest first, `attached` the number of devices, if known.

    Raises `FleetError` if a layer or a given shard does not fit, `PipelineError` if a program cannot be partitioned.
    """
    devices = count_devices(fleet, attached)
    timed = [times for times in timed if fleet.hardware is None or is_device_kind(fleet.hardware, times.device_kind)]
    room = _find_room(fleet, timed)
    return FleetForecast(
        fleet, devices, tuple(_forecast_model(fleet, model, timed, room) for model in fleet.models), room.usable if room else None
    )


def count_devices(fleet: Fleet, attached: int | None = None) -> int:
    """Number of devices that a fleet is planned for and trained on.

    Without a number in the fleet: one per model, up to the number of its hardware, else the number `attached`, else 8.
    """
    available = fleet.hardware.size if fleet.hardware else attached or MOST_IF_UNKNOWN
    return fleet.devices or min(len(fleet.models), available)


def plan_times(fleet: Fleet) -> FleetTimes:
    """Partition and time the models of a fleet with the cost model of its hardware, without executing them.

    Raises `FleetError` if the fleet names no hardware, or a layer or a given shard does not fit.
    """
    if fleet.hardware is None:
        raise FleetError("The fleet has no hardware to plan for.", ['set hardware="8 H100"', "time its units here"])
    planned, room = forecast(fleet), _find_room(fleet, ())
    starts = tuple(_starts_of(model) for model in planned.models)
    needs = tuple(tuple(shard.bytes for shard in model.shards) for model in planned.models)
    counts, kind = tuple(map(len, starts)), fleet.hardware.chip.name
    budget = room.capacity if room else None
    return FleetTimes(planned.jobs, counts, kind, budget, 0.0, fleet.memory, starts, needs, planned_for=str(fleet.hardware))


def _starts_of(model: ModelForecast) -> tuple[int, ...]:
    names = [layer.name for layer in layers_of(model.model.program)]
    return tuple(names.index(shard.first) for shard in model.shards)


def _forecast_model(fleet: Fleet, model: FleetModel, timed: Sequence[FleetTimes], room: Room | None) -> ModelForecast:
    layers = layers_of(model.program)
    matches = [(each.memory, times) for each in timed if (times := each.of(model)) and times.starts[-1] < len(layers)]
    known_times = [times for _, times in matches]
    exact = next((times for memory, times in matches if memory == fleet.memory and times.cuts in (None, model.cuts)), None)
    factor = _measured_factor(layers, known_times)
    starts = exact.starts if exact else _find_starts(model, layers, factor, room, is_compiled=bool(known_times))
    same_partition = next((each for each in known_times if each.starts == starts), None)
    if same_partition:
        job = replace(same_partition.job, mini_batches=model.mini_batches, epochs=model.epochs)
        return ModelForecast(model, _make_shards(layers, starts, same_partition.needs), job, "timed")
    sizes = [int(shard_bytes(layers, *ends) * factor) for ends in _pair_ends(layers, starts)]
    estimate = estimated_job(model, starts)
    if not known_times and fleet.hardware:
        return ModelForecast(model, _make_shards(layers, starts, sizes), planned_job(model, starts, fleet.hardware), "planned")
    if not known_times:
        return ModelForecast(model, _make_shards(layers, starts, sizes), estimate, "estimated")
    pace = known_times[0].job.mini_batch_seconds / (estimated_job(model, known_times[0].starts).mini_batch_seconds or 1.0)
    return ModelForecast(model, _make_shards(layers, starts, sizes), scale_job(estimate, pace), "scaled")


def _find_room(fleet: Fleet, timed: Sequence[FleetTimes]) -> Room | None:
    """Usable memory of a unit: the fleet's budget, limited by its hardware or a timed device."""
    limit = next((each.budget for each in timed if each.budget != each.memory), fleet.hardware.chip.memory if fleet.hardware else None)
    budget = min((each for each in (fleet.memory, limit) if each is not None), default=None)
    return None if budget is None else Room(budget, fleet.buffer if fleet.double_buffer else 0.0)


def _find_starts(model: FleetModel, layers: Sequence[Layer], factor: float, room: Room | None, *, is_compiled: bool) -> tuple[int, ...]:
    """Choose a model's first layers of shards like the executor, but from estimates.

    Without compiled shards (`is_compiled`), a layer is not refused for its activations.
    """
    names = [layer.name for layer in layers]
    if unknown := next((each for each in model.cuts if each not in names[1:]), None):
        raise FleetError(f"Model `{model.name}` has a cut at `{unknown}`, which is not one of its blocks.", names[1:9])
    cut_starts = (0, *sorted(names.index(each) for each in model.cuts)) if model.cuts else None
    if room is None:
        return cut_starts or (0,)
    try:
        scaled = _scale_layers(layers, factor) if is_compiled else _clip_activations(layers, room.usable)
        return greedy_shards(scaled, [room]) if cut_starts is None else verify_shards(scaled, cut_starts, [room])
    except FleetError as error:
        raise FleetError(f"Model `{model.name}`: {error.message}", error.ways_out) from None


def _scale_layers(layers: Sequence[Layer], factor: float) -> list[Layer]:
    return [
        Layer(layer.name, int(layer.resident * factor), int(layer.residuals * factor), int(layer.input_activations * factor))
        for layer in layers
    ]


def _clip_activations(layers: Sequence[Layer], usable: int) -> list[Layer]:
    after = [*(layer.input_activations for layer in layers[1:]), 0]
    return [
        replace(layer, residuals=max(0, min(layer.residuals, usable - layer.resident - layer.input_activations - then)))
        for layer, then in zip(layers, after, strict=True)
    ]


def _measured_factor(layers: Sequence[Layer], known: Sequence[ModelTimes]) -> float:
    ratios = [
        need / estimate
        for times in known
        for need, ends in zip(times.needs, _pair_ends(layers, times.starts), strict=True)
        if (estimate := shard_bytes(layers, *ends))
    ]
    return max(ratios, default=1.0)


def _pair_ends(layers: Sequence[Layer], starts: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(starts, [*starts[1:], len(layers)], strict=True))


def _make_shards(layers: Sequence[Layer], starts: Sequence[int], sizes: Sequence[int]) -> tuple[Shard, ...]:
    ranges = zip(_pair_ends(layers, starts), sizes, strict=True)
    return tuple(Shard(layers[begin].name, layers[end - 1].name, size) for (begin, end), size in ranges)


# Seconds of a model's units by the planner's cost model, on hardware that need not be attached: each block of the network is
# estimated as a separate program on one device, and transfers take the bandwidth between device and host.

_ONE_DEVICE = Mesh("device:1")


class PlannedLayer(NamedTuple):
    """One block on one device: seconds of its passes and its update; bytes of its parameters and its optimizer state."""

    layer: Layer
    forward: float
    backward: float
    update: float
    parameters: int
    state: int


@cache_with_program(5)
def plan_layers(program: Program, hardware: Hardware) -> tuple[PlannedLayer, ...]:
    """Return blocks in order for one mini-batch on one device; raises `PipelineError` if partitioning fails."""
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
    """Return the model, partitioned before the blocks `starts`, with unit times on this hardware."""
    planned = plan_layers(model.program, hardware)
    shards = [planned[begin:end] for begin, end in pairwise([*starts, len(planned)])]
    inputs = [shard[0].layer.input_activations for shard in shards]
    host, last = hardware.chip.host_bandwidth, len(shards) - 1

    def forward(shard: int) -> Unit:
        blocks = shards[shard]
        parameters = sum(block.parameters for block in blocks)
        return Unit(shard, Pass.FORWARD, sum(block.forward for block in blocks), parameters / host, 0.0, inputs[shard] / host)

    def backward(shard: int) -> Unit:
        """Recompute the shard's forward pass before its backward pass; the last shard's forward pass runs here only."""
        blocks = shards[shard]
        seconds = sum(block.forward + block.backward + block.update for block in blocks)
        moved = sum(block.parameters + block.state for block in blocks) / host
        gradient_bytes = 0 if shard == last else inputs[shard + 1]
        kind = Pass.FORWARD_LOSS if shard == last else Pass.BACKWARD
        return Unit(shard, kind, seconds, moved, moved, (inputs[shard] + gradient_bytes) / host)

    units = (*map(forward, range(last)), *map(backward, reversed(range(last + 1))))
    return Job(model.name, units, model.mini_batches, model.epochs)
