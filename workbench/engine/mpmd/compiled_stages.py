"""All stages of a pipelined plan, compiled: their tasks, their updates, the initialisation of their state."""

from collections.abc import Callable, Iterable, Mapping
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
from workbench.engine.mpmd import stage_programs
from workbench.engine.mpmd.stage_programs import CompiledTask, Compiler, StageDevices, StagePrograms, partial_sum_sharding, stage_devices
from workbench.engine.spmd.device_mesh import device_mesh, put_sharded
from workbench.pipeline.estimate_block_cost import make_stage_context
from workbench.pipeline.estimate_stage_costs import plan_starts
from workbench.pipeline.stage_memory import lay_out_stages
from workbench.pipeline.staged_program import find_data_parallel_groups, staged_program
from workbench.plan.plan import Plan
from workbench.tracing.grad_accumulation.accumulate_gradients import partial_sums_spec
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.optimizer_global_sums import common_sums
from workbench.tracing.stage_partition.partition_network import StagePartition, partition_network
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask
from workbench.tracing.stage_partition.stage_update import StageUpdate, accumulator, owners, stage_update


class Sample(NamedTuple):
    """Devices to compile for without running. Each stage is compiled over the whole mesh, all of whose devices then do what those of one
    stage do: a compiler accepts a whole mesh of absent hardware, but no part of it."""

    mesh: jax.sharding.Mesh
    compiler: Compiler


SpecsAndShardings = tuple[list[jax.ShapeDtypeStruct], list[NamedSharding]]
TaskKey = tuple[Kind, int, bool]  # kind, stage, whether its micro-batch is recomputed


@dataclass
class Stages:
    """The stages of a plan on their devices.

    - `tasks[kind, stage, recompute]`: compiled tasks; one that has nothing to compute is missing;
    - `compiled_sums[stage]` of the partial sums that it has, if any: of parameter slices `split(stage)`;
    - `updates[stage]` and `finish(*losses, *weights) -> (loss, total weight)`, compiled;
    - `compiled_zeros[stage]` of its sums of gradients, its own and those borrowed;
    - where the optimiser takes sums over all parameters, `compiled_terms[stage]` of them, and `add_up(*terms) -> sums`.
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
        """The parameter slices that a stage uses and another one updates."""
        return tuple(param_slice for param_slice in self.partition.virtual_stages[stage].param_slices if self.owners[param_slice] != stage)

    def borrowed_grads(self, stage: int) -> tuple[tuple[int, int], ...]:
        """(index among the owned, other stage) for each parameter slice of this stage that another one uses too."""
        owned = self.updates[stage].owned
        shared = self.partition.shared
        return tuple((place, user) for place, param_slice in enumerate(owned) for user in shared.get(param_slice, ()) if user != stage)

    def partial_sum_params(self, stage: int) -> tuple[int, ...]:
        """The parameter slices for whose gradient a stage keeps partial sums until the end of a step."""
        places = {place for (_, number, _), task in self.tasks.items() if number == stage for place in task.split}
        return tuple(self.partition.virtual_stages[stage].param_slices[place] for place in sorted(places))

    def total(self, stage: int, param_slice: int) -> tuple[jax.ShapeDtypeStruct, NamedSharding]:
        """The sum of a parameter slice's gradients on a stage, and its sharding."""
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
        """Parameters, optimiser state and sums of gradients at the start of training, by slot name; each is created on its own devices."""
        found: dict[tuple[str, int, int], jax.Array] = {}
        for stage in range(self.count):
            found |= _init_stage_state(self, stage)
        return found


def compile_stages(plan: Plan, tell: Callable[[str, float], None], sample: Sample | None = None) -> Stages:
    """Compile stage after stage: the sharding of a value as it leaves one stage is its sharding as it enters the next.

    With `sample` for devices that may be absent, to be read and not run.
    """
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
    parameters = [i for i, each in enumerate(plan.program.arguments) if each.role is Role.PARAMETER]
    return devices.sharding(plan.argument_shardings[parameters[leaf]], layer=layer is not None)


def _recompute_modes(stages: Stages, number: int) -> list[bool]:
    """Whether a virtual stage has micro-batches that recompute, and ones that do not."""
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
    borrowed_grads, devices = [place for place, _ in stages.borrowed_grads(number)], stages.devices(number)
    return stage_programs.compile_update(
        stages.updates[number], *_lay_out_owned(stages, number), borrowed_grads, devices, _known_weight(stages), number
    )


def _compile_zeros(stages: Stages, number: int) -> jax.stages.Compiled:
    used = (*stages.updates[number].owned, *stages.borrowed_params(number))
    return stage_programs.compile_zeros(_lay_out_totals(stages, number, used), stages.devices(number))


def _compile_sums(stages: Stages, number: int) -> jax.stages.Compiled:
    devices, split = stages.devices(number), stages.partial_sum_params(number)
    places = [param_slice_sharding(stages, devices, param_slice) for param_slice in split]
    return stage_programs.compile_sums(_lay_out_totals(stages, number, split), places, devices, number)


