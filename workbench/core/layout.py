"""How dimensions are sharded: global rules, overrides for single tensors, constraints on intermediate values, groups and barriers."""

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
from workbench.core.path_patterns import matches
from workbench.core.sharding import MOST_ROUNDS, Sharding
from workbench.core.tensor import Role, Tensor
from workbench.errors import LayoutError, wrong_type

T = TypeVar("T")
_PAIR = 2  # a dimension and its mesh axes
MOST_TURNS = 999_999_999


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """Rules from dimension to mesh axes (Mesh-TensorFlow's layout rules; Shazeer et al. 2018), and the exceptions to them.

    In text, `;` separates statements (`,` too, between rules, as Mesh-TensorFlow allows):

    - `d_ff:model`, a rule; `batch:data+pipe` splits on `data` (major), then `pipe`; `embed:data p2` has Shardy's user priority 2: it
      propagates in round 2;
    - `params/head=[-, model]`, an override of the arguments whose path matches (see `path_patterns.matches`), or of results that are not
      carried over to the next step;
    - `@mlp/dot_general=[data, ?, model]`, a constraint on the intermediate values whose named scope matches, or `@gpt.py:42=[data, ?]` on
      those that this source line makes in the forward pass; `?` leaves a dimension to propagation;
    - `group[params/embed, @head/dot_general]`: these get the same sharding, whichever it is (`shard_as`);
    - `barrier[@mlp/dot_general] allows:forward`: no sharding propagates through here, or only in one direction;
    - `turns[solve/while]=8`: a loop that ends when its data say so is counted that often (else once).

    >>> layout = Layout("batch:data; d_ff:model; params/head=[-, model]")
    >>> layout.rule("d_ff"), str(layout)
    (('model',), 'batch:data; d_ff:model; params/head=[-, model]')

    **Invariants**

    - A dimension has one rule; an empty one is the same as none and is dropped. `priorities` belong to rules, and start at 1.
    - A pattern has one override and one constraint, a place one barrier: the last one given counts.
    - It has at most 1,000 statements and places, each of at most 500 characters.
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
            given = (overrides, constraints, priorities, groups, barriers, turns)
            overrides, constraints, priorities, groups, barriers, turns = (one + other for one, other in zip(parsed, given, strict=True))  # type: ignore[assignment]
        elif isinstance(rules, Mapping):
            _verify_mapping(rules)
            read = {dim: parse_axes(axes) if isinstance(axes, str) else (tuple(axes), 0) for dim, axes in rules.items()}
            pairs = tuple((dim, axes) for dim, (axes, _) in read.items())
            priorities = (*((dim, priority) for dim, (_, priority) in read.items() if priority), *priorities)
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
        """The mesh axes that dimension `dim` is sharded over; empty if it is not sharded."""
        return next((axes for name, axes in self.rules if name == dim), ())

    def override(self, path: str) -> Sharding | None:
        """The last override whose pattern matches `path`."""
        return next((sharding for pattern, sharding in reversed(self.overrides) if matches(pattern, path)), None)

    def override_of(self, tensor: Tensor) -> Sharding | None:
        """The last override whose pattern matches the tensor, and which fits it: an optimiser that keeps factors of a moment, or one
        element in its place (Adafactor), has state below a parameter's name that is not of its shape."""
        return next(
            (each for pattern, each in reversed(self.overrides) if matches(pattern, tensor.path) and fits_state(each, tensor)), None
        )

    def priority(self, dim: str) -> int:
        """In which round the rule of `dim` begins to propagate."""
        return next((priority for name, priority in self.priorities if name == dim), 0)

    def sharding(self, tensor: Tensor) -> Sharding:
        """The sharding of `tensor`: its override if it has one, else by the rules of its dimensions."""
        if (override := self.override_of(tensor)) is not None:
            return override
        priorities = tuple(self.priority(dim) for dim in tensor.dims) if self.priorities else ()
        return Sharding(tuple(self.rule(dim) for dim in tensor.dims), priorities=priorities)

    def shardings(self, tensors: Sequence[Tensor]) -> tuple[Sharding, ...]:
        """The sharding of each of `tensors`; those without an override that have the same dimensions share one object."""
        if self.overrides:
            return tuple(self.sharding(tensor) for tensor in tensors)
        alike = {tensor.dims: tensor for tensor in tensors}
        known = {dims: self.sharding(tensor) for dims, tensor in alike.items()}
        return tuple(known[tensor.dims] for tensor in tensors)

    @property
    def is_plain(self) -> bool:
        """Whether JAX can express all of it: axes per dimension of arguments and constraints, and open dimensions of the latter."""
        plain_overrides = all(each.is_plain for _, each in self.overrides)
        plain_constraints = all(
            not each.open and not (each.priorities or each.unreduced or each.replicated) for _, each in self.constraints
        )
        return plain_overrides and plain_constraints and not (self.priorities or self.groups or self.barriers)

    @property
    def is_annotated(self) -> bool:
        """Whether some of it is written into the lowered module: what JAX cannot express, and constraints."""
        return bool(self.constraints or self.turns) or not self.is_plain

    def updated(self, **changes: object) -> "Layout":
        """A new layout with some of its kinds of statements changed."""
        return Layout(**{**{each.name: getattr(self, each.name) for each in fields(self)}, **changes})

    def with_rule(self, dim: str, axes: tuple[str, ...]) -> "Layout":
        """The layout with `dim` on `axes`; the rule keeps its place and priority if there was one, and empty `axes` remove it."""
        known = any(name == dim for name, _ in self.rules)
        rules = tuple((name, axes if name == dim else old) for name, old in self.rules)
        priorities = tuple(each for each in self.priorities if axes or each[0] != dim)
        return self.updated(rules=rules if known else (*rules, (dim, axes)), priorities=priorities)

    def with_priority(self, dim: str, priority: int) -> "Layout":
        """The layout with the rule of `dim` of that priority; raises `LayoutError` if it has no rule."""
        return self.updated(priorities=(*(each for each in self.priorities if each[0] != dim), (dim, priority)))

    def with_override(self, pattern: str, sharding: Sharding | None) -> "Layout":
        """The layout with one override set, or removed with `None`."""
        return self.updated(overrides=_set_entry(self.overrides, pattern, sharding))

    def with_constraint(self, pattern: str, sharding: Sharding | None) -> "Layout":
        """The layout with one constraint set, or removed with `None`."""
        return self.updated(constraints=_set_entry(self.constraints, pattern, sharding))

    def with_group(self, places: tuple[str, ...]) -> "Layout":
        """The layout with these values in one sharding group."""
        return self.updated(groups=(*self.groups, places))

    def without_group(self, places: tuple[str, ...]) -> "Layout":
        return self.updated(groups=tuple(each for each in self.groups if each != places))

    def with_barrier(self, place: str, allows: str | None = "none") -> "Layout":
        """The layout with a barrier set, or removed with `None`."""
        others = tuple(each for each in self.barriers if each[0] != place)
        return self.updated(barriers=others if allows is None else (*others, (place, allows)))

    def renamed_dim(self, old: str, new: str) -> "Layout":
        return self.updated(
            rules=tuple((new if dim == old else dim, axes) for dim, axes in self.rules),
            priorities=tuple((new if dim == old else dim, priority) for dim, priority in self.priorities),
        )

    def with_present_dims(self, former: Mapping[str, str], dims: Collection[str]) -> "Layout":
        """The layout with former dimension names that `dims` no longer has replaced by their present names; warns of each."""
        layout = self
        for dim, _ in self.rules:
            if dim not in dims and former.get(dim) in dims:
                warnings.warn(f"Dimension `{dim}` is now called `{former[dim]}`.", FutureWarning, stacklevel=3)
                layout = layout.renamed_dim(dim, former[dim])
        return layout

    def with_aliases(self, aliases: Mapping[str, str]) -> "Layout":
        """The layout with names after sizes, `d1024`, replaced by those that were proposed for these dimensions. Of two rules for one
        dimension then the first counts."""
        if not any(dim in aliases for dim, _ in (*self.rules, *self.priorities)):
            return self
        stated = {aliases.get(dim, dim): None for dim, _ in self.rules}
        rules, priorities = ({aliases.get(dim, dim): value for dim, value in reversed(pairs)} for pairs in (self.rules, self.priorities))
        return self.updated(rules=tuple((dim, rules[dim]) for dim in stated), priorities=tuple(priorities.items()))

    def map_axes(self, names: Mapping[str, str | None]) -> "Layout":
        """Mesh axes renamed, or dropped where `names` maps to `None`, in rules, overrides and constraints alike."""
        mapped = tuple((dim, tuple(new for axis in old if (new := names.get(axis, axis)) is not None)) for dim, old in self.rules)
        remaining = {dim for dim, axes in mapped if axes}
        return self.updated(
            rules=mapped,
            priorities=tuple(each for each in self.priorities if each[0] in remaining),
            overrides=tuple((pattern, old.map_axes(names)) for pattern, old in self.overrides),
            constraints=tuple((pattern, old.map_axes(names)) for pattern, old in self.constraints),
        )

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements, each as one would write it."""
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
    """Whether an override is about a tensor that its pattern matches: not if that is state of the optimiser of another rank, or of one
    element where it would be split."""
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
    """Raises `LayoutError` for more statements, or longer ones, than can be checked against a program while a user waits."""
    places = [*(pattern for pattern, _ in (*overrides, *constraints)), *(place for each in groups for place in each)]
    places += [place for place, _ in barriers]
    if (count := len(rules) + len(places)) > MOST_STATEMENTS:
        raise LayoutError(
            f"The layout has {count:,} statements and places; it may have {MOST_STATEMENTS:,}.",
            ["match similar tensors with one pattern, `layers/*/mlp/w1`", "split dimensions by rules"],
        )
    if long := next((each for each in (*places, *(dim for dim, _ in rules)) if len(each) > MOST_LETTERS), None):
        raise LayoutError(f"`{long[:40]}…` is {len(long):,} letters long; a name in a layout has at most {MOST_LETTERS}.", ["shorten it"])


def _verify_mapping(rules: Mapping[Any, Any]) -> None:
    for dim, axes in rules.items():
        if not isinstance(dim, str):
            raise LayoutError(wrong_type("layout", dict(rules), "rules of named dimensions"), ['write {"batch": "data"}'])
        if not (isinstance(axes, str) or _are_words(axes)):
            raise LayoutError(wrong_type(f'layout["{dim}"]', axes, "mesh axes"), [f'write {{"{dim}": "data"}}', f"leave `{dim}` out"])


def _normalize_pairs(rules: Any) -> Rules:
    """Rules in normal form; raises `LayoutError` for anything that is not a rule."""
    if isinstance(rules, tuple | list) and all(map(_is_rule, rules)):
        return tuple((dim, tuple(axes)) for dim, axes in rules)
    meant = "; ".join(rules) if rules and _are_words(rules) else "batch:data; d_ff:model"
    empty = ['write "" for an empty layout'] if not rules else []
    raise LayoutError(wrong_type("layout", rules, 'statements, such as "batch:data", or a `Layout`'), [f'write "{meant}"', *empty])


def _is_rule(pair: Any) -> bool:
    return isinstance(pair, tuple | list) and len(pair) == _PAIR and isinstance(pair[0], str) and _are_words(pair[1])


def _are_words(values: Any) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(each, str) for each in values)


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
    """Priorities in the order of the rules, without 0, which is the default."""
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
            [
                "`barrier[@mlp/dot_general]` blocks propagation",
                "`allows:forward` and `allows:backward` block one direction",
            ],
        )
    return barrier


def _check_turns(stated: tuple[str, int]) -> tuple[str, int]:
    loop, count = stated
    if not loop.strip() or not 1 <= count <= MOST_TURNS:
        raise LayoutError(
            f"`turns[{loop[:80]}]={count}` is no number of turns.",
            [f"name a loop, and say from 1 to {MOST_TURNS:,}: `turns[solve/while]=8`"],
        )
    return stated
