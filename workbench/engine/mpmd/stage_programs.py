"""Compile the tasks of one stage for its own devices, sharded there by the plan's layout."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.engine.spmd.device_mesh import named_sharding
from workbench.pipeline.block_layouts import LaidBlock
from workbench.pipeline.estimate_block_cost import PlacedPaths, plan_task
from workbench.plan.plan import Plan
from workbench.propagation import write_layout
from workbench.tracing.grad_accumulation.accumulate_gradients import accumulate_grads
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask
from workbench.tracing.stage_partition.stage_update import StageUpdate

Specs = Sequence[jax.ShapeDtypeStruct]
Compiler = Callable[[jax.stages.Lowered], jax.stages.Compiled]


@dataclass(frozen=True)
class CompiledTask:
    """`compiled(*totals, *arguments) -> (token, *totals, *results)`.

    - `task`: what it computes; `totals`: indices (into the segment's parameter slices) of the sums of gradients that it adds to, in place;
      `split`: those of them that are partial sums, each on the devices that have its part of the batch;
    - the token is a separate scalar to wait for: everything else may be donated to the next task.
    """

    task: TracedStageTask
    totals: tuple[int, ...]
    split: frozenset[int]
    compiled: jax.stages.Compiled


@dataclass(frozen=True)
class StageDevices:
    """The devices of one stage, as a mesh of the plan's other axes, and the layout restricted to it."""

    mesh: jax.sharding.Mesh
    plan: Plan
    compiler: Compiler = jax.stages.Lowered.compile

    def sharding(self, sharding: Sharding, *, layer: bool = False) -> NamedSharding:
        """The sharding of an argument; for a slice of a stacked one, without its layer dimension."""
        dims = ((), *sharding.dims[1:]) if layer else sharding.dims
        return named_sharding(Sharding(dims), self.mesh)

    @property
    def whole(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())

    def like(self, sharding: Any) -> NamedSharding:
        """The sharding on this stage's devices that corresponds to another stage's."""
        return NamedSharding(self.mesh, sharding.spec) if isinstance(sharding, NamedSharding) else self.whole


def stage_devices(plan: Plan, mesh: jax.sharding.Mesh, axis: str, number: int) -> StageDevices:
    """The devices at index `number` of mesh axis `axis`."""
    at = mesh.axis_names.index(axis)
    devices = np.take(mesh.devices, number, axis=at)
    names = tuple(name for name in mesh.axis_names if name != axis)
    if not names:
        devices, names = np.asarray(devices).reshape(1), ("device",)
    return StageDevices(jax.sharding.Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names)), plan)


