"""The plan's constraints in the tasks of a stage, as the planner states them there: what is planned is compiled.

A pattern that names a value of a loop over layers (`layers/mlp/add`) stands for that value of every layer of the stage. Constraints keep
their rounds, which JAX cannot express; a value that enters the stage propagates in the round in which the plan has it (`place_results`).
"""

from collections.abc import Mapping
from dataclasses import replace

import jax
from jax.sharding import NamedSharding

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.pipeline.block_layouts import LaidBlock
from workbench.pipeline.estimate_block_cost import PlacedPaths, plan_task
from workbench.propagation import write_layout
from workbench.tracing.stage_partition.block_programs import BlockTasks
from workbench.tracing.stage_partition.stage_tasks import StageTasks, TracedStageTask

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
