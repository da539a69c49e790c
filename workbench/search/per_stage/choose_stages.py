"""`choose_stages`: a plan of a pipeline each stage of which has the layout that is best for it, written as one ordinary layout.

Only where the layers are written out can stages differ: parameters that are stacked over layers, `[layers, ...]` in a scan, have one
sharding for all of them. Of such programs nothing is chosen by stage (`is_written_out`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from workbench.core.layout import Layout
from workbench.core.path_patterns import find_parameter, matches, operations_at
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.program import Program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.errors import EngineError, SearchError, WorkbenchError
from workbench.pipeline.block_layouts import tasks_of
from workbench.pipeline.estimate_block_cost import BlockCost
from workbench.pipeline.estimate_stage_costs import block_costs, plan_starts
from workbench.pipeline.staged_program import StagedProgram, staged_program
from workbench.plan.edits import Override, apply_layout_edits
from workbench.plan.plan import Plan
from workbench.recipes.recipe_edits import override_arguments
from workbench.search.per_stage.stage_options import Assignment, find_own_starts, list_stage_options
from workbench.search.per_stage.stage_tables import make_stage_tables
from workbench.search.search_figures import Figures, evaluate_plan
from workbench.tracing.stage_partition.network_blocks import Network
from workbench.tracing.stage_partition.trace_network import network_of

_BETTER = 1 - 1e-6
"""A composed plan takes at most so much of the time of the best that has one layout."""
_NO_LESS = 1 - 1e-9
_MOST_STARTS, _MOST_NEAR = 4, 12


def is_written_out(program: Program) -> bool:
    """Whether the program is a training step in several blocks, no parameter of which is stacked over layers."""
    if program.step.training is None:
        return False
    try:
        network = network_of(program)
        return len(network.paths) > 1 and all(place.layer is None for place, _ in network.flat.param_slices)
    except WorkbenchError:
        return False


def choose_stages(make_plans: Sequence[Callable[[], Plan]], most_memory: float, is_cancelled: Callable[[], bool] = lambda: False) -> Plan:
    """The best plan of those with one layout for all stages, and of those composed of them.

    - `make_plans`: each makes a plan that differs from the others in its layout alone, with a pipeline of one chunk a device, or raises
      `WorkbenchError` where its layout is illegal;
    - `most_memory`: bytes of a device to keep to.

    Boundaries are those of the best layout, those of the best of all partitions where each stage takes the fastest layout that fits, and a
    few of those of other layouts. With each of them, each stage takes the fastest layout that fits, or the one with least memory that is no
    slower than the slowest stage; once of all layouts, once of those alone that split parameters, for a stage cannot state how it splits
    what it is given. What a stage costs depends on how it is given what the one before it made: so a few choices are tried, too, in which
    one stage has another layout than the fastest. Each of these plans is planned like any other. A composed plan is taken where it is
    faster than the best with one layout, or holds less where neither fits.
    One in which a block costs less than with any layout of its own is not: it would live on what another stage has split.

    Raises `EngineError` where it is cancelled, and what the planner says where no layout is legal.
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
                found = _compose(kinds, chosen, starts)
                if found is not None and _is_better(found[1], figures, most_memory):
                    best, figures = found
    return best


def _plan_all(make_plans: Sequence[Callable[[], Plan]], is_cancelled: Callable[[], bool]) -> list[tuple[Plan, Figures]]:
    """Each legal plan with its figures. Raises the last error where there is none."""
    found = []
    refused: WorkbenchError = SearchError("The stages have no layouts to choose from.", ["use another layout"])
    for make in make_plans:
        _raise_if(is_cancelled)
        try:
            plan = make()
            found.append((plan, evaluate_plan(plan)))
        except WorkbenchError as error:
            refused = error
    if not found:
        raise refused
    return found


def _raise_if(is_cancelled: Callable[[], bool]) -> None:
    if is_cancelled():
        raise EngineError("The search was cancelled while it chose the layouts of stages.", ["search again"])


