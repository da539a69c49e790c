"""What each piece of a pipelined plan costs, from the planner's own model of its blocks.

Each block is priced as a program of its own, over the devices of one stage: forward, and forward with backward; the difference is the
backward pass. A piece is the sum of its blocks, so that moving a boundary prices nothing anew. Without hardware a second stands for 10^12
operations: pieces compare, and no more than that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import ceil, prod

from workbench.analyze import analyze
from workbench.cut_plan import starts_of
from workbench.errors import WorkbenchError
from workbench.layout import Layout
from workbench.paths import matches
from workbench.pipeline.costs import StageCost
from workbench.plan import Plan
from workbench.program import Program
from workbench.report import Report
from workbench.sharding import Sharding
from workbench.tensor import Role, itemsize
from workbench.tracing.block_programs import BlockTasks, block_tasks
from workbench.tracing.cut import Cut, cut_network
from workbench.tracing.cutting import network_of
from workbench.tracing.network import Network
from workbench.tracing.stage_tasks import StageTasks
from workbench.tracing.work import size_of

NOMINAL = 1e12  # operations a second where no hardware is chosen


@dataclass(frozen=True, slots=True)
class BlockCost:
    """One block, one micro-batch, one device of its stage: seconds, and `passing` bytes of its backward pass beyond what that reads."""

    path: str
    forward: float
    backward_input: float
    backward_weight: float
    passing: int

    @property
    def work(self) -> float:
        return self.forward + self.backward_input + self.backward_weight


def block_costs(plan: Plan) -> tuple[BlockCost, ...]:
    """Of every block of a plan with a pipeline. Kept for the last few layouts: a boundary is dragged over the same blocks."""
    assert plan.pipeline is not None, "asked of plans with a pipeline"
    return _block_costs(_without_boundaries(plan), plan.pipeline.micro_batches)


def _without_boundaries(plan: Plan) -> Plan:
    return plan.updated(pipeline=None, name="")


@lru_cache(maxsize=16)
def _block_costs(plan: Plan, micro_batches: int) -> tuple[BlockCost, ...]:
    blocks = block_tasks(network_of(plan.program, micro_batches))
    known: dict[object, tuple[float, float, float, int]] = {}
    found = []
    for block in blocks:
        if block.likeness not in known:
            known[block.likeness] = _priced(block, plan)
        found.append(BlockCost(block.stage.segment.blocks[0], *known[block.likeness]))
    return tuple(found)


def _priced(block: BlockTasks, plan: Plan) -> tuple[float, float, float, int]:
    forward, both = (analyze(_alone(program, plan)) for program in block.programs())
    one, two = _seconds(forward), _seconds(both)
    backward = max(two - one, 0.0)
    weight = backward * block.weight_share
    return one, backward - weight, weight, _passing(block, plan)


def _passing(block: BlockTasks, plan: Plan) -> int:
    """What a backward task without recomputation has beside what it reads and returns."""
    return analyze(_alone(block.backward_program(recompute=False), plan)).memory.by_role.get(Role.ACTIVATION, 0)


def _remade(block: BlockTasks, plan: Plan) -> int:
    """The same with recomputation: what is made again counts."""
    return analyze(_alone(block.backward_program(recompute=True), plan)).memory.by_role.get(Role.ACTIVATION, 0)


def _seconds(report: Report) -> float:
    if report.step_time is not None:
        return report.step_time.total
    return sum(each.flops * each.count for each in report.products) / NOMINAL / max(report.flops.devices, 1) or report.traffic / NOMINAL


def _alone(program: Program, plan: Plan) -> Plan:
    """A block's program over the plan's devices: rules for the dimensions it has, its weights where the plan puts them."""
    layout = plan.layout
    rules = tuple((dim, axes) for dim, axes in layout.rules if dim in program.dims)
    by_path = {tensor.path: (tensor, each) for tensor, each in zip(plan.program.arguments, plan.argument_shardings, strict=True)}
    overrides = []
    for tensor in program.arguments:
        if tensor.role is Role.PARAMETER:
            whole, sharding = by_path.get(tensor.path) or by_path[tensor.path.rpartition("/")[0]]
            dims = [dim or () for dim in sharding.dims]
            overrides.append((f"/{tensor.path}", Sharding(tuple(dims if whole.shape == tensor.shape else ((), *dims[1:])))))
    constraints = tuple(
        (pattern, each) for pattern, each in layout.constraints if any(matches(pattern, operation.path) for operation in program.operations)
    )
    try:
        return Plan(program, plan.mesh, Layout(rules, tuple(overrides), constraints), hardware=plan.hardware, wiring=plan.wiring)
    except WorkbenchError:  # a rule that does not divide what a micro-batch has of a dimension
        return Plan(program, plan.mesh, Layout((), tuple(overrides)), hardware=plan.hardware, wiring=plan.wiring)


def stage_costs(plan: Plan, *, closely: bool = False) -> tuple[StageCost, ...]:
    """One a piece of the plan's pipeline, cut as its boundaries and the balance of these costs say.

    `closely` takes memory from each whole piece as one program, not from its blocks: within a few percent of what is compiled, and slower
    to come by (about half a second for each piece unlike the others).
    """
    starts = plan_starts(plan)
    costs = costs_of_cut(plan, starts)
    return tuple(_closely(plan, starts, stage, each) for stage, each in enumerate(costs)) if closely else costs


def _closely(plan: Plan, starts: tuple[int, ...], stage: int, cost: StageCost) -> StageCost:
    assert plan.pipeline is not None, "asked of plans with a pipeline"
    passing, remade = _whole_stage(_without_boundaries(plan), plan.pipeline.micro_batches, starts, stage)
    return replace(cost, passing=passing, remade=remade)


@lru_cache(maxsize=64)
def _whole_stage(plan: Plan, micro_batches: int, starts: tuple[int, ...], stage: int) -> tuple[int, int]:
    cut = cut_network(network_of(plan.program, micro_batches), starts)
    whole = BlockTasks(StageTasks(cut, cut.segments[stage]))
    return _passing(whole, plan), _remade(whole, plan)


def plan_starts(plan: Plan) -> tuple[int, ...]:
    """The number of the block each piece but the first begins with."""
    assert plan.pipeline is not None, "asked of plans with a pipeline"
    network = network_of(plan.program, plan.pipeline.micro_batches)
    return starts_of(network, plan.pipeline, [block.work for block in block_costs(plan)])


def costs_of_cut(plan: Plan, starts: Sequence[int]) -> tuple[StageCost, ...]:
    """Of the pieces that begin with these blocks."""
    assert plan.pipeline is not None, "asked of plans with a pipeline"
    network = network_of(plan.program, plan.pipeline.micro_batches)
    costs, tasks = block_costs(plan), _tasks(network)
    bounds = (0, *starts, len(costs))
    stage_of = {block: stage for stage, (a, b) in enumerate(pairwise(bounds)) for block in range(a, b)}
    ledger = _Ledger(plan, network, tasks, stage_of)
    found = []
    for stage, (a, b) in enumerate(pairwise(bounds)):
        own = costs[a:b]
        found.append(
            StageCost(
                forward=sum(each.forward for each in own),
                backward_input=sum(each.backward_input for each in own),
                backward_weight=sum(each.backward_weight for each in own),
                held=ledger.held(stage),
                kept=ledger.kept(a, b),
                passing=max(each.passing for each in own),
                entering=ledger.entering(stage),
                sends=ledger.sends(stage),
                update=ledger.update(stage),
                remade=max(ledger.kept(a, b), *(each.passing for each in own)),
            )
        )
    return tuple(found)


@lru_cache(maxsize=8)
def _tasks(network: Network) -> tuple[BlockTasks, ...]:
    return block_tasks(network)


def _spread(plan: Plan) -> int:
    """Over how many devices of a stage a micro-batch is spread."""
    return prod(plan.mesh[axis] for axis in plan.layout.rule("batch"))


@dataclass(frozen=True, slots=True)
class _Ledger:
    """Bytes of stages, on one device; `stage_of` says where each block is."""

    plan: Plan
    network: Network
    tasks: tuple[BlockTasks, ...]
    stage_of: dict[int, int]

    @property
    def cut(self) -> Cut:
        """At every block."""
        return self.tasks[0].stage.cut

    def held(self, stage: int) -> int:
        """Parameters, the sums of their gradients, and of those that no earlier stage has the optimiser's state."""
        used = self._pieces(stage)
        earlier = {piece for other in range(stage) for piece in self._pieces(other)}
        weights = _weights(_without_boundaries(self.plan), self.network)
        return sum(weights[i][0] + (0 if i in earlier else weights[i][1]) for i in used)

    def _pieces(self, stage: int) -> list[int]:
        return sorted({i for block, each in self.stage_of.items() if each == stage for i in self.cut.segments[block].pieces})

    def kept(self, a: int, b: int) -> int:
        values = {value for task in self.tasks[a:b] for value in task.kept.values}
        inside = sum(task.kept.inside for task in self.tasks[a:b])
        return (inside + sum(self.cut.values[value].bytes for value in values)) // _spread(self.plan)

    def entering(self, stage: int) -> int:
        blocks = [block for block, each in self.stage_of.items() if each == stage]
        values = {v for block in blocks for v in self.cut.segments[block].entering if self.stage_of[self.cut.values[v].maker] != stage}
        leaves = {leaf for block in blocks for leaf in self.cut.segments[block].batch}
        batch = sum(size_of(self.network.flat.batch[leaf].aval) for leaf in leaves)
        return (sum(self.cut.values[v].bytes for v in values) + batch) // _spread(self.plan)

    def sends(self, stage: int) -> tuple[tuple[int, int], ...]:
        found: dict[int, int] = {}
        for value in self.cut.values:
            if self.stage_of[value.maker] == stage:
                for reader in {self.stage_of[each] for each in value.readers} - {stage}:
                    found[reader] = found.get(reader, 0) + value.bytes // _spread(self.plan)
        return tuple(sorted(found.items()))

    def update(self, stage: int) -> float:
        """The optimiser reads and writes parameters, gradients and state once: a matter of memory's bandwidth."""
        hardware = self.plan.hardware
        return 0.0 if hardware is None else 2 * self.held(stage) / hardware.chip.memory_bandwidth