def _lay_out_totals(stages: Stages, number: int, param_slices: Iterable[int]) -> SpecsAndShardings:
    found = [stages.total(number, param_slice) for param_slice in param_slices]
    return [spec for spec, _ in found], [place for _, place in found]


def _compile_terms(stages: Stages, number: int) -> jax.stages.Compiled:
    borrowed_grads = [place for place, _ in stages.borrowed_grads(number)]
    return stage_programs.compile_terms(
        stages.updates[number], *_lay_out_owned(stages, number), borrowed_grads, stages.devices(number), _known_weight(stages)
    )


def _compile_add_up(stages: Stages, sums: int) -> jax.stages.Compiled:
    """Compile the sums over all parameters, on the first stage, of the terms of each stage that has any, in the order of the stages."""
    devices = stages.devices(0)

    def add_up(*terms: Any) -> tuple[Any, ...]:
        return tuple(sum(terms[place::sums]) for place in range(sums))

    specs = [jax.ShapeDtypeStruct((), jnp.float32)] * (sums * len(stages.compiled_terms))
    return devices.compiler(jax.jit(add_up, in_shardings=devices.whole, out_shardings=devices.whole).lower(*specs))


def _known_weight(stages: Stages) -> float | None:
    """The total weight of the micro-batches, where it is known in advance."""
    return None if stages.partition.network.flat.weight is not None else float(stages.spec.micro_batches)


def _lay_out_owned(stages: Stages, number: int) -> tuple[SpecsAndShardings, SpecsAndShardings]:
    """What a stage updates: its parameter slices and its optimiser's state, each with its sharding."""
    devices, update = stages.devices(number), stages.updates[number]
    param_slices = [_param_slice_spec(stages, param_slice) for param_slice in update.owned]
    specs, places = [], []
    for argument, layer in update.state:
        tensor = stages.plan.program.arguments[argument]
        shape = tensor.shape if layer is None else (1, *tensor.shape[1:])
        specs.append(jax.ShapeDtypeStruct(shape, jnp.dtype(tensor.dtype)))
        places.append(devices.sharding(stages.plan.argument_shardings[argument], layer=layer is not None))
    return (param_slices, [param_slice_sharding(stages, devices, param_slice) for param_slice in update.owned]), (specs, places)


def _param_slice_spec(stages: Stages, param_slice: int) -> jax.ShapeDtypeStruct:
    aval = stages.partition.network.flat.param_slices[param_slice][1].aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _compile_finish(stages: Stages) -> jax.stages.Compiled:
    """Compile the loss of the step: the weighted mean of the micro-batches' losses."""
    count = stages.spec.micro_batches
    devices = stages.devices(stages.count - 1)
    has_weight = stages.partition.network.flat.weight is not None
    dtype = stages.partition.network.flat.loss.aval.dtype

    def finish(*values: Any) -> tuple[Any, Any]:
        total = sum(values[count:]) if has_weight else jnp.asarray(float(count), dtype)
        return sum(values[:count]) / total, jnp.asarray(total, jnp.float32)

    specs = [jax.ShapeDtypeStruct((), dtype)] * (2 * count if has_weight else count)
    return devices.compiler(jax.jit(finish, in_shardings=devices.whole, out_shardings=devices.whole).lower(*specs))


def _init_stage_state(stages: Stages, stage: int) -> dict[tuple[str, int, int], jax.Array]:
    """State of one stage, made under `jit`: of the whole program's initialisation, only what this stage holds."""
    program, devices = stages.plan.program, stages.devices(stage)
    flat, step = stages.partition.network.flat, program.step
    parameters = [i for i, each in enumerate(program.arguments) if each.role is Role.PARAMETER]
    at = {argument: place for place, argument in enumerate(program.state)}
    owned = stages.updates[stage].owned
    used = dict.fromkeys((*owned, *stages.partition.virtual_stages[stage].param_slices))
    sums, sum_places = _lay_out_totals(stages, stage, used)
    state_leaves = [
        (("piece", stage, param_slice), parameters[flat.param_slices[param_slice][0].leaf], flat.param_slices[param_slice][0].layer)
        for param_slice in used
    ]
    state_leaves += [(("state", stage, i), argument, layer) for i, (argument, layer) in enumerate(stages.updates[stage].state)]

    def begin(given: tuple[Any, ...]) -> list[Any]:
        state = step.initialize(jax.random.key(0), given)
        leaves = [state[at[argument]] for _, argument, _ in state_leaves]
        values = [leaf if layer is None else leaf[layer : layer + 1] for leaf, (_, _, layer) in zip(leaves, state_leaves, strict=True)]
        return [*values, *(jnp.zeros(each.shape, each.dtype) for each in sums)]

    places = [devices.sharding(stages.plan.argument_shardings[argument], layer=layer is not None) for _, argument, layer in state_leaves]
    given = tuple(put_sharded(each, devices.sharding(Sharding(((),) * jnp.ndim(each)))) for each in step.given)
    values = jax.jit(begin, out_shardings=[*places, *sum_places])(given)
    names = [*(name for name, _, _ in state_leaves), *(("total", stage, param_slice) for param_slice in used)]
    return dict(zip(names, values, strict=True))
