"""Block costs that many candidates have in common: those of a stage with as few replicas as there can be.

How many devices share the examples changes no local shape, as long as each has as many. So a stage of `data:8 model:4` with micro-batches
of 16 examples does what one of `data:2 model:4` does with micro-batches of 4, and besides it gathers, reduces and scatters among more
replicas: the costs with two replicas that share nothing are a lower bound for both, and are estimated once. (With one replica they would
not be: a batch of one example is another program, and XLA takes a dot apart around a ring only where every axis of the mesh splits it.)
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.mesh import Mesh
from workbench.core.pipeline_spec import PipelineSpec, batch_dim
from workbench.core.program import Program
from workbench.core.sharding import base_axis
from workbench.core.tensor import Role
from workbench.hardware.axis_placement import complete_axis_assignment
from workbench.pipeline.balance import Starts, list_balanced_starts
from workbench.pipeline.block_layouts import laid_network, tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext, make_stage_context
from workbench.pipeline.estimate_stage_costs import find_sending, stage_block_costs
from workbench.pipeline.stage_bytes import value_bytes, weigh_params
from workbench.pipeline.staged_program import StagedProgram, staged_program
from workbench.plan.plan import Plan
from workbench.search.bounds.stage_bounds import BlockTotals
from workbench.search.plan_candidate import NO_ZERO, SHARING
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.trace_network import network_of
from workbench.units import divisors

DATA = "data"
_PROBED = 2  # replicas
_NUMBERS = 1024
"""Bytes: of a loss, of a norm of gradients."""


class BlockWork(NamedTuple):
    """Seconds that a micro-batch needs on one device of each stage, all stages together; as many as `shareable_forward` and
    `shareable_backward` are saved at most where replicas share parameters."""

    forward: float
    backward: float
    shareable_forward: float = 0.0
    shareable_backward: float = 0.0

    def seconds(self, *, recomputed: bool, shares_params: bool = True) -> float:
        """Forward, backward and, if so, forward once more; without what replicas may share."""
        forward, backward = self.forward, self.backward
        if shares_params:
            forward, backward = forward - self.shareable_forward, backward - self.shareable_backward
        return (2 if recomputed else 1) * forward + backward


@dataclass(frozen=True, slots=True)
class RelaxedStage:
    """A plan with a pipeline as each of its stages would be without anything sent among replicas, or, `is_exact`, as it is."""

    context: StageContext
    network: Network
    is_exact: bool = False

    def block_costs(self) -> tuple[BlockCost, ...]:
        return stage_block_costs(self.context, self.network)

    def list_starts(self, costs: tuple[BlockCost, ...], spec: PipelineSpec) -> tuple[Starts, ...]:
        """The partitions of which the planner takes one where blocks cost this: the block that each virtual stage but the first begins
        with."""
        staged = StagedProgram(self.context.plan.updated(pipeline=spec), spec, self.network)
        return list_balanced_starts(self.network, spec, costs, find_sending(staged))

    def largest_block_work(self) -> "BlockWork":
        """The work of those blocks that are like the one with most work together: a lower bound for all blocks, at a fraction of their
        cost; none where few replicas exchange something, which many may do otherwise."""
        laid = laid_network(self.context, self.network)
        alike = Counter(map(id, laid))
        most = max(laid, key=lambda each: alike[id(each)] * each.block.stage.virtual_stage.flops)
        count, cost = alike[id(most)], most.cost
        if exchanges([cost]) and not self.is_exact:
            return BlockWork(0.0, 0.0)
        forward, backward = cost.forward, cost.backward_input + cost.backward_weight
        shared = (0.0, 0.0) if self.is_exact else (min(forward, cost.shareable[0]), min(backward, cost.shareable[1]))
        return BlockWork(*(count * each for each in (forward, backward, *shared)))


def relax_stage(plan: Plan, spec: PipelineSpec, network: Network, replicas: int) -> RelaxedStage:
    """A stage of this plan, which has no ZeRO, with so many replicas; `network` is traced for what they have of a micro-batch. The axes of
    a stage run where they run in the plan, its few replicas as near to each other as those of the plan: before the stages. With an axis
    assignment of its own the plan's stages are as they are: what few replicas leave free might be nearer or close no ring."""
    if plan.axis_assignment is not None:
        return RelaxedStage(make_stage_context(StagedProgram(plan, spec, network)), network)
    mesh = Mesh({name: replicas if name == DATA else size for name, size in plan.mesh.axes})
    others = Mesh({name: size for name, size in mesh.axes if name not in (DATA, spec.axis)})
    assignment = complete_axis_assignment(plan.mesh, plan.hardware) if plan.hardware else None
    alone = plan.updated(mesh=mesh, axis_assignment=assignment and assignment.restricted(others))
    return RelaxedStage(make_stage_context(StagedProgram(alone, spec, network)), network)


def exact_stage(plan: Plan) -> RelaxedStage:
    """A stage of this plan as it is. Raises `WorkbenchError` where its program cannot be taken apart."""
    staged = staged_program(plan)
    return RelaxedStage(make_stage_context(staged), staged.network, is_exact=True)


def count_replicas(plan: Plan) -> int:
    """Devices along `data`."""
    return dict(plan.mesh.axes).get(DATA, 1)


def least_replicas(plan: Plan) -> int:
    """The least number of replicas, above one if there are several, that theirs is a multiple of; theirs, where they share parameters, or
    where the plan says which links they are on."""
    placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    shares = any(tensor.role is Role.PARAMETER and DATA in {base_axis(axis) for axis in sharding.axes} for tensor, sharding in placed)
    replicas = count_replicas(plan)
    is_fixed = shares or plan.axis_assignment is not None
    return replicas if is_fixed else next(each for each in divisors(replicas) if each > 1 or replicas == 1)


