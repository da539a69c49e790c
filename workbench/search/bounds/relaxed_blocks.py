"""Block costs shared by many candidates: the costs of a stage with the fewest possible replicas.

The number of devices that share the examples does not change local shapes, as long as each has the same number of
examples. A stage of `data:8 model:4` with micro-batches of 16 examples does the work of a stage of `data:2 model:4`
with micro-batches of 4, and in addition gathers, reduces and scatters among more replicas. The costs with two replicas
that share nothing are a lower bound for both, estimated once. One replica would give no bound: a batch of one example
is another program, and XLA decomposes a dot around a ring only if every axis of the mesh splits it.
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
from workbench.pipeline.block_layouts import lay_out_network, tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost, StageContext, make_stage_context
from workbench.pipeline.estimate_stage_costs import find_sending, stage_block_costs
from workbench.pipeline.stage_bytes import param_slice_bytes, value_bytes
from workbench.pipeline.staged_program import StagedProgram, staged_program
from workbench.plan.plan import Plan
from workbench.search.bounds.stage_bounds import BlockTotals
from workbench.search.plan_candidate import NO_ZERO, SHARING
from workbench.tracing.grad_accumulation.gradient_partial_sums import DataParallelGroups
from workbench.tracing.stage_partition.trace_network import Network, network_of
from workbench.units import divisors

DATA = "data"
_PROBED = 2  # replicas
_NUMBERS = 1024
"""Bytes that a loss or a norm of gradients may take."""


class BlockWork(NamedTuple):
    """Seconds of a micro-batch over all stages; `shareable_*`: the most that sharing parameters saves."""

    forward: float
    backward: float
    shareable_forward: float = 0.0
    shareable_backward: float = 0.0

    def seconds(self, *, recomputed: bool, shares_params: bool = True) -> float:
        """Forward and backward seconds, forward twice if `recomputed`, less the shareable part if `shares_params`."""
        forward, backward = self.forward, self.backward
        if shares_params:
            forward, backward = forward - self.shareable_forward, backward - self.shareable_backward
        return (2 if recomputed else 1) * forward + backward


@dataclass(frozen=True, slots=True)
class RelaxedStage:
    """A stage of a pipelined plan without communication among replicas; `is_exact`: with it."""

    context: StageContext
    network: Network
    is_exact: bool = False

    def block_costs(self) -> tuple[BlockCost, ...]:
        return stage_block_costs(self.context, self.network)

    def list_starts(self, costs: tuple[BlockCost, ...], spec: PipelineSpec) -> tuple[Starts, ...]:
        """The partitions that the planner chooses from: first blocks of all virtual stages but the first."""
        staged = StagedProgram(self.context.plan.updated(pipeline=spec), spec, self.network)
        return list_balanced_starts(self.network, spec, costs, find_sending(staged))

    @property
    def _end_of_largest(self) -> int:
        """Number of the network's first blocks that contain all blocks of the kind with the most FLOPs together."""
        kinds = [id(task.exemplar) for task in tasks_of(self.network)]
        flops: Counter[int] = Counter()
        for kind, task in zip(kinds, tasks_of(self.network), strict=True):
            flops[kind] += task.stage.virtual_stage.flops
        return len(kinds) - kinds[::-1].index(max(flops, key=flops.__getitem__))

    def largest_block_work(self) -> "BlockWork":
        """Work of the largest group of identical blocks, a cheap lower bound for all. Zero if the few replicas exchange
        values, because many replicas may exchange them differently.
        """
        blocks = lay_out_network(self.context, self.network, self._end_of_largest)
        counts = Counter(map(id, blocks))
        largest = max(blocks, key=lambda block: counts[id(block)] * block.block.stage.virtual_stage.flops)
        count, cost = counts[id(largest)], largest.cost
        if exchanges([cost]) and not self.is_exact:
            return BlockWork(0.0, 0.0)
        forward, backward = cost.forward, cost.backward_input + cost.backward_weight
        shared = (0.0, 0.0) if self.is_exact else (min(forward, cost.shareable[0]), min(backward, cost.shareable[1]))
        return BlockWork(*(count * seconds for seconds in (forward, backward, *shared)))


def relax_stage(plan: Plan, spec: PipelineSpec, network: Network, replicas: int) -> RelaxedStage:
    """Make a stage of the plan, which must not use ZeRO, with this number of replicas.

    `network` must be traced for their part of a micro-batch. The axes of a stage keep their links and the replicas are
    as close as in the plan, before the stages. If the plan has its own axis assignment, its stages stay unchanged:
    links that fewer replicas leave free might be closer or close no ring.
    """
    if plan.axis_assignment is not None:
        return RelaxedStage(make_stage_context(StagedProgram(plan, spec, network)), network)
    mesh = Mesh({name: replicas if name == DATA else size for name, size in plan.mesh.axes})
    others = Mesh({name: size for name, size in mesh.axes if name not in (DATA, spec.axis)})
    assignment = complete_axis_assignment(plan.mesh, plan.hardware) if plan.hardware else None
    relaxed = plan.updated(mesh=mesh, axis_assignment=assignment and assignment.restricted(others))
    return RelaxedStage(make_stage_context(StagedProgram(relaxed, spec, network)), network)


def exact_stage(plan: Plan) -> RelaxedStage:
    """Make a stage of the plan as it is. Raises `WorkbenchError` if its program cannot be partitioned."""
    staged = staged_program(plan)
    return RelaxedStage(make_stage_context(staged), staged.network, is_exact=True)


def count_replicas(plan: Plan) -> int:
    return dict(plan.mesh.axes).get(DATA, 1)


