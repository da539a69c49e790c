"""`choose_stages`: a pipelined plan with the best layout for each stage, written as one ordinary layout.

Stages can differ only if the layers are unrolled: parameters stacked over layers, `[layers, ...]` in a scan, have one
sharding for all stages (`is_written_out`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from workbench.core.layout import Layout
from workbench.core.path_patterns import find_parameter, matches, operations_at
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.errors import EngineError, SearchError, WorkbenchError
from workbench.pipeline.block_layouts import tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost
from workbench.pipeline.estimate_stage_costs import block_costs, partition_costs, plan_starts
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import transfer_of
from workbench.pipeline.staged_program import StagedProgram, staged_program
from workbench.plan.edits import Override, apply_layout_edits
from workbench.plan.plan import Plan
from workbench.recipes.recipe_edits import override_arguments
from workbench.search.per_stage.stage_tables import StageTables, Table, make_stage_tables
from workbench.search.search_figures import Figures, evaluate_plan
from workbench.search.uneven_boundaries import least_of_largest
from workbench.tracing.stage_partition.trace_network import Network, network_of

# Costs of each stage with each of several layouts, and the choice of a layout per stage.
#
# Alpa (Zheng et al. 2022, arXiv:2201.12023) splits the search in this way: fronts within a stage, an exact choice across
# stages. The fronts here are the layouts of the search, each planned once for all stages; the cost of a stage with one of
# them does not depend on the layouts of other stages, except at the boundaries.


_ALIKE = 1 + 1e-9
Assignment = tuple[int, ...]
"""The index of its layout for each stage."""


class StageOption(NamedTuple):
    """Seconds per micro-batch, with recomputation and exposed communication, and peak bytes per device."""

    seconds: float
    memory: float


@dataclass(frozen=True, slots=True)
class StageOptions:
    """`options[layout][stage]`, and `limit` in bytes per device."""

    options: tuple[tuple[StageOption, ...], ...]
    limit: float

    def fastest(self) -> Assignment:
        """Per stage the fastest layout that fits, else the one with the least memory."""
        return tuple(self._least(stage, self._fitting(stage), by_memory=False) for stage in self._stages)

    def leanest(self) -> Assignment:
        """Per stage the layout with least memory that is no slower than the slowest of `fastest`."""
        chosen = self.fastest()
        pace = max(self.options[layout][stage].seconds for stage, layout in enumerate(chosen))
        layouts = []
        for stage in self._stages:
            others = [layout for layout in self._fitting(stage) if self.options[layout][stage].seconds <= pace * _ALIKE]
            layouts.append(self._least(stage, others, by_memory=True))
        return tuple(layouts)

    @property
    def _stages(self) -> range:
        return range(len(self.options[0]))

    def _fitting(self, stage: int) -> list[int]:
        return [number for number, stages in enumerate(self.options) if stages[stage].memory <= self.limit]

    def _least(self, stage: int, layouts: Sequence[int], *, by_memory: bool) -> int:
        if not layouts:
            return min(range(len(self.options)), key=lambda layout: self.options[layout][stage].memory)
        fastest = min(self.options[layout][stage].seconds for layout in layouts)
        candidates = [layout for layout in layouts if by_memory or self.options[layout][stage].seconds <= fastest * _ALIKE]
        return min(candidates, key=lambda layout: self.options[layout][stage].memory)


def list_stage_options(layouts: Sequence[StagedProgram], starts: Sequence[int], limit: float) -> StageOptions:
    """Costs of each stage with each layout, with boundaries before the blocks `starts`: the planner's own figures."""
    return StageOptions(tuple(tuple(_list_options(layout, starts)) for layout in layouts), limit)


def _list_options(staged: StagedProgram, starts: Sequence[int]) -> Iterator[StageOption]:
    spec, costs = staged.spec, partition_costs(staged, starts)
    peaks = simulate(spec, costs, transfer_of(staged.plan)).peaks
    for stage, (cost, peak) in enumerate(zip(costs, peaks, strict=True)):
        passes = 2 if spec.recomputes(0, stage) else 1
        yield StageOption(passes * cost.forward + cost.backward_input + cost.backward_weight, peak)


