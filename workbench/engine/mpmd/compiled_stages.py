"""All stages of a pipelined plan, compiled: their tasks, updates, and state initialization."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules import schedule_named
from workbench.core.schedules.schedule import Kind, Orders
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.engine.mpmd.stage_programs import CompiledTask, Compiler, StageDevices, StagePrograms, partial_sum_sharding, stage_devices
from workbench.engine.spmd.device_mesh import device_mesh, put_sharded
from workbench.pipeline.estimate_block_cost import make_stage_context
from workbench.pipeline.estimate_stage_costs import plan_starts
from workbench.pipeline.stage_memory import lay_out_stages
from workbench.pipeline.staged_program import find_data_parallel_groups, staged_program
from workbench.plan.plan import Plan
from workbench.tracing.grad_accumulation.accumulate_gradients import partial_sums_spec
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.partition_network import StagePartition, partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask
from workbench.tracing.stage_partition.stage_update import StageUpdate, accumulator, common_sums, owners, stage_update


class Sample(NamedTuple):
    """Devices to compile for without running.

    Each stage is compiled over the whole mesh, all of whose devices then act as those of one stage: a compiler accepts
    only a whole mesh of absent hardware.
    """

    mesh: jax.sharding.Mesh
    compiler: Compiler


SpecsAndShardings = tuple[list[jax.ShapeDtypeStruct], list[NamedSharding]]
_SCALAR = jax.ShapeDtypeStruct((), jnp.float32)
TaskKey = tuple[Kind, int, bool]  # kind, stage, whether the micro-batch is recomputed


@dataclass
class Stages:
    """The stages of a plan on their devices.

    - `tasks[kind, stage, recompute]`: compiled tasks; empty ones are missing;
    - `compiled_sums[stage]`: sums of its partial sums, if any, of the parameter slices `partial_sum_params(stage)`;
    - `updates[stage]`, and the compiled `finish(*losses, *weights) -> (loss, total weight)`;
    - `compiled_zeros[stage]`: initial gradient sums, owned and borrowed;
    - `compiled_terms[stage]` and `add_up(*terms) -> sums`, if the optimizer takes sums over all parameters.
    """

    plan: Plan
    partition: StagePartition
    orders: Orders
    tasks: dict[TaskKey, CompiledTask] = field(default_factory=dict)
    programs: list[StagePrograms] = field(default_factory=list)
    updates: list[StageUpdate] = field(default_factory=list)
    compiled_updates: list[jax.stages.Compiled] = field(default_factory=list)
    compiled_sums: dict[int, jax.stages.Compiled] = field(default_factory=dict)
    compiled_zeros: list[jax.stages.Compiled] = field(default_factory=list)
    compiled_terms: dict[int, jax.stages.Compiled] = field(default_factory=dict)
    add_up: Any = None
    finish: Any = None

    @property
    def spec(self) -> PipelineSpec:
        assert self.plan.pipeline is not None, "a plan without a pipeline has no stages"
        return self.plan.pipeline

    @property
    def count(self) -> int:
        return len(self.partition.virtual_stages)

    @cached_property
    def owners(self) -> tuple[int, ...]:
        return owners(self.partition)

    def borrowed_params(self, stage: int) -> tuple[int, ...]:
        """Parameter slices that a stage uses and another one updates."""
        used = self.trained_params(stage)
        return tuple(param_slice for param_slice in used if self.owners[param_slice] != stage)

    def trained_params(self, stage: int) -> tuple[int, ...]:
        """Parameter slices that a stage uses and that have a gradient."""
        network = self.partition.network
        return tuple(param_slice for param_slice in self.partition.virtual_stages[stage].param_slices if network.trains(param_slice))

    def borrowed_grads(self, stage: int) -> tuple[tuple[int, int], ...]:
        """Return (index among the owned, other stage) for each parameter slice of this stage that another one uses too."""
        owned = self.updates[stage].owned
        shared = self.partition.shared
        return tuple((place, user) for place, param_slice in enumerate(owned) for user in shared.get(param_slice, ()) if user != stage)

    def partial_sum_params(self, stage: int) -> tuple[int, ...]:
        """Parameter slices whose gradients a stage keeps as partial sums until the end of a step."""
        places = {place for (_, number, _), task in self.tasks.items() if number == stage for place in task.split}
        return tuple(self.partition.virtual_stages[stage].param_slices[place] for place in sorted(places))

    def total(self, stage: int, param_slice: int) -> tuple[jax.ShapeDtypeStruct, NamedSharding]:
        spec = accumulator(_param_slice_spec(self, param_slice), self.partition.network.sums)
        place = param_slice_sharding(self, self.devices(stage), param_slice)
        parts = self.programs[stage].parts
        return (
            (partial_sums_spec(spec, parts), partial_sum_sharding(place, parts))
            if param_slice in self.partial_sum_params(stage)
            else (spec, place)
        )

    def users_of_batch(self, leaf: int) -> tuple[tuple[int, NamedSharding], ...]:
        return tuple(
            (virtual_stage.number, self.programs[virtual_stage.number].batch[virtual_stage.batch.index(leaf)])
            for virtual_stage in self.partition.virtual_stages
            if leaf in virtual_stage.batch
        )

    def devices(self, stage: int) -> StageDevices:
        return self.programs[stage].devices

    def init_state(self) -> Mapping[tuple[str, int, int], jax.Array]:
        """Initial parameters, optimizer state and gradient sums by slot name, each created on its devices."""
        state: dict[tuple[str, int, int], jax.Array] = {}
        for stage in range(self.count):
            state |= _init_stage_state(self, stage)
        return state


def compile_stages(plan: Plan, tell: Callable[[str, float], None], sample: Sample | None = None) -> Stages:
    """Compile stage after stage, since values keep their shardings between stages; `sample`: absent devices."""
    staged = staged_program(plan)
    spec = staged.spec
    sums = common_sums(plan.program)
    starts = plan_starts(staged)
    partition = partition_network(staged.network, starts)
    laid = lay_out_stages(make_stage_context(staged), staged.network, starts) if plan.layout.is_annotated else ()
    stages = Stages(plan, partition, schedule_named(spec.schedule).tasks(spec.stages, spec.micro_batches, spec.chunks))
    mesh, parts = sample.mesh if sample else device_mesh(plan), find_data_parallel_groups(staged)
    for number in range(stages.count):
        tell(f"compiling stage {number + 1} of {stages.count}, forward", number / (2 * stages.count))
        devices = StageDevices(mesh, plan, sample.compiler) if sample else stage_devices(plan, mesh, spec.axis, spec.device_of(number))
        programs = _make_programs(stages, devices, parts, number)
        programs.laid = laid[number] if laid else None
        stages.programs.append(programs)
        _compile_forward(stages, number)
    for number in range(stages.count):
        tell(f"compiling stage {number + 1} of {stages.count}, backward", (stages.count + number) / (2 * stages.count))
        _compile_backward(stages, number)
    stages.updates = [stage_update(plan.program, partition, number, sums) for number in range(stages.count)]
    stages.compiled_updates = [_compile_update(stages, number) for number in range(stages.count)]
    stages.compiled_sums = {number: _compile_sums(stages, number) for number in range(stages.count) if stages.partial_sum_params(number)}
    stages.compiled_zeros = [_compile_zeros(stages, number) for number in range(stages.count)]
    stages.compiled_terms = {number: _compile_terms(stages, number) for number, update in enumerate(stages.updates) if update.sums}
    stages.add_up = _compile_add_up(stages, len(sums.sums)) if sums.sums else None
    stages.finish = _compile_finish(stages)
    return stages


def _make_programs(stages: Stages, devices: StageDevices, parts: DataParallelGroups, number: int) -> StagePrograms:
    partition, plan = stages.partition, stages.plan
    virtual_stage = partition.virtual_stages[number]
    inputs = [plan.argument_shardings[i] for i in plan.program.inputs]
    input_activations = tuple(devices.like(_leaving_sharding(stages, value)) for value in virtual_stage.input_activations)
    return StagePrograms(
        StageTasks(partition, virtual_stage),
        devices,
        input_activations,
        tuple(param_slice_sharding(stages, devices, param_slice) for param_slice in virtual_stage.param_slices),
        tuple(devices.sharding(inputs[leaf]) for leaf in virtual_stage.batch),
        parts,
    )


def _leaving_sharding(stages: Stages, value: int) -> Any:
    maker = stages.partition.values[value].maker
    place = stages.partition.virtual_stages[maker].output_activations.index(value)
    return stages.programs[maker].shardings["output_activations", place]


def param_slice_sharding(stages: Stages, devices: StageDevices, param_slice: int) -> NamedSharding:
    plan = stages.plan
    leaf, layer = stages.partition.network.flat.param_slices[param_slice][0]
    parameters = [i for i, argument in enumerate(plan.program.arguments) if argument.role is Role.PARAMETER]
    return devices.sharding(plan.argument_shardings[parameters[leaf]], layer=layer is not None)


def _recompute_modes(stages: Stages, number: int) -> list[bool]:
    spec = stages.spec
    return sorted({spec.recomputes(i, spec.device_of(number)) for i in range(spec.micro_batches)})


def _compile_forward(stages: Stages, number: int) -> None:
    programs = stages.programs[number]
    for recompute in _recompute_modes(stages, number):
        task = programs.stage.forward if recompute else programs.stage.forward_keeping
        stages.tasks[Kind.FORWARD, number, recompute] = programs.compile(task, f"forward_{number}")


def _compile_backward(stages: Stages, number: int) -> None:
    programs = stages.programs[number]
    halves = (Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT) if schedule_named(stages.spec.schedule).splits_backward else (Kind.BACKWARD,)
    for recompute in _recompute_modes(stages, number):
        for kind in halves:
            task: TracedStageTask = getattr(programs.stage, kind.value)(recompute=recompute)
            if task.gives:
                stages.tasks[kind, number, recompute] = programs.compile(task, f"{kind.value}_{number}")


def _compile_update(stages: Stages, number: int) -> jax.stages.Compiled:
    """Compile `(*pieces, *state, *totals, *borrowed_grads totals, [weight], *sums) -> (token, *pieces, *state)`.

    Parameter slices (`pieces`) and state are updated in place; totals are zeroed separately (`_compile_zeros`), because
    XLA would first copy them all in a common program. `borrowed_grads` totals of other stages are added to the own
    ones. `weight`: of all micro-batches, unless it is known; `sums`: over all stages' parameters, if the optimizer
    takes any.
    """
    devices, update = stages.devices(number), stages.updates[number]
    specs, places = _lay_out_update(stages, number)
    kept = len(update.owned) + len(update.state)

    def run(*values: Any) -> tuple[Any, ...]:
        weights, moments, totals, total_weight, global_sums = _split_values(stages, number, values)
        if update.finish is None:
            fresh, after = update.call(weights, moments, totals, total_weight)
        else:
            fresh, after = update.finish(weights, moments, totals, total_weight, global_sums)
        return (jnp.zeros(()), *fresh, *after)

    run.__name__ = f"update_{number}"
    specs, places = [*specs, *[_SCALAR] * update.sums], [*places, *[devices.whole] * update.sums]
    return devices.compile(run, specs, places, (devices.whole, *places[:kept]), donated=kept)


def _compile_terms(stages: Stages, number: int) -> jax.stages.Compiled:
    """Compile the stage's terms of the sums over all parameters; arguments as in `_compile_update`, without the sums."""
    devices, update = stages.devices(number), stages.updates[number]

    def run(*values: Any) -> tuple[Any, ...]:
        weights, moments, totals, total_weight, _ = _split_values(stages, number, values)
        return tuple(term.astype(jnp.float32) for term in update.terms(weights, moments, totals, total_weight))

    return devices.compile(run, *_lay_out_update(stages, number), devices.whole)


