"""Block costs that many candidates have in common: those of a stage whose replicas do nothing together.

What examples are split over changes no local shape but the number of examples. So a stage of `data:8 model:4` with micro-batches of 16
examples does what one of `data:2 model:4` does with micro-batches of 4, and besides gathers, reduces and scatters among its replicas: the
costs without that are a lower bound for both, and are estimated once.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.sharding import base_axis
from workbench.cost.communication import closest_spans
from workbench.pipeline.estimate_block_cost import StageContext, block_seconds, make_stage_context
from workbench.pipeline.estimate_stage_costs import tasks_of
from workbench.pipeline.staged_program import StagedProgram
from workbench.plan.plan import Plan
from workbench.tracing.stage_partition.network_blocks import Network

DATA, STAGE = "data", "stage"


class BlockWork(NamedTuple):
    """Seconds that a micro-batch needs on one device of each stage, all stages together."""

    forward: float
    backward: float

    def seconds(self, *, recomputed: bool) -> float:
        """Forward, backward and, if so, forward once more."""
        return self.forward + self.backward + (self.forward if recomputed else 0.0)


@dataclass(frozen=True, slots=True)
class RelaxedStage:
    """A plan with a pipeline as each of its stages would be without anything sent among replicas."""

    context: StageContext
    network: Network

    def largest_block_work(self) -> "BlockWork":
        """The work of those blocks that are like the one with most work together: a lower bound for all blocks, at a fraction of their
        cost."""
        blocks = tasks_of(self.network)
        alike = Counter(id(task.exemplar) for task in blocks)
        block = max((task.exemplar for task in blocks), key=lambda each: alike[id(each)] * each.stage.virtual_stage.flops)
        forward, backward = block_seconds(block, self.context)
        return BlockWork(alike[id(block)] * forward, alike[id(block)] * backward)


def relax_stage(plan: Plan, spec: PipelineSpec, network: Network) -> RelaxedStage:
    """A stage of this plan with this pipeline, without its replicas; `network` is traced for what one of them has of a micro-batch.

    The mesh has one replica: a dot that some axis of the mesh does not shard is computed on the devices along it over and over, and XLA:TPU
    hides no ring of sends behind such a dot.
    """
    alone = plan.updated(layout=plan.layout.map_axes(dict.fromkeys(_list_data_axes(plan))), mesh=_with_one_replica(plan))
    return RelaxedStage(make_stage_context(StagedProgram(alone, spec, network)), network)


def _with_one_replica(plan: Plan) -> Mesh:
    """The mesh without its replicas, where its other axes run over the same links then."""
    one = Mesh({name: 1 if name == DATA else size for name, size in plan.mesh.axes})
    if plan.hardware is None:
        return one
    before, after = (closest_spans(mesh, plan.hardware, plan.axis_assignment) for mesh in (plan.mesh, one))
    others = [name for name in plan.mesh.names if name not in (DATA, STAGE)]
    return one if all(before.get(name) == after.get(name) for name in others) else plan.mesh


def count_replicas(plan: Plan) -> int:
    """Devices along `data`."""
    return dict(plan.mesh.axes).get(DATA, 1)


def _list_data_axes(plan: Plan) -> list[str]:
    """`data` and its sub-axes, as the layout names them."""
    sharded = [sharding for _, sharding in (*plan.layout.overrides, *plan.layout.constraints)]
    used = {axis for _, axes in plan.layout.rules for axis in axes} | {axis for each in sharded for axis in each.axes}
    return [DATA, *(axis for axis in used if base_axis(axis) == DATA and axis != DATA)]
