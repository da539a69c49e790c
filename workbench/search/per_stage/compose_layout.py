"""One ordinary layout of which each stage of a pipeline sees another part.

What the layouts of all stages state alike stays: a rule, an override or a constraint. For the rest each argument is placed by path as the
layout of its stage places it, and constraints on values by path where they lie in the stage's blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from workbench.core.layout import Layout
from workbench.core.path_patterns import find_parameter, matches
from workbench.core.program import Program
from workbench.core.selectors import operations_at
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role
from workbench.pipeline.block_layouts import tasks_of
from workbench.plan.edits import Override, apply_layout_edits
from workbench.plan.plan import Plan
from workbench.recipes.recipe_edits import override_arguments
from workbench.tracing.stage_partition.network_blocks import Network

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
