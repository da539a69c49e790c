"""The edits of recipes for dimensions, arguments and values, as few as possible.

Repeated layers share one pattern (`layers/*/mlp/w1`), and so do a parameter's moments (`opt_state/**/mlp/w1`).
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
    """Shard the dimension over the axes, in its rule and in overrides; its present axes stay, minor to the new ones."""
    old = plan.layout.rule(dim)
    new_axes = (*axes, *(axis for axis in old if axis not in axes))
    if new_axes != old and set(axes) - set(old):
        yield ShardDim(dim, new_axes)
    for pattern, sharding in plan.layout.overrides:
        matching_dims = {tensor.dims for tensor in plan.program.arguments if matches(pattern, tensor.path)}
        positions = {dims.index(dim) for dims in matching_dims if dim in dims}
        if len(positions) == 1 and all(dim in dims for dims in matching_dims) and not set(axes) & set(sharding.axes):
            (position,) = positions
            yield Override(pattern, sharding.with_dim(position, (*axes, *(sharding.dims[position] or ()))))


def override_arguments(plan: Plan, shardings: Mapping[str, Sharding]) -> Iterator[Override]:
    """Override the arguments with these paths, with one pattern for equal shardings."""
    program, done = plan.program, set[str]()
    by_template, weights = _by_template(program), _weight_paths(program)
    for path, sharding in shardings.items():
        if path in done:
            continue
        for pattern in (*_argument_patterns(template(path), weights), path):
            matched = _match_paths(pattern, by_template) if pattern != path else (path,)
            if path in matched and all(shardings.get(path_matched) == sharding for path_matched in matched):
                done.update(matched)
                yield Override(pattern, sharding)
                break


def _argument_patterns(path: str, weights: frozenset[str]) -> Iterator[str]:
    """Patterns of a weight with its moments, `mlp/w1`, of moments, `opt_state/**/mlp/w1`, and of the argument."""
    words = path.split("/")
    tails = ("/".join(words[at:]) for at in range(1, len(words)))
    if tail := next((suffix for suffix in tails if f"params/{suffix}" in weights), ""):
        yield tail
        if words[0] == "opt_state":
            yield f"opt_state/**/{tail}"
    yield path
    yield f"/{path}"


def _match_paths(pattern: str, by_template: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(path for at, paths in by_template.items() if matches(pattern, at) for path in paths)


@cache_with_program(2)
def _by_template(program: Program) -> Mapping[str, tuple[str, ...]]:
    paths = defaultdict[str, tuple[str, ...]](tuple)
    for tensor in program.arguments:
        paths[template(tensor.path)] += (tensor.path,)
    return paths


@cache_with_program(1)
def _weight_paths(program: Program) -> frozenset[str]:
    return frozenset(template(tensor.path) for tensor in program.arguments if is_parameter(tensor))


def constrain(
    plan: Plan,
    operation_ids: Iterable[int],
    axes_by_dim: Mapping[str, tuple[str, ...]],
    priorities: Mapping[str, int] | None = None,
    excluded_dims: Iterable[str] = (),
) -> Iterator[Constrain]:
    """Constrain values to `axes_by_dim`, except where every pattern also matches differing or excluded values."""
    program, patterns, excluded = plan.program, dict[tuple[str, Sharding], None](), frozenset(excluded_dims)
    for number in operation_ids:
        operation = program.operations[number]
        sharding = _sharding_by_name(operation.dims, axes_by_dim, priorities or {})
        if sharding is None or sharding == Sharding((None,) * len(sharding.dims)):
            continue
        for pattern, dims_matched in _candidate_patterns(program, operation):
            same_rank = [dims for dims in dims_matched if len(dims) == len(operation.dims)]
            if all(_sharding_by_name(dims, axes_by_dim, priorities or {}) == sharding and excluded.isdisjoint(dims) for dims in same_rank):
                patterns[pattern, sharding] = None
                break
    yield from (Constrain(pattern, sharding) for pattern, sharding in patterns)


def constrain_values(plan: Plan, operation_ids: Iterable[int], shardings: Mapping[int, Sharding]) -> Iterator[Constrain]:
    """Constrain operations to shardings by id, except where every pattern also matches differing or stated values."""
    program, done, used = plan.program, set[int](), {pattern for pattern, _ in plan.layout.constraints}
    for number in operation_ids:
        if number in done:
            continue
        sharding = shardings[number]
        for pattern, _ in _candidate_patterns(program, program.operations[number]):
            matched = operations_at(program, pattern, len(sharding.dims))
            if pattern not in used and number in matched and all(shardings.get(match) == sharding for match in matched):
                done.update(matched)
                used.add(pattern)
                yield Constrain(pattern, sharding)
                break


def _sharding_by_name(dims: tuple[str, ...], axes_by_dim: Mapping[str, tuple[str, ...]], priorities: Mapping[str, int]) -> Sharding | None:
    """The sharding of a value with these dimensions; `None` if two of them would use one axis."""
    once = tuple(dim if dims.count(dim) == 1 else "" for dim in dims)
    placed = tuple(axes_by_dim.get(dim) for dim in once)
    used = [axis for axes in placed for axis in axes or ()]
    if len(set(used)) < len(used):
        return None
    dim_priorities = tuple(priorities.get(dim, 0) if axes else 0 for dim, axes in zip(once, placed, strict=True))
    return Sharding(placed, priorities=dim_priorities if any(dim_priorities) else ())


def _candidate_patterns(program: Program, operation: Operation) -> Iterator[tuple[str, set[tuple[str, ...]]]]:
    """Patterns for a value with the dimensions of all values each matches: by path, by path in one pass only, by line."""
    by_path, by_line = _dims_of_values(program)
    name = template(operation.path)
    yield name, {dims for path, dims_found in by_path.items() if path == name or path.endswith(f"/{name}") for dims in dims_found}
    yield f"/{name}", by_path[name]
    primitive = operation.path.rpartition("/")[2]
    if operation.source and not operation.path.startswith("grad/"):
        yield f"{operation.source}/{primitive}", by_line[operation.source, primitive]


@cache_with_program(25)
def _dims_of_values(program: Program) -> tuple[dict[str, set[tuple[str, ...]]], dict[tuple[str, str], set[tuple[str, ...]]]]:
    """The dimensions of values by path, without layer numbers, and by line and primitive in the forward pass."""
    by_path, by_line = defaultdict[str, set[tuple[str, ...]]](set), defaultdict[tuple[str, str], set[tuple[str, ...]]](set)
    templates: dict[str, str] = {}
    for operation in program.operations:
        if operation.path not in templates:
            templates[operation.path] = template(operation.path)
        by_path[templates[operation.path]].add(operation.dims)
        if not operation.path.startswith("grad/"):
            by_line[operation.source, operation.path.rpartition("/")[2]].add(operation.dims)
    return by_path, by_line


def is_state(tensor: Tensor) -> bool:
    return tensor.role is Role.OPTIMIZER_STATE


def is_parameter(tensor: Tensor) -> bool:
    return tensor.role is Role.PARAMETER