def find_fastest_partition(tables: Sequence[StageTables], spec: PipelineSpec, limit: float) -> tuple[int, ...] | None:
    """First blocks that minimize the slowest stage, each with its fastest fitting layout; `None` if none fits."""

    def seconds(device: int) -> Table:
        recomputed = spec.recomputes(0, device)
        return np.minimum.reduce(
            [np.where(table.peaks(spec, device) <= limit, table.seconds(recomputed=recomputed), np.inf) for table in tables]
        )

    slowest, starts = least_of_largest(seconds, spec.stages)
    return starts if np.isfinite(slowest) else None


# The layouts of all stages as one layout.


_BETTER = 1 - 1e-6
"""Largest step time of a composed plan relative to the best plan with one layout."""
_NO_LESS = 1 - 1e-9
_MOST_STARTS, _MOST_NEAR = 4, 12


def is_written_out(program: Program) -> bool:
    """Whether the program is a training step of several blocks without parameters stacked over layers."""
    if program.step.training is None:
        return False
    try:
        network = network_of(program)
        return len(network.paths) > 1 and all(place.layer is None for place, _ in network.flat.param_slices)
    except WorkbenchError:
        return False


def choose_stages(make_plans: Sequence[Callable[[], Plan]], most_memory: float, is_cancelled: Callable[[], bool] = lambda: False) -> Plan:
    """Return the best plan among those with one layout for all stages and those composed of them.

    - `make_plans`: each makes a plan with another layout and a pipeline of one chunk per device, or raises
      `WorkbenchError` if its layout is illegal;
    - `most_memory`: memory limit in bytes per device.

    Tries several boundaries: those of the best plan, those of the best partition for stages that each take the fastest
    layout that fits, and a few of other layouts. For each of them, every stage takes the fastest layout that fits, or
    the one with the least memory that is no slower than the slowest stage: once among all layouts, and once among those
    that shard parameters differently, because a stage cannot state how its inputs are sharded. The cost of a stage
    depends on the sharding of its inputs, so a few choices with another layout for one stage are tried too. Every
    candidate is planned like any other plan. A composed plan wins if it is faster than the best plan with one layout,
    or takes less memory if neither fits. It is rejected if a block costs less than with every layout of its own, as it
    would depend on the sharding of another stage.

    Raises `EngineError` if cancelled, and the planner's error if no layout is legal.
    """
    layouts = _plan_all(make_plans, is_cancelled)
    first = min(range(len(layouts)), key=lambda number: _key(layouts[number][1], most_memory))
    best, figures = layouts[first]
    staged = [staged_program(plan) for plan, _ in layouts]
    for starts in _list_starts(staged, staged[first], most_memory):
        for numbers in _list_kinds([plan for plan, _ in layouts]):
            _raise_if(is_cancelled)
            kinds = [staged[number] for number in numbers]
            options = list_stage_options(kinds, starts, most_memory)
            near = islice(_list_near(options.fastest(), len(kinds)), _MOST_NEAR if len(kinds) == len(staged) else 0)
            for chosen in dict.fromkeys((options.fastest(), options.leanest(), *near)):
                composed = _compose(kinds, chosen, starts)
                if composed is not None and _is_better(composed[1], figures, most_memory):
                    best, figures = composed
    return best


def _plan_all(make_plans: Sequence[Callable[[], Plan]], is_cancelled: Callable[[], bool]) -> list[tuple[Plan, Figures]]:
    """Each legal plan with its figures. Raises the last error if no plan is legal."""
    evaluated = []
    refused: WorkbenchError = SearchError("The stages have no layouts to choose from.", ["use another layout"])
    for make in make_plans:
        _raise_if(is_cancelled)
        try:
            plan = make()
            evaluated.append((plan, evaluate_plan(plan)))
        except WorkbenchError as error:
            refused = error
    if not evaluated:
        raise refused
    return evaluated