def _key(figures: Figures, most_memory: float) -> tuple[float, ...]:
    """What fits before what does not, then by time; what does not, by memory."""
    return (0, figures.seconds, figures.memory) if figures.memory <= most_memory else (1, figures.memory, figures.seconds)


def _is_better(one: Figures, other: Figures, most_memory: float) -> bool:
    (over, least, _), (other_over, other_least, _) = _key(one, most_memory), _key(other, most_memory)
    return over < other_over or (over == other_over and least < other_least * _BETTER)


def _list_starts(staged: Sequence[StagedProgram], best: StagedProgram, most_memory: float) -> Iterator[tuple[int, ...]]:
    """The first blocks of stages to choose for: those of the best plan, those that suit stages which choose, and a few of those that suit
    one layout: what a stage costs depends on how the one before it leaves what it is given, which the choice does not know."""
    own = find_own_starts([make_stage_tables(each) for each in staged], best.spec, most_memory)
    others = (plan_starts(each) for each in staged)
    found = dict.fromkeys(each for each in (plan_starts(best), own, *others) if each is not None)
    yield from list(found)[:_MOST_STARTS]


def _list_near(chosen: Assignment, layouts: int) -> Iterator[Assignment]:
    """The choice with another layout for one stage."""
    for stage, own in enumerate(chosen):
        for other in range(layouts):
            if other != own:
                yield (*chosen[:stage], other, *chosen[stage + 1 :])


def _list_kinds(plans: Sequence[Plan]) -> Iterator[list[int]]:
    """The numbers of all plans; and of those that place parameters differently, each kind once."""
    yield list(range(len(plans)))
    first: dict[tuple[object, ...], int] = {}
    for number, plan in enumerate(plans):
        placed = zip(plan.program.arguments, plan.argument_shardings, strict=True)
        params = tuple(sharding for tensor, sharding in placed if tensor.role is Role.PARAMETER)
        first.setdefault((params, plan.layout.constraints), number)
    if 1 < len(first) < len(plans):
        yield list(first.values())


def _compose(layouts: Sequence[StagedProgram], chosen: Assignment, starts: Sequence[int]) -> tuple[Plan, Figures] | None:
    """The plan of these layouts, one a stage, with its figures; `None` where it is none, or owes what it saves to other stages."""
    if len(set(chosen)) == 1:
        return None
    plans = [layouts[number].plan for number in chosen]
    network = layouts[0].network
    spec = _with_boundaries(layouts[0].spec, network.paths, starts)
    try:
        plan = plans[0].updated(layout=compose_layout(plans, network, starts), pipeline=spec)
        costs_less = _costs_less(plan, [layouts[number] for number in dict.fromkeys(chosen)])
        return None if costs_less else (plan, evaluate_plan(plan))
    except WorkbenchError:
        return None


def _with_boundaries(spec: PipelineSpec, paths: Sequence[str], starts: Sequence[int]) -> PipelineSpec:
    return replace(spec, boundaries=tuple(paths[start] for start in starts))


def _costs_less(plan: Plan, layouts: Sequence[StagedProgram]) -> bool:
    """Whether some block takes less time or keeps fewer bytes than with any of the layouts: bounds of a search count on that."""
    staged = staged_program(plan)
    tasks = tasks_of(staged.network)

    def figures(each: BlockCost, number: int) -> tuple[float, ...]:
        return each.forward, each.backward_input, each.backward_weight, each.kept(tasks[number].residuals.inside)

    others = [block_costs(each) for each in layouts]
    for number, own in enumerate(block_costs(staged)):
        least = [min(pair) for pair in zip(*(figures(costs[number], number) for costs in others), strict=True)]
        if any(mine < other * _NO_LESS for mine, other in zip(figures(own, number), least, strict=True)):
            return True
    return False


# One ordinary layout of which each stage of a pipeline sees another part.
#
# What the layouts of all stages state alike stays: a rule, an override or a constraint. For the rest each argument is placed by path as the
# layout of its stage places it, and constraints on values by path where they lie in the stage's blocks.

_BACKWARD = "grad/"