def _split_values(stages: Stages, number: int, values: Sequence[Any]) -> tuple[Any, ...]:
    """Split arguments into parameter slices, state, totals including borrowed ones, weight, and the rest."""
    n, s = len(stages.updates[number].owned), len(stages.updates[number].state)
    borrowed_grads, known = stages.borrowed_grads(number), _known_weight(stages)
    weights, moments, totals, rest = values[:n], values[n : n + s], list(values[n + s : 2 * n + s]), values[2 * n + s :]
    for (place, _), borrowed in zip(borrowed_grads, rest, strict=False):
        totals[place] = totals[place] + borrowed
    rest = rest[len(borrowed_grads) :]
    return (weights, moments, totals, rest[0], rest[1:]) if known is None else (weights, moments, totals, known, rest)


def _compile_zeros(stages: Stages, number: int) -> jax.stages.Compiled:
    """Compile `(*totals) -> totals` of the next step: zeros in the existing buffers."""
    sums, places = _lay_out_totals(stages, number, (*stages.updates[number].owned, *stages.borrowed_params(number)))

    def zeros(*_: Any) -> tuple[Any, ...]:
        return tuple(jnp.zeros(spec.shape, spec.dtype) for spec in sums)

    return stages.devices(number).compile(zeros, sums, places, tuple(places), donated=len(sums))


