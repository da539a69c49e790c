"""Find the fewest layout statements that keep every value's sharding.

Rules and overrides are found without the partitioner, because arguments are sharded exactly as stated: a rule applies
to a dimension everywhere, and each argument that the rules shard differently needs an override, shared by pattern. All
choices of rules are compared if they are few, else one dimension at a time. The other statements are then removed one
by one as long as Shardy shards every value as before. Finally each statement is removed once more to show what it is
needed for.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from workbench.core.layout import Layout
from workbench.core.path_patterns import matches, template
from workbench.core.sharding import Sharding
from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit, SetLayout
from workbench.plan.plan import Plan
from workbench.propagation import partition

Rules = tuple[tuple[str, tuple[str, ...]], ...]
_MOST_CHOICES = 4096  # maximum rule choices to enumerate; beyond that, one dimension at a time


@dataclass(frozen=True, slots=True)
class NeededStatement:
    """One statement, and the first value that would be sharded differently without it, with both shardings."""

    statement: str
    changed: str
    before: Sharding
    after: Sharding


@dataclass(frozen=True, slots=True)
class MinimalLayout:
    """The fewest statements found.

    - `needed`: the statements with what they are needed for;
    - `is_fewest`: whether no fewer rules and overrides are possible, all choices of rules having been compared;
    - `written`: number of statements of the original plan; `placed`: number of sharded arguments and values.
    """

    layout: Layout
    needed: tuple[NeededStatement, ...]
    is_fewest: bool
    written: int
    placed: int

    @property
    def edit(self) -> Edit:
        return SetLayout(self.layout)

    def __str__(self) -> str:
        head = f"{len(self.needed)} statement{'s' * (len(self.needed) != 1)} instead of {self.written} shard {self.placed:,} values"
        rows = (f"  {need.statement}: without it {need.changed} is sharded {need.after}, not {need.before}" for need in self.needed)
        proof = "no choice of rules needs fewer" if self.is_fewest else "removing any of them changes a sharding"
        return "\n".join([f"{head}; {proof}:", *rows])


def minimal_annotations(plan: Plan) -> MinimalLayout:
    """Return the fewest statements that keep every sharding. Raises `PartitionError` if Shardy rejects the plan."""
    before = _list_placements(plan)
    rules, is_fewest = _find_rules(plan)
    layout = plan.layout.updated(rules=rules, overrides=_find_overrides(plan, rules), priorities=_keep_priorities(plan.layout, rules))
    longer = len(layout.rules + layout.overrides) > len(plan.layout.rules + plan.layout.overrides)
    if longer or _find_moved_value(plan, layout, before):  # keep the user's broader patterns and open dimensions
        layout, is_fewest = plan.layout, False
    layout = _prune_layout(plan, layout, before)
    needed = tuple(_prove_needed(plan, layout, before))
    split = sum(any(dims) for dims in before.values())
    return MinimalLayout(layout, needed, is_fewest, len(plan.layout.statements), split)


def _keep_priorities(layout: Layout, rules: Rules) -> tuple[tuple[str, int], ...]:
    ruled = {dim for dim, _ in rules}
    return tuple((dim, priority) for dim, priority in layout.priorities if dim in ruled)


def _find_rules(plan: Plan) -> tuple[Rules, bool]:
    """Return the rules that need the fewest statements, and whether all choices were compared."""
    choices: dict[str, dict[tuple[str, ...], None]] = {}
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        for dim, axes in zip(tensor.dims, sharding.dims, strict=False):
            if axes:
                choices.setdefault(dim, {(): None})[axes] = None
    names = list(choices)
    if prod(map(len, choices.values())) <= _MOST_CHOICES:
        best = min(itertools.product(*choices.values()), key=lambda chosen: _cost(plan, names, chosen))
        return _as_rules(names, best), True
    chosen = [next(reversed(options)) for options in choices.values()]
    for _ in range(2):
        for index, name in enumerate(names):
            chosen[index] = min(choices[name], key=lambda axes: _cost(plan, names, (*chosen[:index], axes, *chosen[index + 1 :])))
    return _as_rules(names, chosen), False


def _as_rules(names: Sequence[str], chosen: Sequence[tuple[str, ...]]) -> Rules:
    return tuple((name, axes) for name, axes in zip(names, chosen, strict=True) if axes)


def _cost(plan: Plan, names: Sequence[str], chosen: Sequence[tuple[str, ...]]) -> tuple[int, int]:
    """Return the number of statements, and of overrides, so that rules win ties."""
    rules = _as_rules(names, chosen)
    overrides = len({(template(path), sharding) for path, sharding in _list_exceptions(plan, rules)})
    return len(rules) + overrides, overrides


def _list_exceptions(plan: Plan, rules: Rules) -> Iterator[tuple[str, Sharding]]:
    axes = dict(rules)
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        if sharding.dims != tuple(axes.get(dim, ()) for dim in tensor.dims) or not sharding.is_plain:
            yield tensor.path, sharding


def _find_overrides(plan: Plan, rules: Rules) -> tuple[tuple[str, Sharding], ...]:
    """Return overrides for the exceptions, with few patterns that match no argument sharded differently."""
    placements = dict(zip((tensor.path for tensor in plan.program.arguments), plan.argument_shardings, strict=True))
    remaining = dict(_list_exceptions(plan, rules))
    overrides: list[tuple[str, Sharding]] = []
    while remaining:
        path, sharding = next(iter(remaining.items()))
        pattern = _find_widest_pattern(path, sharding, placements)
        overrides.append((pattern, sharding))
        remaining = {other: exact for other, exact in remaining.items() if not matches(pattern, other)}
    return tuple(overrides)


def _find_widest_pattern(path: str, sharding: Sharding, placements: dict[str, Sharding]) -> str:
    """Return the shortest path tail, with layer numbers open, that matches only arguments of this sharding."""
    for words in (template(path).split("/"), path.split("/")):
        for length in range(1, len(words) + 1):
            pattern = "/".join(words[-length:])
            if all(placed == sharding for name, placed in placements.items() if matches(pattern, name)) and pattern != "*":
                return pattern
    return f"/{path}"


Placements = dict[str, tuple[tuple[str, ...], ...]]


def _list_placements(plan: Plan) -> Placements:
    """Return the sharding of every argument, intermediate value and result, by name."""
    propagated, program = partition(plan), plan.program
    operations, values = program.operations, propagated.structure.values
    placements: Placements = {}
    for number, (value, dims) in enumerate(zip(values, propagated.dims, strict=True)):
        if value.maker >= 0 and dims is not None and operations[value.maker].path:
            placements[f"{operations[value.maker].path} #{number}"] = dims
    arguments = {
        tensor.path: tuple(dim or () for dim in argument_sharding.dims)
        for tensor, argument_sharding in zip(program.arguments, plan.argument_shardings, strict=True)
    }
    results = {f"the result {tensor.path}": dims for tensor, dims in zip(program.results, propagated.results, strict=True)}
    return {**arguments, **placements, **results}


def _find_moved_value(plan: Plan, layout: Layout, before: Placements) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """Return the first value that would be sharded differently, and how; unsharded if the plan is rejected."""
    try:
        after = _list_placements(plan.updated(layout=layout))
    except WorkbenchError:
        return next(iter(before)), ()
    return next(((name, after.get(name, ())) for name, dims in before.items() if after.get(name) != dims), None)


def _prune_layout(plan: Plan, layout: Layout, before: Placements) -> Layout:
    while True:
        for _, smaller in _leave_out_each(layout):
            if smaller.rules == layout.rules and smaller.overrides == layout.overrides and not _find_moved_value(plan, smaller, before):
                layout = smaller
                break
        else:
            return layout


def _leave_out_each(layout: Layout) -> Iterator[tuple[str, Layout]]:
    """Yield every statement with the layout without it; a priority is a statement in addition to its rule."""
    statements: list[tuple[str, Callable[[], Layout]]] = [
        *((f"{dim}:{'+'.join(axes)}", lambda dim=dim: layout.with_rule(dim, ())) for dim, axes in layout.rules),
        *((f"{pattern}={each}", lambda pattern=pattern: layout.with_override(pattern, None)) for pattern, each in layout.overrides),
        *((f"@{pattern}={each}", lambda pattern=pattern: layout.with_constraint(pattern, None)) for pattern, each in layout.constraints),
        *((f"group[{', '.join(each)}]", lambda each=each: layout.without_group(each)) for each in layout.groups),
        *((f"barrier[{place}]", lambda place=place: layout.with_barrier(place, None)) for place, _ in layout.barriers),
        *((f"{dim} p{priority}", lambda dim=dim: layout.with_priority(dim, 0)) for dim, priority in layout.priorities),
    ]
    return ((statement, less()) for statement, less in statements)


def _prove_needed(plan: Plan, layout: Layout, before: Placements) -> Iterator[NeededStatement]:
    for statement, smaller in _leave_out_each(layout):
        name, dims = _find_changed_argument(plan, smaller) or _find_moved_value(plan, smaller, before) or ("nothing", ())
        yield NeededStatement(statement, name.partition(" #")[0], Sharding(before.get(name, ())), Sharding(dims))


def _find_changed_argument(plan: Plan, layout: Layout) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """Return the first argument that another layout shards differently, without the partitioner."""
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        other = layout.sharding(tensor)
        if other.dims != sharding.dims:
            return tensor.path, tuple(dim or () for dim in other.dims)
    return None