def compose_layout(plans: Sequence[Plan], network: Network, starts: Sequence[int]) -> Layout:
    """The layout whose stages are those of these plans, one for each stage: of one program, mesh and hardware; the stages but the first
    begin with the blocks `starts`.

    An argument that several stages read is as the first of them has it. Raises `LayoutError` where that is no legal layout.
    """
    bounds = list(pairwise((0, *starts, len(network.paths))))
    stage_of = _stages_of_arguments(plans[0].program, network, bounds)
    base = plans[0].updated(layout=_common_layout([each.layout for each in plans]), pipeline=None)
    shardings = {}
    for number, (tensor, present) in enumerate(zip(base.program.arguments, base.argument_shardings, strict=True)):
        wanted = plans[stage_of.get(number, 0)].argument_shardings[number]
        if wanted != present:
            shardings[tensor.path] = wanted
    composed = apply_layout_edits(base, _list_overrides(base, shardings)).layout
    own = tuple(each for plan, (a, b) in zip(plans, bounds, strict=True) for each in _list_constraints(plan, composed, network.paths[a:b]))
    return composed.updated(constraints=(*composed.constraints, *own)) if own else composed


def _list_overrides(base: Plan, shardings: Mapping[str, Sharding]) -> Iterator[Override]:
    """Overrides of arguments by path, one for a parameter of one layer and its moments where they are placed alike."""
    paths, done = [each.path for each in base.program.arguments], set[str]()
    edits = list(override_arguments(base, shardings))
    for each in edits:
        root, _, tail = each.pattern.partition("/")
        named = [path for path in paths if matches(tail, path)] if root == "params" and "*" not in each.pattern else []
        if each.pattern not in done and named and all(shardings.get(path) == each.sharding for path in named):
            done.update(named)
            yield Override(tail, each.sharding)
    yield from (each for each in edits if each.pattern not in done)


def _stages_of_arguments(program: Program, network: Network, bounds: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The first stage that reads each argument, by its number; the optimiser's state goes with its parameter."""
    parameters = [i for i, each in enumerate(program.arguments) if each.role is Role.PARAMETER]
    found: dict[int, int] = {}
    blocks = tasks_of(network)
    for stage, (a, b) in enumerate(bounds):
        for block in blocks[a:b]:
            function = block.stage.virtual_stage
            used = [parameters[network.flat.param_slices[i][0].leaf] for i in function.param_slices]
            for number in (*used, *(program.inputs[leaf] for leaf in function.batch)):
                found.setdefault(number, stage)
    by_name = {program.arguments[i].path.partition("/")[2]: i for i in parameters}
    for number, tensor in enumerate(program.arguments):
        owner = find_parameter(tensor.path, by_name) if tensor.role is Role.OPTIMIZER_STATE else None
        if owner is not None and by_name[owner] in found:
            found[number] = found[by_name[owner]]
    return found


def _common_layout(layouts: Sequence[Layout]) -> Layout:
    """The statements that all layouts have."""
    first, *others = layouts
    rules = tuple(each for each in first.rules if all(each in other.rules for other in others))
    named = {dim for dim, _ in rules}
    return first.updated(
        rules=rules,
        overrides=tuple(each for each in first.overrides if all(each in other.overrides for other in others)),
        constraints=tuple(each for each in first.constraints if all(each in other.constraints for other in others)),
        priorities=tuple(each for each in first.priorities if each[0] in named),
        groups=tuple(each for each in first.groups if all(each in other.groups for other in others)),
        barriers=tuple(each for each in first.barriers if all(each in other.barriers for other in others)),
    )


def _list_constraints(plan: Plan, common: Layout, blocks: Sequence[str]) -> Iterator[tuple[str, Sharding]]:
    """The constraints of a stage's own plan on values in its blocks, each by the path of the value."""
    for pattern, sharding in plan.layout.constraints:
        if (pattern, sharding) in common.constraints:
            continue
        at = operations_at(plan.program, pattern, len(sharding.dims))
        paths = dict.fromkeys(plan.program.operations[number].path.removeprefix(_BACKWARD) for number in at)
        yield from ((path, sharding) for path in paths if any(path.startswith(f"{block}/") for block in blocks))
