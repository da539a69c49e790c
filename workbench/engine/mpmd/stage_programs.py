"""Compile the tasks of one stage for its devices, sharded by the plan's layout."""

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

Specs = Sequence[jax.ShapeDtypeStruct]
Compiler = Callable[[jax.stages.Lowered], jax.stages.Compiled]


@dataclass(frozen=True)
class CompiledTask:
    """`compiled(*totals, *arguments) -> (token, *totals, *results)`.

    - `task`: its computation; `totals`: indices (into the segment's parameter slices) of the gradient sums that it adds
      to, in place; `split`: those that are partial sums, each on the devices with its part of the batch;
    - the token is a separate scalar to wait for, since everything else may be donated to the next task.
    """

    task: TracedStageTask
    totals: tuple[int, ...]
    split: frozenset[int]
    compiled: jax.stages.Compiled


@dataclass(frozen=True)
class StageDevices:
    """Devices of one stage, as a mesh of the plan's other axes, and the layout restricted to it."""

    mesh: jax.sharding.Mesh
    plan: Plan
    compiler: Compiler = jax.stages.Lowered.compile

    def sharding(self, sharding: Sharding, *, layer: bool = False) -> NamedSharding:
        """Return the sharding of an argument; with `layer`, of a slice of a stacked one, without its layer dimension."""
        dims = ((), *sharding.dims[1:]) if layer else sharding.dims
        return named_sharding(Sharding(dims), self.mesh)

    @property
    def whole(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())

    def like(self, sharding: Any) -> NamedSharding:
        """Return the sharding on this stage's devices that corresponds to another stage's."""
        return NamedSharding(self.mesh, sharding.spec) if isinstance(sharding, NamedSharding) else self.whole

    def compile(
        self, call: Callable[..., Any], specs: Specs, places: Sequence[NamedSharding], results: Any, *, donated: int = 0
    ) -> jax.stages.Compiled:
        """Compile a function of arguments with these shardings; the first `donated` are updated in place."""
        donate = tuple(range(donated))
        jitted = jax.jit(call, in_shardings=tuple(places), out_shardings=results, donate_argnums=donate, keep_unused=True)
        return self.compiler(jitted.lower(*specs))


def stage_devices(plan: Plan, mesh: jax.sharding.Mesh, axis: str, number: int) -> StageDevices:
    """Return the devices at index `number` of mesh axis `axis`."""
    axis_index = mesh.axis_names.index(axis)
    devices = np.take(mesh.devices, number, axis=axis_index)
    names = tuple(name for name in mesh.axis_names if name != axis)
    if not names:
        devices, names = np.asarray(devices).reshape(1), ("device",)
    return StageDevices(jax.sharding.Mesh(devices, names, axis_types=(AxisType.Auto,) * len(names)), plan)


