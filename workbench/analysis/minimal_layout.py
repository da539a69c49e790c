"""The fewest statements with the same effect: rules, overrides, constraints, groups and barriers that leave every value sharded as it is.

Arguments are sharded exactly as a layout says, so the fewest statements for them are found without the partitioner: a rule applies to a
dimension everywhere, and each argument that the rules shard differently needs an override, one for all that a pattern names. All choices of
rules are compared where there are few, else one dimension after the other. The rest of the layout is then removed statement by statement,
as long as Shardy shards every value as before. Last, each statement is left out once more: what changes then is the proof that it is
needed.
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
_MOST_CHOICES = 4096  # the largest number of rule choices compared; beyond that one dimension after the other


@dataclass(frozen=True, slots=True)
class NeededStatement:
    """One statement, and the first argument or value that would be sharded differently without it: its sharding, and the one without the
    statement."""

    statement: str
    changed: str
    before: Sharding
    after: Sharding


@dataclass(frozen=True, slots=True)
class MinimalLayout:
    """The fewest statements found.

    - `needed`: one entry a statement, with what it is needed for: leaving any of them out changes something;
    - `is_fewest`: whether no fewer rules and overrides shard the arguments so, all choices of rules having been compared;
    - `written`: statements of the plan before; `placed`: arguments and values that are sharded by these.
    """

    layout: Layout
    needed: tuple[NeededStatement, ...]
    is_fewest: bool
    written: int
    placed: int

    @property
    def edit(self) -> Edit:
        """The edit that applies it to the plan."""
        return SetLayout(self.layout)

    def __str__(self) -> str:
        head = f"{len(self.needed)} statement{'s' * (len(self.needed) != 1)} instead of {self.written} shard {self.placed:,} values"
        rows = (f"  {each.statement}: without it {each.changed} is sharded {each.after}, not {each.before}" for each in self.needed)
        proof = "no choice of rules needs fewer" if self.is_fewest else "removing any of them changes a sharding"
        return "\n".join([f"{head}; {proof}:", *rows])


def minimal_annotations(plan: Plan) -> MinimalLayout:
    """The fewest statements with which every argument, result and intermediate value is sharded as it is now.

    Raises `PartitionError` with Shardy's words if the plan itself is refused.
    """
    before = _list_placements(plan)
    rules, is_fewest = _find_rules(plan)
    layout = plan.layout.updated(rules=rules, overrides=_find_overrides(plan, rules), priorities=_keep_priorities(plan.layout, rules))
    longer = len(layout.rules + layout.overrides) > len(plan.layout.rules + plan.layout.overrides)
    if longer or _find_moved_value(plan, layout, before):  # a pattern of the user's own, a dimension left open: it stays as written
        layout, is_fewest = plan.layout, False
    layout = _prune_layout(plan, layout, before)
    needed = tuple(_prove_needed(plan, layout, before))
    split = sum(any(dims) for dims in before.values())
    return MinimalLayout(layout, needed, is_fewest, len(plan.layout.statements), split)


def _keep_priorities(layout: Layout, rules: Rules) -> tuple[tuple[str, int], ...]:
    ruled = {dim for dim, _ in rules}
    return tuple((dim, priority) for dim, priority in layout.priorities if dim in ruled)


def _find_rules(plan: Plan) -> tuple[Rules, bool]:
    """The rules that leave the fewest statements, and whether all choices were compared."""
    choices: dict[str, dict[tuple[str, ...], None]] = {}
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        for dim, axes in zip(tensor.dims, sharding.dims, strict=False):
            if axes:
                choices.setdefault(dim, {(): None})[axes] = None
    names = list(choices)
    if prod(len(each) for each in choices.values()) <= _MOST_CHOICES:
        found = min(itertools.product(*choices.values()), key=lambda chosen: _cost(plan, names, chosen))
        return _as_rules(names, found), True
    chosen = [next(reversed(each)) for each in choices.values()]
    for _ in range(2):
        for index, name in enumerate(names):
            chosen[index] = min(choices[name], key=lambda axes: _cost(plan, names, (*chosen[:index], axes, *chosen[index + 1 :])))
    return _as_rules(names, chosen), False


def _as_rules(names: Sequence[str], chosen: Sequence[tuple[str, ...]]) -> Rules:
    return tuple((name, axes) for name, axes in zip(names, chosen, strict=True) if axes)


def _cost(plan: Plan, names: Sequence[str], chosen: Sequence[tuple[str, ...]]) -> tuple[int, int]:
    """The number of statements, and of those the overrides: of two layouts of one length the one with more rules is better."""
    rules = _as_rules(names, chosen)
    overrides = len({(template(path), sharding) for path, sharding in _list_exceptions(plan, rules)})
    return len(rules) + overrides, overrides


def _list_exceptions(plan: Plan, rules: Rules) -> Iterator[tuple[str, Sharding]]:
    """The arguments that the rules shard differently from how they are."""
    axes = dict(rules)
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        if sharding.dims != tuple(axes.get(dim, ()) for dim in tensor.dims) or not sharding.is_plain:
            yield tensor.path, sharding


def _find_overrides(plan: Plan, rules: Rules) -> tuple[tuple[str, Sharding], ...]:
    """Overrides for the exceptions to the rules, with as few patterns as possible that match no argument sharded differently."""
    placements = dict(zip((tensor.path for tensor in plan.program.arguments), plan.argument_shardings, strict=True))
    waiting = dict(_list_exceptions(plan, rules))
    found: list[tuple[str, Sharding]] = []
    while waiting:
        path, sharding = next(iter(waiting.items()))
        pattern = _find_widest_pattern(path, sharding, placements)
        found.append((pattern, sharding))
        waiting = {other: each for other, each in waiting.items() if not matches(pattern, other)}
    return tuple(found)


def _find_widest_pattern(path: str, sharding: Sharding, placements: dict[str, Sharding]) -> str:
    """The shortest tail of a path, layer numbers left open, that matches only arguments of this sharding."""
    for words in (template(path).split("/"), path.split("/")):
        for length in range(1, len(words) + 1):
            pattern = "/".join(words[-length:])
            if all(each == sharding for other, each in placements.items() if matches(pattern, other)) and pattern != "*":
                return pattern
    return f"/{path}"


Placements = dict[str, tuple[tuple[str, ...], ...]]


def _list_placements(plan: Plan) -> Placements:
    """The sharding of every argument, intermediate value and result, by name."""
    found, program = partition(plan), plan.program
    operations, values = program.operations, found.structure.values
    placements: Placements = {}
    for number, (value, dims) in enumerate(zip(values, found.dims, strict=True)):
        if value.maker >= 0 and dims is not None and operations[value.maker].path:
            placements[f"{operations[value.maker].path} #{number}"] = dims
    arguments = {
        tensor.path: tuple(dim or () for dim in each.dims) for tensor, each in zip(program.arguments, plan.argument_shardings, strict=True)
    }
    results = {f"the result {tensor.path}": dims for tensor, dims in zip(program.results, found.results, strict=True)}
    return {**arguments, **placements, **results}


def _find_moved_value(plan: Plan, layout: Layout, before: Placements) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """The first value that would be sharded differently, and how; itself, unsharded, if such a plan is refused."""
    try:
        after = _list_placements(plan.updated(layout=layout))
    except WorkbenchError:
        return next(iter(before)), ()
    return next(((name, after.get(name, ())) for name, dims in before.items() if after.get(name) != dims), None)


def _prune_layout(plan: Plan, layout: Layout, before: Placements) -> Layout:
    """The layout without the constraints, groups, barriers and priorities that change nothing."""
    while True:
        for _, smaller in _leave_out_each(layout):
            if smaller.rules == layout.rules and smaller.overrides == layout.overrides and not _find_moved_value(plan, smaller, before):
                layout = smaller
                break
        else:
            return layout


def _leave_out_each(layout: Layout) -> Iterator[tuple[str, Layout]]:
    """Every statement, and the layout without it; a priority is a statement too, on top of its rule."""
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
    """What each statement is needed for."""
    for statement, smaller in _leave_out_each(layout):
        name, dims = _find_changed_argument(plan, smaller) or _find_moved_value(plan, smaller, before) or ("nothing", ())
        yield NeededStatement(statement, name.partition(" #")[0], Sharding(before.get(name, ())), Sharding(dims))


def _find_changed_argument(plan: Plan, layout: Layout) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """The first argument that another layout shards differently: found without the partitioner."""
    for tensor, sharding in zip(plan.program.arguments, plan.argument_shardings, strict=True):
        other = layout.sharding(tensor)
        if other.dims != sharding.dims:
            return tensor.path, tuple(dim or () for dim in other.dims)
    return None