@lru_cache(maxsize=16)
def _weights(plan: Plan, network: Network) -> tuple[tuple[int, int], ...]:
    """Of each piece of the parameters: bytes of it and the sum of its gradients, and of the optimiser's state for it.

    No boundary changes them: they are kept while one is dragged.
    """
    arguments = zip(plan.program.arguments, plan.argument_shardings, strict=True)
    leaves = [(tensor, sharding) for tensor, sharding in arguments if tensor.role is Role.PARAMETER]
    found: dict[tuple[int, bool], tuple[int, int]] = {}  # layers of a stack are alike
    for uses in network.flat.pieces:
        leaf, layer = uses[0]
        if (leaf, layer is None) not in found:
            tensor, sharding = leaves[leaf]
            count = prod(_local(tensor.shape, layer, sharding, plan))
            size = itemsize(tensor.dtype)
            found[leaf, layer is None] = ceil(ceil(count) * (size + max(size, 4))), _state(plan, network.parameter_paths[leaf], layer)
    return tuple(found[uses[0][0], uses[0][1] is None] for uses in network.flat.pieces)


def _state(plan: Plan, parameter: str, layer: int | None) -> int:
    """Bytes that the optimiser keeps for a parameter; of a stacked one for one layer."""
    path = parameter.partition("/")[2]
    total = 0.0
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        if tensor.role is Role.OPTIMIZER_STATE and tensor.path.endswith(f"/{path}"):
            total += ceil(prod(_local(tensor.shape, layer, sharding, plan))) * itemsize(tensor.dtype)
    return ceil(total)


def _local(shape: tuple[int, ...], layer: int | None, sharding: Sharding, plan: Plan) -> tuple[int, ...]:
    """On one device; of a stacked tensor one layer."""
    dims = tuple(dim or () for dim in sharding.dims)
    if layer is not None:
        shape, dims = (1, *shape[1:]), ((), *dims[1:])
    return tuple(Sharding(dims).local_shape(shape, plan.mesh))