def replicas_for(plan: Plan, micro_batches: int, least: int) -> int:
    """`least` replicas (`least_replicas`), or the plan's where the size of a micro-batch, for as many or for few, is that of another
    dimension: the planner may take one for the other then, and shard values otherwise for few than for many."""
    replicas, batch = count_replicas(plan), count_examples(plan.program)
    sizes = {batch // micro_batches, batch * least // (micro_batches * replicas)}
    return replicas if sizes & _list_other_sizes(plan.program) else least


@cache_with_program(1)
def _list_other_sizes(program: Program) -> frozenset[int]:
    """Sizes of the dimensions of parameters, and of those of the inputs but the examples."""
    inputs = [program.arguments[i] for i in program.inputs]
    examples = batch_dim(inputs, program.name)
    return frozenset(
        size for tensor in program.arguments for dim, size in zip(tensor.dims, tensor.shape, strict=True) if dim != examples
    ) - {1}


def exchanges(costs: Sequence[BlockCost]) -> bool:
    """Whether replicas send each other more than single numbers within a micro-batch, tokens to experts for example: how values are sharded
    may depend then on how many replicas there are, and few are no bound for many."""
    return any(size > _NUMBERS for each in costs for (axes, _), size in each.sent_both if DATA in {base_axis(axis) for axis in axes})


def total_blocks(relaxed: RelaxedStage, costs: tuple[BlockCost, ...], plan: Plan, zeros: Sequence[str]) -> dict[str, BlockTotals]:
    """The bounds' view of blocks that cost this, for each stage of ZeRO: what it shares among replicas is an even part for each; `plan` has
    no ZeRO, nor have the `costs` unless they are exact."""
    tasks = tasks_of(relaxed.network)
    kept = [block.kept(task.residuals.inside) for block, task in zip(costs, tasks, strict=True)]
    sizes = value_bytes(relaxed.context, relaxed.network)
    received = [sum(sizes[v].held for v in task.stage.virtual_stage.input_activations) for task in tasks]
    columns = [[getattr(each, name) for each in costs] for name in ("forward", "backward_input", "backward_weight")]
    replicas = count_replicas(plan)
    param, sums, state, partial = _weigh_blocks(plan, relaxed)
    found = {}
    for zero in zeros:
        shares = {NO_ZERO: (1, 1, 1), "zero_1": (1, 1, replicas), "zero_2": (1, replicas, replicas), SHARING: (replicas,) * 3}[zero]
        resident = param / shares[0] + sums / shares[1] + state / shares[2]
        summed = partial if replicas > 1 and zero != SHARING else np.zeros_like(partial)
        forward, first, second = (np.array(each, float) for each in columns)
        if max(shares) > 1 and zero != "zero_1" and replicas > 1 and not relaxed.is_exact:  # an even part of each sum is added to, not all
            ahead, most = np.array([each.shareable for each in costs]).T
            forward = np.maximum(forward - ahead, 0.0)
            second, first = np.maximum(second - most, 0.0), np.maximum(first - np.maximum(most - second, 0.0), 0.0)
        found[zero] = BlockTotals(forward, first, second, *(np.array(each, float) for each in (kept, received, resident, summed)))
    return found


def _weigh_blocks(plan: Plan, relaxed: RelaxedStage) -> NDArray[np.float64]:
    """float64[4, blocks]: bytes of parameters, of their gradients' sums, of the optimiser's state, and of those sums that the replicas add
    at the end of the step; each parameter slice counts with the block that uses it first."""
    network, parts = relaxed.network, relaxed.context.parts
    examples = dict(network.batch_sizes).get(network.batch_dim, 0)
    is_divided = parts.count > 1 and examples % parts.count == 0
    weights, partial = weigh_params(plan, network), find_partial_sums(plan.program) & parts.param_slices if is_divided else frozenset()
    seen: set[int] = set()
    found = []
    for task in tasks_of(network):
        new = set(task.stage.virtual_stage.param_slices) - seen
        seen |= new
        columns = [sum(getattr(weights[i], name) for i in new) for name in ("param", "sums", "state")]
        found.append([*columns, sum(weights[i].sums for i in new & partial)])
    return np.array(found, float).T


@cache_with_program(50)
def find_partial_sums(program: Program) -> frozenset[int]:
    """The parameter slices whose gradients stages keep as partial sums until the end of the step (`gradient_partial_sums`), where a
    micro-batch can be divided: in every block that uses one, for a stage with a block that sums it at once has no part left to add. That
    depends on how the loss is written and not on how many replicas there are, so it is found for two."""
    batch = count_examples(program)
    if batch % _PROBED:
        return frozenset()
    network = network_of(program, batch // _PROBED)
    everything = frozenset(range(len(network.flat.param_slices)))
    groups = DataParallelGroups((DATA,), _PROBED, everything)
    split = [(task.stage.virtual_stage.param_slices, task.list_partial_sums(groups)) for task in tasks_of(network)]
    at_once = {each for used, partial in split for each in {*used} - {*partial}}
    return frozenset(each for _, partial in split for each in partial) - at_once


def count_examples(program: Program) -> int:
    """Examples of a step; 0 where its inputs do not agree on them."""
    inputs = [program.arguments[i] for i in program.inputs]
    dim = batch_dim(inputs, program.name)
    sizes = {tensor.shape[tensor.dims.index(dim)] for tensor in inputs if dim in tensor.dims}
    return next(iter(sizes)) if len(sizes) == 1 else 0
