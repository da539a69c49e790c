"""Where dimensions go: global rules, overrides for one tensor, constraints on intermediate values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.errors import LayoutError
from workbench.paths import matches
from workbench.sharding import Sharding
from workbench.tensor import Tensor

_RULE = re.compile(r"(?P<dim>[^\s:=@\[\]]+)\s*:\s*(?P<axes>[^\s:=@\[\]+]+(?:\+[^\s:=@\[\]+]+)*)")


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """Rules from dimension to mesh axes (Mesh-TensorFlow M3), and the exceptions to them.

    In text, `;` separates statements (`,` too, between rules, as Mesh-TensorFlow allows):

    - `d_ff:model`, a rule; `batch:data+pipe` splits on `data` (major), then `pipe`;
    - `params/head=[-, model]`, an override of the arguments whose path matches (see `paths.matches`);
    - `@mlp/dot_general=[data, ?, model]`, a constraint on the intermediate values whose named scope matches;
      `?` leaves a dimension to propagation.

    >>> layout = Layout("batch:data; d_ff:model; params/head=[-, model]")
    >>> layout.rule("d_ff"), str(layout)
    (('model',), 'batch:data; d_ff:model; params/head=[-, model]')

    **Invariants**

    - A dimension has one rule (M4); an empty one is the same as none and is dropped.
    - A pattern has one override and one constraint: the last one given.
    """

    rules: tuple[tuple[str, tuple[str, ...]], ...]
    overrides: tuple[tuple[str, Sharding], ...]
    constraints: tuple[tuple[str, Sharding], ...]

    def __init__(
        self,
        rules: "str | Mapping[str, str | tuple[str, ...]] | tuple[tuple[str, tuple[str, ...]], ...]" = "",
        overrides: tuple[tuple[str, Sharding], ...] = (),
        constraints: tuple[tuple[str, Sharding], ...] = (),
    ) -> None:
        if isinstance(rules, str):
            parsed = _parse(rules)
            pairs, overrides, constraints = parsed[0], parsed[1] + overrides, parsed[2] + constraints
        elif isinstance(rules, Mapping):
            pairs = tuple((dim, tuple(axes.split("+")) if isinstance(axes, str) else tuple(axes)) for dim, axes in rules.items())
        else:
            pairs = rules
        for dim, axes in pairs:
            _verify_rule(dim, axes, pairs)
        object.__setattr__(self, "rules", tuple((dim, axes) for dim, axes in pairs if axes))
        object.__setattr__(self, "overrides", _last_of_each(overrides))
        object.__setattr__(self, "constraints", _last_of_each(constraints))

    def rule(self, dim: str) -> tuple[str, ...]:
        """The mesh axes dimension `dim` lies on; empty if it is kept whole."""
        return next((axes for name, axes in self.rules if name == dim), ())

    def override(self, path: str) -> Sharding | None:
        """The last override whose pattern matches `path`."""
        return next((sharding for pattern, sharding in reversed(self.overrides) if matches(pattern, path)), None)

    def sharding(self, tensor: Tensor) -> Sharding:
        """Where `tensor` lies: its override if it has one, else the rules of its dimensions (M7)."""
        return self.override(tensor.path) or Sharding(tuple(self.rule(dim) for dim in tensor.dims))

    def with_rule(self, dim: str, axes: tuple[str, ...]) -> "Layout":
        """The layout with `dim` on `axes`, in its old place if it had one; empty `axes` frees it."""
        known = any(name == dim for name, _ in self.rules)
        kept = tuple((name, axes if name == dim else old) for name, old in self.rules)
        return Layout(kept if known else (*kept, (dim, axes)), self.overrides, self.constraints)

    def with_override(self, pattern: str, sharding: Sharding | None) -> "Layout":
        """The layout with one override set, or removed with `None`."""
        return Layout(self.rules, _set(self.overrides, pattern, sharding), self.constraints)

    def with_constraint(self, pattern: str, sharding: Sharding | None) -> "Layout":
        """The layout with one constraint set, or removed with `None`."""
        return Layout(self.rules, self.overrides, _set(self.constraints, pattern, sharding))

    def renamed_dim(self, old: str, new: str) -> "Layout":
        return Layout(tuple((new if dim == old else dim, axes) for dim, axes in self.rules), self.overrides, self.constraints)

    def map_axes(self, names: Mapping[str, str | None]) -> "Layout":
        """Mesh axes renamed, or dropped where `names` maps to `None`, in rules, overrides and constraints alike."""

        def axes(old: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new for axis in old if (new := names.get(axis, axis)) is not None)

        def sharding(old: Sharding) -> Sharding:
            return Sharding(tuple(None if dim is None else axes(dim) for dim in old.dims))

        return Layout(
            tuple((dim, axes(old)) for dim, old in self.rules),
            tuple((pattern, sharding(old)) for pattern, old in self.overrides),
            tuple((pattern, sharding(old)) for pattern, old in self.constraints),
        )

    def __str__(self) -> str:
        return "; ".join(
            [f"{dim}:{'+'.join(axes)}" for dim, axes in self.rules]
            + [f"{pattern}={sharding}" for pattern, sharding in self.overrides]
            + [f"@{pattern}={sharding}" for pattern, sharding in self.constraints]
        )

    def __repr__(self) -> str:
        return f'Layout("{self}")'


def _set(entries: tuple[tuple[str, Sharding], ...], pattern: str, sharding: Sharding | None) -> tuple[tuple[str, Sharding], ...]:
    kept = tuple(entry for entry in entries if entry[0] != pattern)
    return kept if sharding is None else (*kept, (pattern, sharding))


def _last_of_each(entries: tuple[tuple[str, Sharding], ...]) -> tuple[tuple[str, Sharding], ...]:
    return tuple(entry for i, entry in enumerate(entries) if all(entry[0] != later for later, _ in entries[i + 1 :]))


def _verify_rule(dim: str, axes: tuple[str, ...], rules: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    if sum(name == dim for name, _ in rules) > 1:
        given = " and ".join(f"`{name}:{'+'.join(other)}`" for name, other in rules if name == dim)
        raise LayoutError(f"Dimension `{dim}` has two rules, {given}.", [f"to split it over several axes write `{dim}:a+b`"])
    for axis in axes:
        if axes.count(axis) > 1:
            raise LayoutError(f"The rule `{dim}:{'+'.join(axes)}` uses mesh axis `{axis}` twice.", ["name it once"])


def _parse(
    text: str,
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[tuple[str, Sharding], ...], tuple[tuple[str, Sharding], ...]]:
    rules: list[tuple[str, tuple[str, ...]]] = []
    overrides: list[tuple[str, Sharding]] = []
    constraints: list[tuple[str, Sharding]] = []
    for statement in re.split(r"[;\n]|,(?![^\[]*\])", text):
        word = statement.strip()
        if not word:
            continue
        if "=[" in word.replace(" ", ""):
            pattern, _, sharding = word.partition("=")
            entry = (pattern.strip().removeprefix("@"), Sharding.parse(sharding))
            (constraints if word.startswith("@") else overrides).append(entry)
        elif found := _RULE.fullmatch(word):
            rules.append((found["dim"], tuple(found["axes"].split("+"))))
        else:
            raise LayoutError(
                f"`{word[:80]}` is not a layout statement.",
                ["a rule is `d_ff:model`", "an override `params/w=[data, -]`", "a constraint `@mlp/dot_general=[data, ?, model]`"],
            )
    return tuple(rules), tuple(overrides), tuple(constraints)
