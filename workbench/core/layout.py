"""Define layouts: sharding rules, overrides of tensors, constraints on intermediate values, groups and barriers."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from workbench.core.layout_text import (
    DIRECTIONS,
    MOST_LETTERS,
    MOST_STATEMENTS,
    Entries,
    Rules,
    axes_text,
    barrier_text,
    group_text,
    parse_axes,
    parse_statements,
)
from workbench.core.mesh import MAX_AXES
from workbench.core.path_patterns import match_patterns, matches
from workbench.core.sharding import MOST_ROUNDS, Sharding
from workbench.core.tensor import Role, Tensor
from workbench.errors import LayoutError, wrong_type

T = TypeVar("T")
_PAIR = 2  # a dimension and its mesh axes
MOST_TURNS = 999_999_999


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """Rules from dimensions to mesh axes (Mesh-TensorFlow's layout rules; Shazeer et al. 2018), with exceptions.

    In text, `;` separates statements (between rules also `,`, as in Mesh-TensorFlow):

    - `d_ff:model`, a rule; `batch:data+pipe` shards over `data` (major), then `pipe`; `embed:data p2` has Shardy's user
      priority 2: it propagates in round 2;
    - `params/head=[-, model]`, an override of arguments whose path matches (see `path_patterns.matches`), or of results
      that are not carried to the next step;
    - `@mlp/dot_general=[data, ?, model]`, a constraint on intermediate values whose named scope matches, or
      `@gpt.py:42=[data, ?]` on values that this source line computes in the forward pass; `?` leaves a dimension to
      propagation;
    - `group[params/embed, @head/dot_general]`: these values get equal shardings (`shard_as`);
    - `barrier[@mlp/dot_general] allows:forward`: blocks propagation in both directions, or allows only one;
    - `turns[solve/while]=8`: the trip count of a loop with a data-dependent end (default 1).

    >>> layout = Layout("batch:data; d_ff:model; params/head=[-, model]")
    >>> layout.rule("d_ff"), str(layout)
    (('model',), 'batch:data; d_ff:model; params/head=[-, model]')

    **Invariants**

    - A dimension has one rule; an empty rule is dropped. `priorities` belong to rules and start at 1.
    - A pattern has one override and one constraint, a place one barrier; the last statement wins.
    - At most 1,000 statements and places, each of at most 500 characters.
    - A group has at least two places; in groups and barriers `@` marks an intermediate value.
    """

    rules: Rules
    overrides: Entries
    constraints: Entries
    priorities: tuple[tuple[str, int], ...]
    groups: tuple[tuple[str, ...], ...]
    barriers: tuple[tuple[str, str], ...]
    turns: tuple[tuple[str, int], ...]

    def __init__(
        self,
        rules: "str | Mapping[str, str | tuple[str, ...]] | Rules" = "",
        overrides: Entries = (),
        constraints: Entries = (),
        priorities: tuple[tuple[str, int], ...] = (),
        groups: tuple[tuple[str, ...], ...] = (),
        barriers: tuple[tuple[str, str], ...] = (),
        turns: tuple[tuple[str, int], ...] = (),
    ) -> None:
        if isinstance(rules, str):
            pairs, *parsed = parse_statements(rules)
            args = (overrides, constraints, priorities, groups, barriers, turns)
            overrides, constraints, priorities, groups, barriers, turns = (one + other for one, other in zip(parsed, args, strict=True))  # type: ignore[assignment]
        elif isinstance(rules, Mapping):
            _verify_mapping(rules)
            parsed_rules = {dim: parse_axes(axes) if isinstance(axes, str) else (tuple(axes), 0) for dim, axes in rules.items()}
            pairs = tuple((dim, axes) for dim, (axes, _) in parsed_rules.items())
            priorities = (*((dim, priority) for dim, (_, priority) in parsed_rules.items() if priority), *priorities)
        else:
            pairs = _normalize_pairs(rules)
        _verify_bounds(pairs, overrides, constraints, groups, (*barriers, *turns))
        for dim, axes in pairs:
            _verify_rule(dim, axes, pairs)
        rules_with_axes = tuple((dim, axes) for dim, axes in pairs if axes)
        object.__setattr__(self, "rules", rules_with_axes)
        object.__setattr__(self, "overrides", _keep_last_of_each(overrides))
        object.__setattr__(self, "constraints", _keep_last_of_each(constraints))
        object.__setattr__(self, "priorities", _order_priorities(rules_with_axes, dict(priorities)))
        object.__setattr__(self, "groups", tuple(dict.fromkeys(map(_normalize_group, groups))))
        object.__setattr__(self, "barriers", tuple(map(_check_barrier, _keep_last_of_each(barriers))))
        object.__setattr__(self, "turns", tuple(map(_check_turns, _keep_last_of_each(turns))))

    def rule(self, dim: str) -> tuple[str, ...]:
        """Return the mesh axes of dimension `dim`; empty if it is not sharded."""
        return next((axes for name, axes in self.rules if name == dim), ())

    def override(self, path: str) -> Sharding | None:
        """Return the last override whose pattern matches `path`."""
        return next((sharding for pattern, sharding in reversed(self.overrides) if matches(pattern, path)), None)

    def override_of(self, tensor: Tensor) -> Sharding | None:
        """Return the last matching override that fits the tensor; factored moments (Adafactor) have another shape."""
        return self.overrides_of((tensor,))[0]

    def overrides_of(self, tensors: Sequence[Tensor]) -> tuple[Sharding | None, ...]:
        """Return the override of each tensor. There may be hundreds of both, so a pattern is tried where its last word occurs."""
        if not self.overrides:
            return (None,) * len(tensors)
        stated = dict(self.overrides)
        patterns_of = match_patterns(stated, (tensor.path for tensor in tensors))
        return tuple(
            next((stated[pattern] for pattern in reversed(patterns_of[tensor.path]) if fits_state(stated[pattern], tensor)), None)
            for tensor in tensors
        )

    def priority(self, dim: str) -> int:
        """Return the propagation round in which the rule of `dim` starts."""
        return next((priority for name, priority in self.priorities if name == dim), 0)

    def sharding(self, tensor: Tensor) -> Sharding:
        """Return the sharding of `tensor`: its override, or the rules of its dimensions."""
        return self.override_of(tensor) or self._by_rules(tensor)

    def _by_rules(self, tensor: Tensor) -> Sharding:
        priorities = tuple(self.priority(dim) for dim in tensor.dims) if self.priorities else ()
        return Sharding(tuple(self.rule(dim) for dim in tensor.dims), priorities=priorities)

    def shardings(self, tensors: Sequence[Tensor]) -> tuple[Sharding, ...]:
        """Return the sharding of each tensor; equal dimensions without an override share one object."""
        overrides = self.overrides_of(tensors)
        ruled = {tensor.dims: tensor for override, tensor in zip(overrides, tensors, strict=True) if override is None}
        by_dims = {dims: self._by_rules(tensor) for dims, tensor in ruled.items()}  # rules may contradict where overrides hold
        return tuple(override or by_dims[tensor.dims] for override, tensor in zip(overrides, tensors, strict=True))

    @property
    def is_plain(self) -> bool:
        """Return whether JAX can express it: axes of arguments and constraints, and open dimensions of constraints."""
        plain_overrides = all(entry.is_plain for _, entry in self.overrides)
        plain_constraints = all(
            not entry.open and not (entry.priorities or entry.unreduced or entry.replicated) for _, entry in self.constraints
        )
        return plain_overrides and plain_constraints and not (self.priorities or self.groups or self.barriers)

    @property
    def is_annotated(self) -> bool:
        """Return whether it annotates the lowered module: constraints, and statements that JAX cannot express."""
        return bool(self.constraints or self.turns) or not self.is_plain

    def updated(self, **changes: object) -> "Layout":
        return Layout(**{**{field.name: getattr(self, field.name) for field in fields(self)}, **changes})

    def with_rule(self, dim: str, axes: tuple[str, ...]) -> "Layout":
        """Return a copy with `dim` on `axes`, at the same position and priority; empty `axes` remove the rule."""
        exists = any(name == dim for name, _ in self.rules)
        rules = tuple((name, axes if name == dim else old) for name, old in self.rules)
        priorities = tuple(entry for entry in self.priorities if axes or entry[0] != dim)
        return self.updated(rules=rules if exists else (*rules, (dim, axes)), priorities=priorities)

    def with_priority(self, dim: str, priority: int) -> "Layout":
        """Return a copy with this priority for the rule of `dim`. Raises `LayoutError` if it has no rule."""
        return self.updated(priorities=(*(entry for entry in self.priorities if entry[0] != dim), (dim, priority)))

    def with_override(self, pattern: str, sharding: Sharding | None) -> "Layout":
        """Return a copy with an override set, or removed if `sharding` is `None`."""
        return self.updated(overrides=_set_entry(self.overrides, pattern, sharding))

    def with_constraint(self, pattern: str, sharding: Sharding | None) -> "Layout":
        """Return a copy with a constraint set, or removed if `sharding` is `None`."""
        return self.updated(constraints=_set_entry(self.constraints, pattern, sharding))

    def with_group(self, places: tuple[str, ...]) -> "Layout":
        return self.updated(groups=(*self.groups, places))

    def without_group(self, places: tuple[str, ...]) -> "Layout":
        return self.updated(groups=tuple(group for group in self.groups if group != places))

    def with_barrier(self, place: str, allows: str | None = "none") -> "Layout":
        """Return a copy with a barrier set, or removed if `allows` is `None`."""
        others = tuple(barrier for barrier in self.barriers if barrier[0] != place)
        return self.updated(barriers=others if allows is None else (*others, (place, allows)))

    def renamed_dim(self, old: str, new: str) -> "Layout":
        return self.updated(
            rules=tuple((new if dim == old else dim, axes) for dim, axes in self.rules),
            priorities=tuple((new if dim == old else dim, priority) for dim, priority in self.priorities),
        )

    def with_present_dims(self, former: Mapping[str, str], dims: Collection[str]) -> "Layout":
        """Return a copy with former dimension names replaced by current ones, with a `FutureWarning` for each."""
        layout = self
        for dim, _ in self.rules:
            if dim not in dims and former.get(dim) in dims:
                warnings.warn(f"Dimension `{dim}` is now called `{former[dim]}`.", FutureWarning, stacklevel=3)
                layout = layout.renamed_dim(dim, former[dim])
        return layout

    def with_aliases(self, aliases: Mapping[str, str]) -> "Layout":
        """Return a copy with names such as `d1024` replaced by proposed ones; the first of two equal rules wins."""
        if not any(dim in aliases for dim, _ in (*self.rules, *self.priorities)):
            return self
        stated = {aliases.get(dim, dim): None for dim, _ in self.rules}
        rules, priorities = ({aliases.get(dim, dim): value for dim, value in reversed(pairs)} for pairs in (self.rules, self.priorities))
        return self.updated(rules=tuple((dim, rules[dim]) for dim in stated), priorities=tuple(priorities.items()))

    def map_axes(self, names: Mapping[str, str | None]) -> "Layout":
        """Return a copy with mesh axes renamed, or dropped where `names` maps to `None`."""
        mapped = tuple((dim, tuple(new for axis in old if (new := names.get(axis, axis)) is not None)) for dim, old in self.rules)
        remaining = {dim for dim, axes in mapped if axes}
        return self.updated(
            rules=mapped,
            priorities=tuple(entry for entry in self.priorities if entry[0] in remaining),
            overrides=tuple((pattern, old.map_axes(names)) for pattern, old in self.overrides),
            constraints=tuple((pattern, old.map_axes(names)) for pattern, old in self.constraints),
        )

    @property
    def statements(self) -> tuple[str, ...]:
        return (
            *(f"{dim}:{axes_text(axes, self.priority(dim))}" for dim, axes in self.rules),
            *(f"{pattern}={sharding}" for pattern, sharding in self.overrides),
            *(f"@{pattern}={sharding}" for pattern, sharding in self.constraints),
            *(group_text(places) for places in self.groups),
            *(barrier_text(place, allows) for place, allows in self.barriers),
            *(f"turns[{loop}]={count}" for loop, count in self.turns),
        )

    def __str__(self) -> str:
        return "; ".join(self.statements)

    def __repr__(self) -> str:
        return f'Layout("{self}")'


def fits_state(sharding: Sharding, tensor: Tensor) -> bool:
    """Return whether a matching override applies: not to optimizer state of another rank, nor to a sharded size of 1."""
    if tensor.role is not Role.OPTIMIZER_STATE:
        return True
    return len(sharding.dims) == len(tensor.shape) and not any(
        axes and size == 1 for axes, size in zip(sharding.dims, tensor.shape, strict=True)
    )


def _set_entry(entries: Entries, pattern: str, sharding: Sharding | None) -> Entries:
    others = tuple(entry for entry in entries if entry[0] != pattern)
    return others if sharding is None else (*others, (pattern, sharding))


def _keep_last_of_each(entries: tuple[tuple[str, T], ...]) -> tuple[tuple[str, T], ...]:
    last = {name: position for position, (name, _) in enumerate(entries)}
    return tuple(entry for position, entry in enumerate(entries) if last[entry[0]] == position)


def _verify_bounds(rules: Rules, overrides: Entries, constraints: Entries, groups: Sequence[Any], barriers: Sequence[Any]) -> None:
    """Raise `LayoutError` if the statements are too many or too long to check interactively."""
    places = [*(pattern for pattern, _ in (*overrides, *constraints)), *(place for each in groups for place in each)]
    places += [place for place, _ in barriers]
    if (count := len(rules) + len(places)) > MOST_STATEMENTS:
        raise LayoutError(
            f"The layout has {count:,} statements and places; the limit is {MOST_STATEMENTS:,}.",
            ["match similar tensors with one pattern, `layers/*/mlp/w1`", "split dimensions by rules"],
        )
    if long := next((each for each in (*places, *(dim for dim, _ in rules)) if len(each) > MOST_LETTERS), None):
        raise LayoutError(f"`{long[:40]}…` has {len(long):,} characters; a name in a layout has at most {MOST_LETTERS}.", ["shorten it"])


def _verify_mapping(rules: Mapping[Any, Any]) -> None:
    for dim, axes in rules.items():
        if not isinstance(dim, str):
            raise LayoutError(wrong_type("layout", dict(rules), "rules of named dimensions"), ['write {"batch": "data"}'])
        if not (isinstance(axes, str) or _are_words(axes)):
            raise LayoutError(wrong_type(f'layout["{dim}"]', axes, "mesh axes"), [f'write {{"{dim}": "data"}}', f"leave `{dim}` out"])


def _normalize_pairs(rules: Any) -> Rules:
    if isinstance(rules, tuple | list) and all(map(_is_rule, rules)):
        return tuple((dim, tuple(axes)) for dim, axes in rules)
    suggestion = "; ".join(rules) if rules and _are_words(rules) else "batch:data; d_ff:model"
    empty = ['write "" for an empty layout'] if not rules else []
    raise LayoutError(wrong_type("layout", rules, 'statements, such as "batch:data", or a `Layout`'), [f'write "{suggestion}"', *empty])


def _is_rule(pair: Any) -> bool:
    return isinstance(pair, tuple | list) and len(pair) == _PAIR and isinstance(pair[0], str) and _are_words(pair[1])


def _are_words(values: Any) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(value, str) for value in values)


def _verify_rule(dim: str, axes: tuple[str, ...], rules: Rules) -> None:
    if sum(name == dim for name, _ in rules) > 1:
        given = " and ".join(f"`{name}:{'+'.join(other)}`" for name, other in rules if name == dim)
        raise LayoutError(f"Dimension `{dim}` has two rules, {given}.", [f"to shard it over several axes write `{dim}:a+b`"])
    if len(axes) > MAX_AXES:
        raise LayoutError(f"The rule of `{dim}` names {len(axes):,} mesh axes; a mesh has at most {MAX_AXES}.", ["name each axis once"])
    for axis in axes:
        if axes.count(axis) > 1:
            raise LayoutError(f"The rule `{dim}:{'+'.join(axes)}` uses mesh axis `{axis}` twice.", ["name it once"])


def _order_priorities(rules: Rules, priorities: dict[str, int]) -> tuple[tuple[str, int], ...]:
    """Sort priorities by rule and drop the default, 0."""
    ruled = [dim for dim, _ in rules]
    for dim, priority in priorities.items():
        if priority > MOST_ROUNDS:
            raise LayoutError(f"The rule of `{dim}` has priority {priority:,}; {MOST_ROUNDS:,} is the last.", ["use 0, 1, 2, ..."])
        if priority < 0:
            raise LayoutError(
                f"The rule of `{dim}` has priority {priority}; 0 is the first to propagate.",
                ["use 0, 1, 2, ...", "give the others a larger one"],
            )
        if priority and dim not in ruled:
            raise LayoutError(
                f"Dimension `{dim}` has priority {priority} but no rule, so there is nothing to propagate.",
                [f"add a rule for `{dim}`", "leave the priority out"],
            )
    return tuple((dim, priorities[dim]) for dim in ruled if priorities.get(dim))


def _normalize_group(places: tuple[str, ...]) -> tuple[str, ...]:
    if len(places) < 2 or any("," in place or not place.strip("@ ") for place in places):
        raise LayoutError(f"`{group_text(places)}` is not a group.", ["name two places or more, `group[params/embed, @head/dot_general]`"])
    return tuple(dict.fromkeys(places)) if len(set(places)) > 1 else places


def _check_barrier(barrier: tuple[str, str]) -> tuple[str, str]:
    place, allows = barrier
    if allows not in DIRECTIONS or not place.strip("@ "):
        raise LayoutError(
            f"`{barrier_text(place, allows)[:80]}` is not a barrier.",
            ["`barrier[@mlp/dot_general]` blocks propagation", "`allows:forward` and `allows:backward` block one direction"],
        )
    return barrier


def _check_turns(stated: tuple[str, int]) -> tuple[str, int]:
    loop, count = stated
    if not loop.strip() or not 1 <= count <= MOST_TURNS:
        raise LayoutError(
            f"`turns[{loop[:80]}]={count}` is not a number of iterations.",
            [f"name a loop, and say from 1 to {MOST_TURNS:,}: `turns[solve/while]=8`"],
        )
    return stated
