"""Define the sharding of one tensor on a mesh: mesh axes per dimension, and where propagation may add axes."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from workbench.core.mesh import Mesh
from workbench.errors import LayoutError

_SUB_AXIS = re.compile(r"(?P<axis>.+):\((?P<pre>\d+)\)(?P<size>\d+)")
MOST_ROUNDS = 1_000
"""Maximum priority; propagation runs once per priority."""
MOST_LETTERS = 2_000
"""Maximum characters of a sharding as text; every dimension on every axis takes a few hundred."""
_ENTRY = re.compile(r"(?P<axes>[^\s?]*)(?P<open>\?)?(?:\s+p(?P<priority>-?\d+))?")
_AXES = re.compile(r"(?P<kind>replicated|unreduced):(?P<axes>\S+)")


class SubAxis(NamedTuple):
    """A part of a mesh axis (Shardy's sub-axis): `x:(2)4` is the part of `x` of size 4, minor to a pre-size of 2."""

    axis: str
    pre_size: int
    size: int

    def __str__(self) -> str:
        return f"{self.axis}:({self.pre_size}){self.size}"


@lru_cache(maxsize=1024)
def parse_sub_axis(axis: str) -> SubAxis | None:
    """Parse a sub-axis; `None` for a whole mesh axis."""
    match = _SUB_AXIS.fullmatch(axis)
    return SubAxis(match["axis"], int(match["pre"]), int(match["size"])) if match else None


def base_axis(axis: str) -> str:
    part = parse_sub_axis(axis)
    return part.axis if part else axis


def axis_size(axis: str, mesh: Mesh) -> int:
    """Return the size of a mesh axis or sub-axis.

    >>> axis_size("x", Mesh("x:8")), axis_size("x:(2)4", Mesh("x:8"))
    (8, 4)
    """
    part = parse_sub_axis(axis)
    return part.size if part else mesh[axis]


def axes_overlap(one: str, other: str) -> bool:
    """Return whether two axes or sub-axes overlap: `x:(1)4` and `x:(2)4` do, `x:(1)2` and `x:(2)4` do not."""
    first, second = parse_sub_axis(one), parse_sub_axis(other)
    if first is None or second is None:
        return base_axis(one) == base_axis(other)
    overlapping = first.pre_size < second.pre_size * second.size and second.pre_size < first.pre_size * first.size
    return first.axis == second.axis and overlapping


@dataclass(frozen=True, slots=True)
class Sharding:
    """Mesh axes per dimension, major to minor: `()` is unsharded, `None` is left to propagation (as in Shardy).

    Prints as `[data, -, model+pipe p1, seq?, ?] replicated:expert unreduced:x`: sharded over `data`; unsharded; sharded
    over `model`, then `pipe`, with priority 1; sharded over `seq` and open to further axes; left to propagation; no
    dimension may take `expert`; the values are partial sums over `x`.

    - `open`: whether each sharded dimension may get minor axes; empty if none may.
    - `priorities`: the round in which each dimension begins to propagate (Shardy's user priority), from 0; empty if all
      are 0.

    >>> Sharding.parse("[data, -]").local_shape((8, 6), Mesh("data:4 model:2"))
    (2, 6)

    **Invariants**

    - An axis is used once: by one dimension (as in Mesh-TensorFlow and Shardy), as replicated or as unreduced; sub-axes
      never overlap.
    - `open` and `priorities` are empty or have one entry per dimension; an open dimension without axes is `None`.
    - A priority is at least 0, and 0 on an unsharded dimension, which has nothing to propagate.
    """

    dims: tuple[tuple[str, ...] | None, ...]
    open: tuple[bool, ...] = ()
    priorities: tuple[int, ...] = ()
    replicated: tuple[str, ...] = ()
    unreduced: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        used = (*self.axes, *self.replicated, *self.unreduced)
        if len(set(used)) != len(used) or any(":" in axis for axis in used):
            _verify_once(self, used)
        if self.open:
            self._normalize_open()
        if self.priorities:
            _verify_priorities(self)
            if not any(self.priorities):
                object.__setattr__(self, "priorities", ())

    def _normalize_open(self) -> None:
        _verify_length(self, "open", self.open)
        dims = tuple(None if is_open and not dim else dim for dim, is_open in zip(self.dims, self.open, strict=True))
        flags = tuple(bool(is_open and dim) for dim, is_open in zip(self.dims, self.open, strict=True))
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "open", flags if any(flags) else ())

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes that shard a dimension, in order of dimensions."""
        return tuple(axis for dim in self.dims for axis in dim or ())

    @property
    def named_axes(self) -> tuple[str, ...]:
        return (*self.axes, *self.replicated, *self.unreduced)

    @property
    def is_closed(self) -> bool:
        """Return whether propagation can add no axes."""
        return None not in self.dims and not self.open

    @property
    def is_plain(self) -> bool:
        """Return whether mesh axes per dimension describe it completely."""
        return self.is_closed and not (self.priorities or self.replicated or self.unreduced)

    def is_open(self, index: int) -> bool:
        return self.dims[index] is None or bool(self.open and self.open[index])

    def priority(self, index: int) -> int:
        """Return the round in which this dimension begins to propagate."""
        return self.priorities[index] if self.priorities else 0

    def parts(self, mesh: Mesh) -> tuple[int, ...]:
        return tuple(math.prod(axis_size(axis, mesh) for axis in dim or ()) for dim in self.dims)

    def local_shape(self, shape: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """Return the shape of one shard: `ceil(size / parts)`, so uneven dimensions are padded (GSPMD section 3.4)."""
        return tuple(-(-size // parts) for size, parts in zip(shape, self.parts(mesh), strict=True))

    def replicas(self, mesh: Mesh) -> int:
        return mesh.size // math.prod(self.parts(mesh))

    def map_axes(self, names: Mapping[str, str | None]) -> "Sharding":
        """Return a copy with mesh axes renamed, or dropped where `names` maps to `None`; an open dimension stays open."""

        def axes(old: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new for axis in old if (new := names.get(axis, axis)) is not None)

        dims = tuple(None if dim is None else axes(dim) for dim in self.dims)
        priorities = tuple(0 if dim == () and not self.is_open(i) else self.priority(i) for i, dim in enumerate(dims))
        return Sharding(dims, self.open, priorities, axes(self.replicated), axes(self.unreduced))

    def with_dim(self, index: int, axes: tuple[str, ...] | None) -> "Sharding":
        """Return a copy with one dimension closed on `axes` or open (`None`); without axes its priority becomes 0."""
        dims = (*self.dims[:index], axes, *self.dims[index + 1 :])
        flags = tuple(flag and i != index for i, flag in enumerate(self.open))
        priorities = tuple(0 if i == index and not axes else old for i, old in enumerate(self.priorities))
        return replace(self, dims=dims, open=flags, priorities=priorities)

    def until_round(self, last: int) -> "Sharding":
        """Return the part that propagates up to this round; dimensions with a later priority have no axes yet.

        >>> str(Sharding.parse("[data, model p1, pipe? p2]").until_round(1))
        '[data, model p1, ?]'
        """
        later = [priority > last for priority in self.priorities] or [False] * len(self.dims)
        dims = tuple((None if self.is_open(i) else ()) if later[i] else dim for i, dim in enumerate(self.dims))
        flags = tuple(flag and not is_later for flag, is_later in zip(self.open, later, strict=False))
        priorities = tuple(0 if is_later else old for old, is_later in zip(self.priorities, later, strict=False))
        return replace(self, dims=dims, open=flags, priorities=priorities)

    def __str__(self) -> str:
        entries = "[" + ", ".join(map(self._entry, range(len(self.dims)))) + "]"
        kinds = (("replicated", self.replicated), ("unreduced", self.unreduced))
        return " ".join([entries, *(f"{kind}:{'+'.join(axes)}" for kind, axes in kinds if axes)])

    def _entry(self, index: int) -> str:
        axes = "+".join(self.dims[index] or ())
        text = axes + "?" if self.is_open(index) else axes or "-"
        return f"{text} p{self.priorities[index]}" if self.priority(index) else text

    @classmethod
    def parse(cls, text: str) -> "Sharding":
        """Parse the text form. Raises `LayoutError`."""
        if len(text) > MOST_LETTERS:
            raise LayoutError(f"`{text[:40]}…` has {len(text):,} characters; a sharding has at most {MOST_LETTERS:,}.", ["shorten it"])
        return _parse_text(text)

    @classmethod
    def whole(cls, rank: int) -> "Sharding":
        return cls(((),) * rank)


@lru_cache(maxsize=4096)
def _parse_text(text: str) -> Sharding:
    """Parse with a cache, since reports and pages parse the same few texts repeatedly."""
    body, bracket, tail = text.strip().partition("]")
    if not (body.startswith("[") and bracket):
        raise LayoutError(f"`{text[:80]}` is not a sharding.", ['write "[data, -, model]", one entry per dimension'])
    words = [word.strip() for word in body[1:].split(",")] if body[1:].strip() else []
    entries = [_parse_entry(word, text) for word in words]
    kinds: dict[str, tuple[str, ...]] = {}
    for word in tail.split():
        match = _AXES.fullmatch(word)
        if match is None or match["kind"] in kinds:
            raise LayoutError(
                f"`{word[:40]}` after the sharding `{text[:80]}` is not understood.",
                [
                    "write `replicated:x+y`, once, for axes that may shard no dimension",
                    "`unreduced:x` for a partial sum",
                    *(["write a priority after the axes of a dimension, `[model p1, -]`"] if re.fullmatch(r"p-?\d+", word) else []),
                ],
            )
        kinds[match["kind"]] = _split_axes(match["axes"], text)
    return Sharding(
        tuple(dim for dim, _, _ in entries),
        tuple(is_open for _, is_open, _ in entries),
        tuple(priority for _, _, priority in entries),
        kinds.get("replicated", ()),
        kinds.get("unreduced", ()),
    )


def _parse_entry(word: str, text: str) -> tuple[tuple[str, ...] | None, bool, int]:
    match = _ENTRY.fullmatch(word)
    if match is None:
        raise LayoutError(
            f"`{word[:40]}` in `{text[:80]}` is not an entry of a sharding.",
            ["`x+y` shards over x, then y", "`x?` allows more axes", "`x p1` propagates later", "`-` is whole", "`?` is open"],
        )
    is_open, priority = bool(match["open"]), int(match["priority"] or 0)
    if match["axes"] == "-":
        return (), is_open, priority
    if not match["axes"] and is_open:
        return None, False, priority
    return _split_axes(match["axes"], text), is_open, priority


def _split_axes(word: str, text: str) -> tuple[str, ...]:
    axes = tuple(word.split("+"))
    if "" in axes:
        raise LayoutError(f"`{text[:80]}` has an empty entry.", ["write `-` for an unsharded dimension"])
    return axes


def _verify_once(sharding: Sharding, used: tuple[str, ...]) -> None:
    seen: list[str] = []
    for axis in used:
        if (other := next((earlier for earlier in seen if axes_overlap(earlier, axis)), None)) is not None:
            once = [f"name `{axis}` once"] if axis in (*sharding.replicated, *sharding.unreduced) else []
            raise LayoutError(_repeated_axis_text(sharding, axis, other), ["use an axis for one dimension of a tensor only", *once])
        seen.append(axis)


def _repeated_axis_text(sharding: Sharding, axis: str, other: str) -> str:
    if axis != other:
        return f"{sharding} uses `{other}` and `{axis}`, which overlap."
    for kind, axes in (("replicated", sharding.replicated), ("unreduced", sharding.unreduced)):
        if axis in axes and axis in sharding.axes:
            return f"{sharding} has mesh axis `{axis}` both on a dimension and as {kind}."
    return f"{sharding} uses mesh axis `{axis}` twice."


def _verify_length(sharding: Sharding, name: str, entries: Sequence[object]) -> None:
    if len(entries) != len(sharding.dims):
        raise ValueError(f"{len(entries)} entries of {name} for {len(sharding.dims)} dimensions")


def _verify_priorities(sharding: Sharding) -> None:
    _verify_length(sharding, "priorities", sharding.priorities)
    for i, (dim, priority) in enumerate(zip(sharding.dims, sharding.priorities, strict=True)):
        if priority > MOST_ROUNDS:
            raise LayoutError(f"{sharding} has priority {priority:,}; {MOST_ROUNDS:,} is the last.", ["use 0, 1, 2, ..."])
        if priority < 0:
            raise LayoutError(
                f"{sharding} has priority {priority}; 0 is the first to propagate.", ["use 0, 1, 2, ...", "give the others a larger one"]
            )
        if priority and dim == () and not sharding.is_open(i):
            raise LayoutError(
                f"{sharding} gives priority {priority} to an unsharded dimension, which has nothing to propagate.",
                ["write `-` without a priority", f"write `? p{priority}` to leave it to propagation"],
            )