def _compile_sums(stages: Stages, number: int) -> jax.stages.Compiled:
    """Compile `(*partial sums) -> (token, *sums)`, the sum over devices once per step."""
    devices, split = stages.devices(number), stages.partial_sum_params(number)

    def sums(*values: Any) -> tuple[Any, ...]:
        with jax.named_scope("update"):  # the planner's name: `stage_work.update_collectives`
            return (jnp.zeros(()), *(value.sum(axis=0) for value in values))

    sums.__name__ = f"sums_{number}"
    results = (devices.whole, *(param_slice_sharding(stages, devices, param_slice) for param_slice in split))
    return devices.compile(sums, *_lay_out_totals(stages, number, split), results)


def _lay_out_totals(stages: Stages, number: int, param_slices: Iterable[int]) -> SpecsAndShardings:
    totals = [stages.total(number, param_slice) for param_slice in param_slices]
    return [spec for spec, _ in totals], [place for _, place in totals]


def _compile_add_up(stages: Stages, sums: int) -> jax.stages.Compiled:
    devices = stages.devices(0)

    def add_up(*terms: Any) -> tuple[Any, ...]:
        return tuple(sum(terms[place::sums]) for place in range(sums))

    count = sums * len(stages.compiled_terms)
    return devices.compile(add_up, [_SCALAR] * count, [devices.whole] * count, devices.whole)


