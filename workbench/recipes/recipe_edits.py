"""How a recipe shards things: edits over dimensions, arguments and intermediate values, as few as possible.

Repeated layers are named once (`layers/*/mlp/w1`), and so are a parameter's moments (`opt_state/**/mlp/w1`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.path_patterns import matches, operations_at, template
from workbench.core.program import Operation, Program
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role, Tensor
from workbench.plan.edits import Constrain, Edit, Override, ShardDim
from workbench.plan.plan import Plan


def place_dim(plan: Plan, dim: str, axes: tuple[str, ...]) -> Iterator[Edit]:
    """Shard the dimension over the axes, in its rule and in overrides, which the rule does not change. Its present axes stay, and the new
    ones are minor to them."""
    old = plan.layout.rule(dim)
    new_axes = (*axes, *(axis for axis in old if axis not in axes))
    if new_axes != old and set(axes) - set(old):
        yield ShardDim(dim, new_axes)
    for pattern, sharding in plan.layout.overrides:
        named = {each.dims for each in plan.program.arguments if matches(pattern, each.path)}
        at = {dims.index(dim) for dims in named if dim in dims}
        if len(at) == 1 and all(dim in dims for dims in named) and not set(axes) & set(sharding.axes):
            (where,) = at
            yield Override(pattern, sharding.with_dim(where, (*axes, *(sharding.dims[where] or ()))))


def override_arguments(plan: Plan, shardings: Mapping[str, Sharding]) -> Iterator[Override]:
    """Override the arguments of these paths with these shardings, equal ones by one pattern."""
    program, done = plan.program, set[str]()
    by_template, weights = _by_template(program), _weight_paths(program)
    for path, sharding in shardings.items():
        if path in done:
            continue
        for pattern in (*_argument_patterns(template(path), weights), path):
            named = _match_paths(pattern, by_template) if pattern != path else (path,)
            if path in named and all(shardings.get(each) == sharding for each in named):
                done.update(named)
                yield Override(pattern, sharding)
                break


def _argument_patterns(path: str, weights: frozenset[str]) -> Iterator[str]:
    """A weight with its moments, `mlp/w1`; its moments alone, `opt_state/**/mlp/w1`; the argument alone, here and in other layers."""
    words = path.split("/")
    tails = ("/".join(words[at:]) for at in range(1, len(words)))
    if tail := next((each for each in tails if f"params/{each}" in weights), ""):
        yield tail
        if words[0] == "opt_state":
            yield f"opt_state/**/{tail}"
    yield path
    yield f"/{path}"


def _match_paths(pattern: str, by_template: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(path for at, paths in by_template.items() if matches(pattern, at) for path in paths)


@cache_with_program(2)
def _by_template(program: Program) -> Mapping[str, tuple[str, ...]]:
    found = defaultdict[str, tuple[str, ...]](tuple)
    for each in program.arguments:
        found[template(each.path)] += (each.path,)
    return found


@cache_with_program(1)
def _weight_paths(program: Program) -> frozenset[str]:
    return frozenset(template(each.path) for each in program.arguments if is_parameter(each))


def constrain(
    plan: Plan,
    operation_ids: Iterable[int],
    axes_by_dim: Mapping[str, tuple[str, ...]],
    priorities: Mapping[str, int] | None = None,
    excluded_dims: Iterable[str] = (),
) -> Iterator[Constrain]:
    """The values of these operations with the dimensions on the axes that `axes_by_dim` gives; the other dimensions are left to
    propagation.

    Values are left out if no pattern distinguishes them from values that would be sharded differently, or that have one of `excluded_dims`.
    """
    program, patterns, excluded = plan.program, dict[tuple[str, Sharding], None](), frozenset(excluded_dims)
    for at in operation_ids:
        operation = program.operations[at]
        sharding = _sharding_by_name(operation.dims, axes_by_dim, priorities or {})
        if sharding is None or sharding == Sharding((None,) * len(sharding.dims)):
            continue
        for pattern, found in _candidate_patterns(program, operation):
            alike = [dims for dims in found if len(dims) == len(operation.dims)]
            if all(_sharding_by_name(dims, axes_by_dim, priorities or {}) == sharding and excluded.isdisjoint(dims) for dims in alike):
                patterns[pattern, sharding] = None
                break
    yield from (Constrain(pattern, sharding) for pattern, sharding in patterns)


def constrain_values(plan: Plan, operation_ids: Iterable[int], shardings: Mapping[int, Sharding]) -> Iterator[Constrain]:
    """The values of these operations with their shardings, by id. One is left out where no pattern names it alone, or together with values
    that have the same sharding; a pattern of the layout stays as it is."""
    program, done, used = plan.program, set[int](), {pattern for pattern, _ in plan.layout.constraints}
    for at in operation_ids:
        if at in done:
            continue
        sharding = shardings[at]
        for pattern, _ in _candidate_patterns(program, program.operations[at]):
            named = operations_at(program, pattern, len(sharding.dims))
            if pattern not in used and at in named and all(shardings.get(each) == sharding for each in named):
                done.update(named)
                used.add(pattern)
                yield Constrain(pattern, sharding)
                break


def _sharding_by_name(dims: tuple[str, ...], axes_by_dim: Mapping[str, tuple[str, ...]], priorities: Mapping[str, int]) -> Sharding | None:
    """The sharding of a value of these dimensions; `None` where two of them would be sharded over one axis."""
    once = tuple(dim if dims.count(dim) == 1 else "" for dim in dims)
    placed = tuple(axes_by_dim.get(dim) for dim in once)
    used = [axis for axes in placed for axis in axes or ()]
    if len(set(used)) < len(used):
        return None
    given = tuple(priorities.get(dim, 0) if axes else 0 for dim, axes in zip(once, placed, strict=True))
    return Sharding(placed, priorities=given if any(given) else ())


def _candidate_patterns(program: Program, operation: Operation) -> Iterator[tuple[str, set[tuple[str, ...]]]]:
    """Patterns for a value, the simplest first, and the dimensions of all values that each of them matches: its path, in the backward pass
    too; its path there alone; its line."""
    by_path, by_line = _dims_of_values(program)
    name = template(operation.path)
    yield name, {dims for at, found in by_path.items() if at == name or at.endswith(f"/{name}") for dims in found}
    yield f"/{name}", by_path[name]
    primitive = operation.path.rpartition("/")[2]
    if operation.source and not operation.path.startswith("grad/"):
        yield f"{operation.source}/{primitive}", by_line[operation.source, primitive]


@cache_with_program(25)
def _dims_of_values(program: Program) -> tuple[dict[str, set[tuple[str, ...]]], dict[tuple[str, str], set[tuple[str, ...]]]]:
    """The dimensions of the values of each path, without layer numbers, and of each line and primitive of the forward pass."""
    by_path, by_line = defaultdict[str, set[tuple[str, ...]]](set), defaultdict[tuple[str, str], set[tuple[str, ...]]](set)
    blotted: dict[str, str] = {}
    for each in program.operations:
        if each.path not in blotted:
            blotted[each.path] = template(each.path)
        by_path[blotted[each.path]].add(each.dims)
        if not each.path.startswith("grad/"):
            by_line[each.source, each.path.rpartition("/")[2]].add(each.dims)
    return by_path, by_line


def is_state(tensor: Tensor) -> bool:
    return tensor.role is Role.OPTIMIZER_STATE


def is_parameter(tensor: Tensor) -> bool:
    return tensor.role is Role.PARAMETER