def least_replicas(plan: Plan) -> int:
    """Smallest divisor above one of the replicas; all if they share parameters or have an axis assignment."""
    placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    shares = any(tensor.role is Role.PARAMETER and DATA in {base_axis(axis) for axis in sharding.axes} for tensor, sharding in placed)
    replicas = count_replicas(plan)
    is_fixed = shares or plan.axis_assignment is not None
    return replicas if is_fixed else next(divisor for divisor in divisors(replicas) if divisor > 1 or replicas == 1)


def replicas_for(plan: Plan, micro_batches: int, least: int) -> int:
    """`least` replicas, or all of the plan's if a micro-batch has the size of another dimension: the planner may then
    confuse the two and shard values differently for few replicas.
    """
    replicas, batch = count_replicas(plan), count_examples(plan.program)
    sizes = {batch // micro_batches, batch * least // (micro_batches * replicas)}
    return replicas if sizes & _list_other_sizes(plan.program) else least


@cache_with_program(1)
def _list_other_sizes(program: Program) -> frozenset[int]:
    inputs = [program.arguments[i] for i in program.inputs]
    examples = batch_dim(inputs, program.name)
    return frozenset(
        size for tensor in program.arguments for dim, size in zip(tensor.dims, tensor.shape, strict=True) if dim != examples
    ) - {1}


def exchanges(costs: Sequence[BlockCost]) -> bool:
    """Whether replicas exchange more than scalars within a micro-batch, so few give no bound for many."""
    return any(size > _NUMBERS for cost in costs for (axes, _), size in cost.sent_both if DATA in {base_axis(axis) for axis in axes})


def total_blocks(relaxed: RelaxedStage, costs: tuple[BlockCost, ...], plan: Plan, zeros: Sequence[str]) -> dict[str, BlockTotals]:
    """Block costs per ZeRO stage, shared values evenly; `plan` and inexact `costs` are without ZeRO."""
    tasks = tasks_of(relaxed.network)
    kept = [block.kept(task.residuals.inside) for block, task in zip(costs, tasks, strict=True)]
    sizes = value_bytes(relaxed.context, relaxed.network)
    received = [sum(sizes[v].held for v in task.stage.virtual_stage.input_activations) for task in tasks]
    columns = [[getattr(cost, name) for cost in costs] for name in ("forward", "backward_input", "backward_weight")]
    replicas = count_replicas(plan)
    param, sums, state, partial = _weigh_blocks(plan, relaxed)
    totals = {}
    for zero in zeros:
        shares = {NO_ZERO: (1, 1, 1), "zero_1": (1, 1, replicas), "zero_2": (1, replicas, replicas), SHARING: (replicas,) * 3}[zero]
        resident = param / shares[0] + sums / shares[1] + state / shares[2]
        summed = partial if replicas > 1 and zero != SHARING else np.zeros_like(partial)
        forward, first, second = (np.array(column, float) for column in columns)
        if max(shares) > 1 and zero != "zero_1" and replicas > 1 and not relaxed.is_exact:  # only an even part of each sum is accumulated
            ahead, most = np.array([cost.shareable for cost in costs]).T
            forward = np.maximum(forward - ahead, 0.0)
            second, first = np.maximum(second - most, 0.0), np.maximum(first - np.maximum(most - second, 0.0), 0.0)
        totals[zero] = BlockTotals(forward, first, second, *(np.array(array, float) for array in (kept, received, resident, summed)))
    return totals


def _weigh_blocks(plan: Plan, relaxed: RelaxedStage) -> NDArray[np.float64]:
    """Bytes of parameters, gradient sums, optimizer state and deferred gradient sums per block: float64[4, blocks].
    Replicas add the deferred sums at the end of the step. Each parameter slice counts for the first block that uses
    it.
    """
    network, parts = relaxed.network, relaxed.context.parts
    examples = dict(network.batch_sizes).get(network.batch_dim, 0)
    is_divided = parts.count > 1 and examples % parts.count == 0
    weights, partial = param_slice_bytes(plan, network), find_partial_sums(plan.program) & parts.param_slices if is_divided else frozenset()
    seen: set[int] = set()
    rows = []
    for task in tasks_of(network):
        new = set(task.stage.virtual_stage.param_slices) - seen
        seen |= new
        columns = [sum(getattr(weights[i], name) for i in new) for name in ("param", "sums", "state")]
        rows.append([*columns, sum(weights[i].sums for i in new & partial)])
    return np.array(rows, float).T


@cache_with_program(50)
def find_partial_sums(program: Program) -> frozenset[int]:
    """Parameter slices whose gradients stay partial sums until the end of the step (`gradient_partial_sums`).

    This needs divisible micro-batches, and every block that uses the slice must defer its sum: a stage with a block
    that sums at once has no part left to add. It depends on how the loss is written, not on the number of replicas, so
    it is determined for two.
    """
    batch = count_examples(program)
    if batch % _PROBED:
        return frozenset()
    network = network_of(program, batch // _PROBED)
    everything = frozenset(range(len(network.flat.param_slices)))
    groups = DataParallelGroups((DATA,), _PROBED, everything)
    split = [(task.stage.virtual_stage.param_slices, task.list_partial_sums(groups)) for task in tasks_of(network)]
    at_once = {slice_ for used, partial in split for slice_ in {*used} - {*partial}}
    return frozenset(slice_ for _, partial in split for slice_ in partial) - at_once


def count_examples(program: Program) -> int:
    """Number of examples of a step; 0 if the inputs disagree."""
    inputs = [program.arguments[i] for i in program.inputs]
    dim = batch_dim(inputs, program.name)
    sizes = {tensor.shape[tensor.dims.index(dim)] for tensor in inputs if dim in tensor.dims}
    return next(iter(sizes)) if len(sizes) == 1 else 0