@dataclass
class StagePrograms:
    """Compiles a stage's tasks, each when it is first requested; knows the sharding of each of their arrays.

    `input_activations` is given by the stages before: shardings of `StageFunction.input_activations`; `laid` is how the planner lays out
    the stage, where the layout has constraints (`write_constraints`).
    """

    stage: StageTasks
    devices: StageDevices
    input_activations: tuple[NamedSharding, ...]
    param_slices: tuple[NamedSharding, ...]
    batch: tuple[NamedSharding, ...]
    parts: DataParallelGroups
    laid: LaidBlock | None = None
    shardings: dict[tuple[str, int], NamedSharding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for group, shardings in (("param_slices", self.param_slices), ("batch", self.batch), ("input_activations", self.input_activations)):
            self.shardings.update({(group, i): each for i, each in enumerate(shardings)})
        departing = [self.input_activations[place] for place in self.stage.departing]
        self.shardings.update({("departing", i): each for i, each in enumerate(departing)})
        self.shardings.update({("gradient", i): each for i, each in enumerate(self.param_slices)})
        self.shardings |= {("loss", 0): self.devices.whole, ("weight", 0): self.devices.whole}

    def compile(self, task: TracedStageTask, name: str) -> CompiledTask:
        """Compile one task; gradients that arrive for one value from several stages are added up first."""
        whole = accumulate_grads(self.stage, task, self.parts)
        total_shardings = tuple(
            partial_sum_sharding(self.param_slices[place], self.parts) if place in whole.split else self.param_slices[place]
            for place in whole.totals
        )
        jitted = jax.jit(
            _with_token(whole.call, name),
            in_shardings=(*total_shardings, *(self.shardings[each] for each in whole.reads)),
            out_shardings=(self.devices.whole, *total_shardings, *(self.shardings.get(each) for each in whole.gives)),
            donate_argnums=tuple(range(len(total_shardings))),
            keep_unused=True,
        )
        lowered = jitted.lower(*whole.sums, *whole.specs)
        if self.laid:
            write_constraints(lowered, self.laid, self.stage, task, self.shardings, self.devices.mesh)
        compiled = self.devices.compiler(lowered)
        for each, sharding in zip(whole.gives, compiled.output_shardings[1 + len(total_shardings) :], strict=True):
            self.shardings.setdefault(each, self.devices.like(sharding))
            if each[0] == "output_activations" and each[1] in self.stage.arriving:
                self.shardings.setdefault(("arriving", self.stage.arriving.index(each[1])), self.shardings[each])
        return CompiledTask(task, whole.totals, whole.split, compiled)


def partial_sum_sharding(place: NamedSharding, parts: DataParallelGroups) -> NamedSharding:
    """The sharding of partial sums of a gradient, given the sharding `place` of their sum."""
    return NamedSharding(place.mesh, PartitionSpec(parts.axes, *place.spec))


def _with_token(call: Callable[..., tuple[Any, ...]], name: str) -> Callable[..., tuple[Any, ...]]:
    def run(*values: Any) -> tuple[Any, ...]:
        return (jnp.zeros(()), *call(*values))

    run.__name__ = name
    return run


def compile_update(
    update: StageUpdate,
    param_slices: tuple[Specs, Sequence[NamedSharding]],
    state: tuple[Specs, Sequence[NamedSharding]],
    borrowed_grads: Sequence[int],
    devices: StageDevices,
    total: float | None,
    number: int,
) -> jax.stages.Compiled:
    """`(*pieces, *state, *totals, *borrowed_grads totals, [weight], *sums) -> (token, *pieces, *state)`.

    The update: parameter slices (`pieces`) and state are updated in place; totals are zeroed separately (`compile_zeros`), because XLA
    would first copy them all if both were one program. `borrowed_grads` says of each total that came from another stage to which of the
    stage's own it is added. `total` is the total weight of the micro-batches, `None` if it is an argument; `sums` are those over all
    stages' parameters, if the optimiser takes any.
    """
    (param_slice_specs, param_slice_places), (state_specs, state_places) = param_slices, state
    n, s = len(param_slice_specs), len(state_specs)
    sums = update.accumulators

    def run(*values: Any) -> tuple[Any, ...]:
        weights, moments, totals, weighs, given = _split_values(values, (n, s), borrowed_grads, total)
        if update.finish is None:
            fresh, after = update.call(weights, moments, totals, weighs)
        else:
            fresh, after = update.finish(weights, moments, totals, weighs, given)
        return (jnp.zeros(()), *fresh, *after)

    run.__name__ = f"update_{number}"
    places = [*param_slice_places, *state_places]
    weight = [jax.ShapeDtypeStruct((), jnp.float32)] * ((total is None) + update.sums)
    jitted = jax.jit(
        run,
        in_shardings=(*places, *param_slice_places, *(param_slice_places[i] for i in borrowed_grads), *([devices.whole] * len(weight))),
        out_shardings=(devices.whole, *places),
        donate_argnums=tuple(range(n + s)),
        keep_unused=True,
    )
    specs = [*param_slice_specs, *state_specs, *sums, *(sums[i] for i in borrowed_grads), *weight]
    return devices.compiler(jitted.lower(*specs))


def compile_sums(
    partial: tuple[Specs, Sequence[NamedSharding]], places: Sequence[NamedSharding], devices: StageDevices, number: int
) -> Any:
    """`(*partial sums) -> (token, *sums)`: once a step, add over the devices what each has accumulated for its part of the batch."""
    specs, given = partial

    def sums(*values: Any) -> tuple[Any, ...]:
        with jax.named_scope("update"):  # as the planner calls it: `stage_figures.update_collectives`
            return (jnp.zeros(()), *(each.sum(axis=0) for each in values))

    sums.__name__ = f"sums_{number}"
    jitted = jax.jit(sums, in_shardings=tuple(given), out_shardings=(devices.whole, *places), keep_unused=True)
    return devices.compiler(jitted.lower(*specs))


def compile_zeros(totals: tuple[Specs, Sequence[NamedSharding]], devices: StageDevices) -> jax.stages.Compiled:
    """`(*totals) -> totals` of the next step: zeros, in the buffers of the old ones."""
    sums, places = totals

    def zeros(*_: Any) -> tuple[Any, ...]:
        return tuple(jnp.zeros(each.shape, each.dtype) for each in sums)

    donated = tuple(range(len(sums)))
    jitted = jax.jit(zeros, in_shardings=tuple(places), out_shardings=tuple(places), donate_argnums=donated, keep_unused=True)
    return devices.compiler(jitted.lower(*sums))


def compile_terms(
    update: StageUpdate,
    param_slices: tuple[Specs, Sequence[NamedSharding]],
    state: tuple[Specs, Sequence[NamedSharding]],
    borrowed_grads: Sequence[int],
    devices: StageDevices,
    total: float | None,
) -> jax.stages.Compiled:
    """`(*pieces, *state, *totals, *borrowed_grads totals, [weight]) -> terms`: the stage's term of each sum over all stages' parameters."""
    (param_slice_specs, param_slice_places), (state_specs, state_places) = param_slices, state
    n, s = len(param_slice_specs), len(state_specs)
    sums = update.accumulators

    def run(*values: Any) -> tuple[Any, ...]:
        weights, moments, totals, weighs, _ = _split_values(values, (n, s), borrowed_grads, total)
        return tuple(each.astype(jnp.float32) for each in update.terms(weights, moments, totals, weighs))

    weight = [jax.ShapeDtypeStruct((), jnp.float32)] if total is None else []
    places = (
        *param_slice_places,
        *state_places,
        *param_slice_places,
        *(param_slice_places[i] for i in borrowed_grads),
        *([devices.whole] * len(weight)),
    )
    jitted = jax.jit(run, in_shardings=places, out_shardings=devices.whole, keep_unused=True)
    return devices.compiler(jitted.lower(*param_slice_specs, *state_specs, *sums, *(sums[i] for i in borrowed_grads), *weight))


def _split_values(values: Sequence[Any], widths: tuple[int, int], borrowed_grads: Sequence[int], total: float | None) -> tuple[Any, ...]:
    """Split the arguments into parameter slices, state, totals with borrowed ones added, the micro-batches' weight, and the rest."""
    n, s = widths
    weights, moments, totals, rest = values[:n], values[n : n + s], list(values[n + s : 2 * n + s]), values[2 * n + s :]
    for place, each in zip(borrowed_grads, rest, strict=False):
        totals[place] = totals[place] + each
    rest = rest[len(borrowed_grads) :]
    return (weights, moments, totals, rest[0], rest[1:]) if total is None else (weights, moments, totals, total, rest)


# The plan's constraints in the tasks of a stage, as the planner states them there: what is planned is compiled.
#
# A pattern that names a value of a loop over layers (`layers/mlp/add`) stands for that value of every layer of the stage. Constraints keep
# their rounds, which JAX cannot express; a value that enters the stage propagates in the round in which the plan has it (`place_results`).

Shardings = Mapping[tuple[str, int], NamedSharding]


def write_constraints(
    lowered: jax.stages.Lowered, laid: LaidBlock, stage: StageTasks, task: TracedStageTask, shardings: Shardings, mesh: jax.sharding.Mesh
) -> None:
    """Write the constraints of the layout into a lowered task of a stage, in place. `laid` is the stage as planned; `shardings` are
    those of the task's arguments by group and place, as the tasks before it left them."""
    context = laid.stage
    program = BlockTasks(stage).running_program(task, "task", context.parts, add_separately=False)
    plan = plan_task(program, replace(context, entering=_entering(program, dict(context.entering), shardings)))
    inputs_alone = replace(program, results=(), carried=())  # of results JAX has written what is known
    own = plan.updated(program=inputs_alone, mesh=Mesh(dict(mesh.shape)), hardware=None, axis_assignment=None)
    write_layout(lowered.compiler_ir("stablehlo"), own)


def _entering(program: Program, planned: Mapping[str, Sharding], shardings: Shardings) -> PlacedPaths:
    """The shardings of the arguments, each in the rounds that are planned for it where the planner has it so."""
    found = []
    for tensor in program.arguments:
        group, _, place = tensor.path.partition("/")
        if place.isdigit() and (group, int(place)) in shardings:
            actual = _sharding_of(shardings[group, int(place)], len(tensor.shape))
            known = planned.get(tensor.path)
            found.append((tensor.path, known if known and known.dims == actual.dims else actual))
    return tuple(found)


def _sharding_of(sharding: NamedSharding, rank: int) -> Sharding:
    dims = [each if isinstance(each, tuple) else (each,) if each else () for each in sharding.spec]
    return Sharding((*dims, *((),) * (rank - len(dims))))