def _raise_if(is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise EngineError("The search was cancelled while it chose the layouts of stages.", ["search again"])


def _key(figures: Figures, most_memory: float) -> tuple[float, ...]:
    """Sort key: plans that fit by time, then the others by memory."""
    return (0, figures.seconds, figures.memory) if figures.memory <= most_memory else (1, figures.memory, figures.seconds)


def _is_better(one: Figures, other: Figures, most_memory: float) -> bool:
    (over, least, _), (other_over, other_least, _) = _key(one, most_memory), _key(other, most_memory)
    return over < other_over or (over == other_over and least < other_least * _BETTER)


def _list_starts(staged: Sequence[StagedProgram], best: StagedProgram, most_memory: float) -> Iterator[tuple[int, ...]]:
    """First blocks of the stages to try: of the best plan, of stages that choose their layouts, and of single layouts.
    The choice does not know how the cost of a stage depends on the sharding that the stage before leaves, so a few
    are tried.
    """
    chosen = find_fastest_partition([make_stage_tables(layout) for layout in staged], best.spec, most_memory)
    others = (plan_starts(layout) for layout in staged)
    candidates = dict.fromkeys(starts for starts in (plan_starts(best), chosen, *others) if starts is not None)
    yield from list(candidates)[:_MOST_STARTS]


def _list_near(chosen: Assignment, layouts: int) -> Iterator[Assignment]:
    for stage, current in enumerate(chosen):
        for other in range(layouts):
            if other != current:
                yield (*chosen[:stage], other, *chosen[stage + 1 :])


def _list_kinds(plans: Sequence[Plan]) -> Iterator[list[int]]:
    yield list(range(len(plans)))
    first: dict[tuple[object, ...], int] = {}
    for number, plan in enumerate(plans):
        placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
        params = tuple(sharding for tensor, sharding in placed if tensor.role is Role.PARAMETER)
        first.setdefault((params, plan.layout.constraints), number)
    if 1 < len(first) < len(plans):
        yield list(first.values())


def _compose(layouts: Sequence[StagedProgram], chosen: Assignment, starts: Sequence[int]) -> tuple[Plan, Figures] | None:
    """Compose and evaluate layouts; `None` if illegal, uniform, or cheaper in a block than its layout."""
    if len(set(chosen)) == 1:
        return None
    plans = [layouts[number].plan for number in chosen]
    network = layouts[0].network
    spec = replace(layouts[0].spec, boundaries=tuple(network.paths[start] for start in starts))
    try:
        plan = plans[0].updated(layout=compose_layout(plans, network, starts), pipeline=spec)
        costs_less = _costs_less(plan, [layouts[number] for number in dict.fromkeys(chosen)])
        return None if costs_less else (plan, evaluate_plan(plan))
    except WorkbenchError:
        return None


def _costs_less(plan: Plan, layouts: Sequence[StagedProgram]) -> bool:
    """Whether a block costs less than with any of the layouts, which would break the bounds of a search."""
    staged = staged_program(plan)
    tasks = tasks_of(staged.network)

    def figures(cost: BlockCost, number: int) -> tuple[float, ...]:
        return cost.forward, cost.backward_input, cost.backward_weight, cost.kept(tasks[number].residuals.inside)

    others = [block_costs(layout) for layout in layouts]
    for number, block in enumerate(block_costs(staged)):
        least = [min(pair) for pair in zip(*(figures(costs[number], number) for costs in others), strict=True)]
        if any(mine < other * _NO_LESS for mine, other in zip(figures(block, number), least, strict=True)):
            return True
    return False


# One ordinary layout that contains the layouts of all stages.
#
# Statements that the layouts of all stages share are kept: rules, overrides, constraints. Each other argument gets an override by path from
# the layout of its stage, and the values in the blocks of a stage get constraints by path.

_BACKWARD = "grad/"


def compose_layout(plans: Sequence[Plan], network: Network, starts: Sequence[int]) -> Layout:
    """Compose the layout whose stages have the layouts of these plans, one per stage.

    The plans share program, mesh and hardware; `starts` are the first blocks of all stages but the first. An argument
    that several stages read is sharded as in the first of them. Raises `LayoutError` if the layout is illegal.
    """
    bounds = list(pairwise((0, *starts, len(network.paths))))
    stage_of = _stages_of_arguments(plans[0].program, network, bounds)
    base = plans[0].updated(layout=_common_layout([plan.layout for plan in plans]), pipeline=None)
    shardings = {}
    for number, (tensor, present) in enumerate(zip(base.program.arguments, base.argument_shardings, strict=True)):
        wanted = plans[stage_of.get(number, 0)].argument_shardings[number]
        if wanted != present:
            shardings[tensor.path] = wanted
    composed = apply_layout_edits(base, _list_overrides(base, shardings)).layout
    constraints = tuple(
        constraint
        for plan, (a, b) in zip(plans, bounds, strict=True)
        for constraint in _list_constraints(plan, composed, network.paths[a:b])
    )
    return composed.updated(constraints=(*composed.constraints, *constraints)) if constraints else composed


def _list_overrides(base: Plan, shardings: Mapping[str, Sharding]) -> Iterator[Override]:
    """Overrides of arguments by path; one for a parameter of one layer and its moments if they share a sharding."""
    paths, done = [tensor.path for tensor in base.program.arguments], set[str]()
    edits = list(override_arguments(base, shardings))
    for edit in edits:
        root, _, tail = edit.pattern.partition("/")
        named = [path for path in paths if matches(tail, path)] if root == "params" and "*" not in edit.pattern else []
        if edit.pattern not in done and named and all(shardings.get(path) == edit.sharding for path in named):
            done.update(named)
            yield Override(tail, edit.sharding)
    yield from (edit for edit in edits if edit.pattern not in done)


def _stages_of_arguments(program: Program, network: Network, bounds: Sequence[tuple[int, int]]) -> dict[int, int]:
    parameters = [i for i, argument in enumerate(program.arguments) if argument.role is Role.PARAMETER]
    stages: dict[int, int] = {}
    blocks = tasks_of(network)
    for stage, (a, b) in enumerate(bounds):
        for block in blocks[a:b]:
            function = block.stage.virtual_stage
            used = [parameters[network.flat.param_slices[i][0].leaf] for i in function.param_slices]
            for number in (*used, *(program.inputs[leaf] for leaf in function.batch)):
                stages.setdefault(number, stage)
    by_name = {program.arguments[i].path.partition("/")[2]: i for i in parameters}
    for number, tensor in enumerate(program.arguments):
        owner = find_parameter(tensor.path, by_name) if tensor.role is Role.OPTIMIZER_STATE else None
        if owner is not None and by_name[owner] in stages:
            stages[number] = stages[by_name[owner]]
    return stages


def _common_layout(layouts: Sequence[Layout]) -> Layout:
    first, *others = layouts
    rules = tuple(statement for statement in first.rules if all(statement in other.rules for other in others))
    named = {dim for dim, _ in rules}
    return first.updated(
        rules=rules,
        overrides=tuple(statement for statement in first.overrides if all(statement in other.overrides for other in others)),
        constraints=tuple(statement for statement in first.constraints if all(statement in other.constraints for other in others)),
        priorities=tuple(statement for statement in first.priorities if statement[0] in named),
        groups=tuple(statement for statement in first.groups if all(statement in other.groups for other in others)),
        barriers=tuple(statement for statement in first.barriers if all(statement in other.barriers for other in others)),
    )


def _list_constraints(plan: Plan, common: Layout, blocks: Sequence[str]) -> Iterator[tuple[str, Sharding]]:
    for pattern, sharding in plan.layout.constraints:
        if (pattern, sharding) in common.constraints:
            continue
        numbers = operations_at(plan.program, pattern, len(sharding.dims))
        paths = dict.fromkeys(plan.program.operations[number].path.removeprefix(_BACKWARD) for number in numbers)
        yield from ((path, sharding) for path in paths if any(path.startswith(f"{block}/") for block in blocks))