def _known_weight(stages: Stages) -> float | None:
    return None if stages.partition.network.flat.weight is not None else float(stages.spec.micro_batches)


def _lay_out_update(stages: Stages, number: int) -> SpecsAndShardings:
    """Return the arguments of a stage's update: parameter slices, state, totals, borrowed totals, and an unknown weight."""
    devices, update = stages.devices(number), stages.updates[number]
    specs = [_param_slice_spec(stages, param_slice) for param_slice in update.owned]
    places = [param_slice_sharding(stages, devices, param_slice) for param_slice in update.owned]
    totals = [*range(len(update.owned)), *(place for place, _ in stages.borrowed_grads(number))]
    total_specs, total_places = [update.accumulators[place] for place in totals], [places[place] for place in totals]
    for argument, layer in update.state:
        tensor = stages.plan.program.arguments[argument]
        shape = tensor.shape if layer is None else (1, *tensor.shape[1:])
        specs.append(jax.ShapeDtypeStruct(shape, jnp.dtype(tensor.dtype)))
        places.append(devices.sharding(stages.plan.argument_shardings[argument], layer=layer is not None))
    weights = _known_weight(stages) is None
    return [*specs, *total_specs, *[_SCALAR] * weights], [*places, *total_places, *[devices.whole] * weights]


def _param_slice_spec(stages: Stages, param_slice: int) -> jax.ShapeDtypeStruct:
    aval = stages.partition.network.flat.param_slices[param_slice][1].aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _compile_finish(stages: Stages) -> jax.stages.Compiled:
    count = stages.spec.micro_batches
    devices = stages.devices(stages.count - 1)
    has_weight = stages.partition.network.flat.weight is not None
    dtype = stages.partition.network.flat.loss.aval.dtype

    def finish(*values: Any) -> tuple[Any, Any]:
        total = sum(values[count:]) if has_weight else jnp.asarray(float(count), dtype)
        return sum(values[:count]) / total, jnp.asarray(total, jnp.float32)

    specs = [jax.ShapeDtypeStruct((), dtype)] * (2 * count if has_weight else count)
    return devices.compile(finish, specs, [devices.whole] * len(specs), devices.whole)


def _init_stage_state(stages: Stages, stage: int) -> dict[tuple[str, int, int], jax.Array]:
    """Create one stage's state under `jit`, which computes only this part of the program's initialization."""
    program, devices = stages.plan.program, stages.devices(stage)
    flat, step = stages.partition.network.flat, program.step
    parameters = [i for i, argument in enumerate(program.arguments) if argument.role is Role.PARAMETER]
    at = {argument: place for place, argument in enumerate(program.state)}
    owned = stages.updates[stage].owned
    used = dict.fromkeys((*owned, *stages.partition.virtual_stages[stage].param_slices))
    summed = dict.fromkeys((*owned, *stages.trained_params(stage)))
    sums, sum_places = _lay_out_totals(stages, stage, summed)
    state_leaves = [
        (("piece", stage, param_slice), parameters[flat.param_slices[param_slice][0].leaf], flat.param_slices[param_slice][0].layer)
        for param_slice in used
    ]
    state_leaves += [(("state", stage, i), argument, layer) for i, (argument, layer) in enumerate(stages.updates[stage].state)]

    def begin(given: tuple[Any, ...]) -> list[Any]:
        state = step.initialize(jax.random.key(0), given)
        leaves = [state[at[argument]] for _, argument, _ in state_leaves]
        values = [leaf if layer is None else leaf[layer : layer + 1] for leaf, (_, _, layer) in zip(leaves, state_leaves, strict=True)]
        return [*values, *(jnp.zeros(spec.shape, spec.dtype) for spec in sums)]

    places = [devices.sharding(stages.plan.argument_shardings[argument], layer=layer is not None) for _, argument, layer in state_leaves]
    given = tuple(put_sharded(leaf, devices.sharding(Sharding(((),) * jnp.ndim(leaf)))) for leaf in step.given)
    values = jax.jit(begin, out_shardings=[*places, *sum_places])(given)
    names = [*(name for name, _, _ in state_leaves), *(("total", stage, param_slice) for param_slice in summed)]
    return dict(zip(names, values, strict=True))