@dataclass
class StagePrograms:
    """Compiles a stage's tasks on request; stores the sharding of each of their arrays.

    `input_activations`: shardings of `StageFunction.input_activations` from preceding stages; `laid`: the planned
    stage, if the layout has constraints (`write_constraints`).
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
            self.shardings.update({(group, i): placement for i, placement in enumerate(shardings)})
        departing = [self.input_activations[place] for place in self.stage.departing]
        self.shardings.update({("departing", i): placement for i, placement in enumerate(departing)})
        self.shardings.update({("gradient", i): placement for i, placement in enumerate(self.param_slices)})
        self.shardings |= {("loss", 0): self.devices.whole, ("weight", 0): self.devices.whole}

    def compile(self, task: TracedStageTask, name: str) -> CompiledTask:
        """Compile one task; gradients of a value from several stages are added up first."""
        grad_task = accumulate_grads(self.stage, task, self.parts)
        total_shardings = tuple(
            partial_sum_sharding(self.param_slices[place], self.parts) if place in grad_task.split else self.param_slices[place]
            for place in grad_task.totals
        )
        jitted = jax.jit(
            _with_token(grad_task.call, name),
            in_shardings=(*total_shardings, *(self.shardings[name_and_place] for name_and_place in grad_task.reads)),
            out_shardings=(
                self.devices.whole,
                *total_shardings,
                *(self.shardings.get(name_and_place) for name_and_place in grad_task.gives),
            ),
            donate_argnums=tuple(range(len(total_shardings))),
            keep_unused=True,
        )
        lowered = jitted.lower(*grad_task.sums, *grad_task.specs)
        if self.laid:
            write_constraints(lowered, self.laid, self.stage, task, self.shardings, self.devices.mesh)
        compiled = self.devices.compiler(lowered)
        for name_and_place, sharding in zip(grad_task.gives, compiled.output_shardings[1 + len(total_shardings) :], strict=True):
            self.shardings.setdefault(name_and_place, self.devices.like(sharding))
            if name_and_place[0] == "output_activations" and name_and_place[1] in self.stage.arriving:
                self.shardings.setdefault(("arriving", self.stage.arriving.index(name_and_place[1])), self.shardings[name_and_place])
        return CompiledTask(task, grad_task.totals, grad_task.split, compiled)


def partial_sum_sharding(place: NamedSharding, parts: DataParallelGroups) -> NamedSharding:
    """Return the sharding of partial sums of a gradient whose sum has the sharding `place`."""
    return NamedSharding(place.mesh, PartitionSpec(parts.axes, *place.spec))


def _with_token(call: Callable[..., tuple[Any, ...]], name: str) -> Callable[..., tuple[Any, ...]]:
    def run(*values: Any) -> tuple[Any, ...]:
        return (jnp.zeros(()), *call(*values))

    run.__name__ = name
    return run


# The plan's constraints in the tasks of a stage, stated as in the planner, so that the compiled tasks match the planned ones.
#
# A pattern for a value of a loop over layers (`layers/mlp/add`) matches that value in every layer of the stage. Constraints keep
# their rounds, which JAX cannot express; an input of the stage propagates in its round in the plan (`place_results`).

Shardings = Mapping[tuple[str, int], NamedSharding]


def write_constraints(
    lowered: jax.stages.Lowered, laid: LaidBlock, stage: StageTasks, task: TracedStageTask, shardings: Shardings, mesh: jax.sharding.Mesh
) -> None:
    """Write the constraints of the layout into a lowered task of a stage, in place.

    `laid`: the planned stage; `shardings`: of the task's arguments by group and place, as left by earlier tasks.
    """
    context = laid.stage
    program = BlockTasks(stage).running_program(task, "task", context.parts, add_separately=False)
    plan = plan_task(program, replace(context, entering=_entering(program, dict(context.entering), shardings)))
    inputs_alone = replace(program, results=(), carried=())  # JAX has already written the known shardings of results
    task_plan = plan.updated(program=inputs_alone, mesh=Mesh(dict(mesh.shape)), hardware=None, axis_assignment=None)
    write_layout(lowered.compiler_ir("stablehlo"), task_plan)


def _entering(program: Program, planned: Mapping[str, Sharding], shardings: Shardings) -> PlacedPaths:
    """Return the shardings of the arguments, with the planned rounds if they match the planner's."""
    entering = []
    for tensor in program.arguments:
        group, _, place = tensor.path.partition("/")
        if place.isdigit() and (group, int(place)) in shardings:
            actual = _sharding_of(shardings[group, int(place)], len(tensor.shape))
            planned_sharding = planned.get(tensor.path)
            entering.append((tensor.path, planned_sharding if planned_sharding and planned_sharding.dims == actual.dims else actual))
    return tuple(entering)


def _sharding_of(sharding: NamedSharding, rank: int) -> Sharding:
    dims = [axes if isinstance(axes, tuple) else (axes,) if axes else () for axes in sharding.spec]
    return Sharding((*dims, *((),) * (rank - len(dims))))
