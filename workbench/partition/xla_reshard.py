"""How XLA's partitioner goes from one sharding of a value to another: the collectives it emits, and where it must gather all.

XLA does not see mesh axes here but tiles: into how many parts each dimension is cut, and which device holds which part
(`PartitionedHlo::ReshardNoCache` of `spmd_partitioner.cc`; DOMAIN 3.5). It tries, in this order: a permutation, all-to-alls that swap the
parts of two dimensions, slicing what is replicated, gathering what shall be replicated, taking a dimension or the replicas apart, going
on within the groups that a dimension leaves as they are; and at last gathers the whole value (*involuntary full rematerialisation*).
Shardy's own way between the same shardings is often another and cheaper one, but it is not what runs.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from workbench.mesh import Mesh
from workbench.partition.attributes import Dims, local_shape
from workbench.partition.halo import Piece
from workbench.partition.xla_tiles import (
    Devices,
    aligned,
    canonical,
    disjoint,
    goes_into,
    grouped,
    is_whole,
    merged,
    minor_groups,
    nested,
    ordered,
    replicated,
    shifted,
    split,
    swapped,
    swaps,
    tiles_of,
    ungrouped,
    varying,
)
from workbench.partition.xla_uneven import Joining, before_joining, before_slicing, joining
from workbench.sharding import axis_size

SLICE = "slice"  # no collective: each device keeps a part of what it has


class Step(NamedTuple):
    """One move: its kind, the mesh axes it runs over, and the elements one device holds before, sends or receives, and holds afterwards.

    `payload` counts the padding of uneven parts, which is sent and then cut off; it is 0 of a slice.
    """

    kind: str
    axes: tuple[str, ...]
    before: int
    payload: int
    after: int


class Way(NamedTuple):
    """The moves between two shardings; `rematerialises` if XLA warns of an involuntary full rematerialisation."""

    steps: tuple[Step, ...]
    rematerialises: bool

    @property
    def collectives(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind != SLICE)


@functools.lru_cache(maxsize=4096)
def way(shape: tuple[int, ...], source: Dims, target: Dims, mesh: Mesh) -> Way:
    """What XLA emits to bring a value of this shape from one sharding to another."""
    is_even = _is_even(shape, source, target, mesh)
    if is_even and _begin_with(source, target):
        before, after = (math.prod(local_shape(shape, dims, mesh)) for dims in (source, target))
        return Way((Step(SLICE, (), before, 0, after),) if source != target else (), rematerialises=False)
    if is_even and _begin_with(target, source):
        return Way(tuple(_gathers(shape, source, target, mesh)), rematerialises=False)
    walk = _Walk(mesh, np.arange(mesh.size)[None])
    walk.reshard(_State(shape, tiles_of(source, mesh)), tiles_of(target, mesh), may_replicate=True)
    return Way(tuple(walk.steps), walk.rematerialises)


def steps_within(shape: tuple[int, ...], source: Devices, target: Devices, mesh: Mesh, devices: Devices) -> tuple[Step, ...]:
    """The moves between two tilings within groups of devices: a row of `devices` a group, whose places the tilings have as numbers."""
    walk = _Walk(mesh, devices)
    walk.reshard(_State(shape, source), target, may_replicate=True)
    return tuple(walk.steps)


def _begin_with(fewer: Dims, more: Dims) -> bool:
    """Whether each dimension's axes of the one are its major axes in the other: to go there is to slice, to come back to gather."""
    return all(few == many[: len(few)] for few, many in zip(fewer, more, strict=True))


def _is_even(shape: tuple[int, ...], source: Dims, target: Dims, mesh: Mesh) -> bool:
    """Whether the parts of all dimensions that change are full."""
    changing = ((size, dims) for size, *each in zip(shape, source, target, strict=True) if each[0] != each[1] for dims in each)
    return all(size % math.prod(axis_size(axis, mesh) for axis in dims) == 0 for size, dims in changing)


def _gathers(shape: tuple[int, ...], source: Dims, target: Dims, mesh: Mesh) -> Iterator[Step]:
    """One all-gather a dimension, the last one first. The common case, and told without a look at the devices: a mesh may have many."""
    dims, elements = list(source), math.prod(local_shape(shape, source, mesh))
    for dim in range(len(dims) - 1, -1, -1):
        axes = dims[dim][len(target[dim]) :]
        if axes:
            before, dims[dim] = math.prod(local_shape(shape, tuple(dims), mesh)), target[dim]
            elements *= math.prod(axis_size(axis, mesh) for axis in axes)
            yield Step("all-gather", ordered(axes, mesh), before, elements, math.prod(local_shape(shape, tuple(dims), mesh)))


class _State(NamedTuple):
    """A value on its way: the whole one's shape, and its tiles."""

    shape: tuple[int, ...]
    tiles: Devices

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(self.tiles.shape[:-1])

    @property
    def local(self) -> tuple[int, ...]:
        return tuple(-(-size // parts) for size, parts in zip(self.shape, self.parts, strict=True))


class _Walk:
    """Follows the partitioner and notes its moves. `devices` maps the numbers in tiles to those of the mesh, a row for each of the groups
    of devices that do the same."""

    def __init__(self, mesh: Mesh, devices: Devices) -> None:
        self._mesh, self._devices = mesh, devices
        self.steps: list[Step] = []
        self.rematerialises = False

    def reshard(self, state: _State, target: Devices, *, may_replicate: bool) -> bool:
        """Note the moves to `target`; `False`, and none noted, if only gathering the whole value leads there and that is not wanted."""
        noted = len(self.steps)
        if self._try_plainly(state, target) or self._try_apart(state, target):
            return True
        del self.steps[noted:]
        if self._try_within_groups(state, target):
            return True
        del self.steps[noted:]
        if not may_replicate:
            return False
        self.rematerialises = True
        self._slice(self._gather(state, _whole(state)), target)
        return True

    def _try_plainly(self, state: _State, target: Devices) -> bool:
        """One of the moves that need no other sharding in between, or no more than a permutation."""
        source = state.tiles
        if np.array_equal(source, target):
            return True
        if is_whole(source):
            self._slice(state, target)
        elif is_whole(target):
            self._gather(state, target)
        elif source.shape == target.shape:
            self._permute(state, target)
        elif (pairs := swaps(source, target)) is not None:
            self._all_to_all(state, target, pairs)
        elif source.shape[-1] > 1 and (near := nested(source, target)) is not None:
            self._permute(self._slice(state, near), target)
        elif source.shape[-1] > 1 and self._swap_then_slice(state, target):
            pass
        elif target.shape[-1] > 1 and (near := nested(target, source)) is not None:
            self._gather(self._permute(state, near), target)
        else:
            return target.shape[-1] > 1 and self._gather_then_swap(state, target)
        return True

    def _try_apart(self, state: _State, target: Devices) -> bool:
        """By way of another sharding: a dimension split in two, one replicated first, or the replicas put to use first."""
        split = _dimension_to_split(state, target)
        if split is not None:
            return self._through_split(state, target, *split)
        source = state.tiles
        for dim, parts in enumerate(state.parts):
            if target.shape[-1] > 1 and parts > 1 and parts * source.shape[-1] == target.shape[-1]:
                near = replicated(source, dim)
                return self.reshard(state, near, may_replicate=True) and self.reshard(
                    _State(state.shape, near), target, may_replicate=False
                )
        if source.shape[-1] > 1 and target.shape[-1] == 1:
            for dim, (old, new) in enumerate(zip(source.shape, target.shape, strict=True)):
                if old == 1 and new > 1 and new % source.shape[-1] == 0:
                    near = np.swapaxes(source, dim, -1)
                    self._slice(state, near)
                    return self.reshard(_State(state.shape, near), target, may_replicate=False)
        return False

    def _through_split(self, state: _State, target: Devices, dim: int, size: int) -> bool:
        """Reshard the value as if the dimension were two, of which the major one is cut into `size`."""
        before, after = (split(tiles, dim, size) for tiles in (state.tiles, target))
        length = state.local[dim]
        parts = before.shape[dim], before.shape[dim + 1]
        shape = (*state.shape[:dim], parts[0], length * parts[1], *state.shape[dim + 1 :])
        return self.reshard(_State(shape, before), after, may_replicate=False)

    def _try_within_groups(self, state: _State, target: Devices) -> bool:
        """Leave the dimensions that are cut alike, and reshard the others within each of their groups."""
        source = state.tiles
        equal = [dim for dim, (old, new) in enumerate(zip(state.parts, target.shape, strict=False)) if old == new > 1]
        if not equal:
            return False
        mine, theirs = (grouped(tiles, equal) for tiles in (source, target))
        inner = aligned(theirs, mine).reshape([1 if dim in equal else size for dim, size in enumerate(target.shape)])
        own = np.arange(mine.shape[1]).reshape([1 if dim in equal else size for dim, size in enumerate(source.shape)])
        shape = tuple(
            -(-size // parts) if dim in equal else size for dim, (size, parts) in enumerate(zip(state.shape, state.parts, strict=True))
        )
        walk = _Walk(self._mesh, self._devices[:, mine].reshape(-1, mine.shape[1]))
        walk.reshard(_State(shape, canonical(own)), canonical(inner), may_replicate=True)
        self.steps += walk.steps
        self.rematerialises |= walk.rematerialises
        reached = ungrouped(inner, mine, equal, target.shape)
        return self.reshard(_State(state.shape, canonical(reached)), target, may_replicate=True)

    def _all_to_all(self, state: _State, target: Devices, pairs: Sequence[tuple[int, int]]) -> None:
        """Swap the parts of dimensions, those that share none at once, then put the devices in order."""
        apart = disjoint(pairs)
        if len(apart) > 1:
            rest = [pair for pair in pairs if pair not in apart]
            state = self._swap(state, apart)
        else:
            rest = list(pairs)
        for pair in rest:
            state = self._swap(state, [pair])
        self._permute(state, target)

    def _swap(self, state: _State, pairs: Sequence[tuple[int, int]]) -> _State:
        tiles, moving = state.tiles, []
        for source, target in pairs:
            tiles, group = swapped(tiles, source, target)
            moving.append((target, group))
        after = _State(state.shape, tiles)
        padded = list(after.local)
        for (source, _), (_, group) in zip(pairs, moving, strict=True):
            padded[source] = state.local[source] * group
        self._note("all-to-all", minor_groups(tiles, moving), state, after, math.prod(padded))
        return after

    def _swap_then_slice(self, state: _State, target: Devices) -> bool:
        near = shifted(state.tiles, target)
        if near is None or (pairs := swaps(state.tiles, near)) is None:
            return False
        self._all_to_all(state, near, pairs)
        return self.reshard(_State(state.shape, near), target, may_replicate=True)

    def _gather_then_swap(self, state: _State, target: Devices) -> bool:
        near = shifted(target, state.tiles)
        if near is None or (pairs := swaps(near, target)) is None:
            return False
        self.reshard(state, near, may_replicate=True)
        self._all_to_all(_State(state.shape, near), target, pairs)
        return True

    def _permute(self, state: _State, target: Devices) -> _State:
        after = _State(state.shape, target)
        if not np.array_equal(state.tiles, target):
            pairs = np.stack([state.tiles.ravel(), target.ravel()], axis=1)
            self._note("collective-permute", pairs, state, after, math.prod(state.local))
        return after

    def _slice(self, state: _State, target: Devices) -> _State:
        after = _State(state.shape, target)
        changing = list(zip(state.shape, state.parts, target.shape, strict=False))
        self._fetch(state, [before_slicing(*each) for each in changing], [-(-size // new) * new // old for size, old, new in changing])
        self._note(SLICE, np.zeros((0, 1), dtype=np.int64), state, after, 0)
        return after

    def _gather(self, state: _State, target: Devices) -> _State:
        """One all-gather a dimension, the last one first; padding is cut off after the last. Thin dimensions are summed instead."""
        changing = [(size, *each) for size, *each in zip(state.shape, state.parts, target.shape, strict=False)]
        dims = [dim for dim, (_, old, new) in enumerate(changing) if old > new]
        self._fetch(state, [before_joining(*each) for each in changing], state.local)
        by: dict[Joining, list[int]] = {kind: [dim for dim in reversed(dims) if joining(*changing[dim]) is kind] for kind in Joining}
        factors = {dim: changing[dim][1] // changing[dim][2] for dim in dims}
        if by[Joining.BROADCAST]:
            state = self._join("all-reduce", state, {dim: factors[dim] for dim in by[Joining.BROADCAST]}, math.prod(state.local))
        elements = math.prod(state.local)
        for dim in by[Joining.GATHER]:
            elements *= factors[dim]
            state = self._join("all-gather", state, {dim: factors[dim]}, elements)
        whole = math.prod(_State(state.shape, target).local)
        for dim in by[Joining.SUM]:
            state = self._join("all-reduce", state, {dim: factors[dim]}, whole)
        return _State(state.shape, target)

    def _join(self, kind: str, state: _State, factors: dict[int, int], payload: int) -> _State:
        """So many parts of some dimensions become one."""
        tiles = state.tiles
        for dim, factor in factors.items():
            tiles = merged(tiles, dim, factor)
        after = _State(state.shape, tiles)
        self._note(kind, minor_groups(state.tiles, list(factors.items())), state, after, payload)
        return after

    def _fetch(self, state: _State, pieces: Sequence[Sequence[Piece]], sizes: Sequence[int]) -> None:
        """What uneven parts fetch from others, one dimension after the other, of which a part then has so many elements."""
        local = list(state.local)
        for dim, each in enumerate(pieces):
            for piece in each:
                sent, got = ([pair[at] for pair in piece.pairs] for at in (0, 1))
                pairs = np.stack([state.tiles.take(places, dim).ravel() for places in (sent, got)], axis=1)
                payload = math.prod((*local[:dim], piece.size, *local[dim + 1 :]))
                self._note("collective-permute", pairs, state, state, payload)
            local[dim] = sizes[dim] if each else local[dim]

    def _note(self, kind: str, groups: Devices, before: _State, after: _State, payload: int) -> None:
        axes = varying(self._devices[:, groups].reshape(-1, groups.shape[1]), self._mesh)
        self.steps.append(Step(kind, axes, math.prod(before.local), payload, math.prod(after.local)))


def _whole(state: _State) -> Devices:
    return np.sort(state.tiles.ravel()).reshape([1] * len(state.shape) + [-1])


def _dimension_to_split(state: _State, target: Devices) -> tuple[int, int] | None:
    """A dimension whose number of parts changes by a factor, and the part of it to take by itself."""
    old, new = state.tiles.shape, target.shape
    if old[-1] != new[-1]:
        return None
    differing = [dim for dim in range(len(old) - 1) if old[dim] != new[dim]]
    to_one = [dim for dim in differing if min(old[dim], new[dim]) == 1]
    apart = [dim for dim in differing if dim not in to_one and goes_into(old[dim], new[dim], state.shape[dim])]
    for dim in apart:
        if any(old[dim] * old[other] == new[dim] * new[other] for other in to_one):
            return dim, min(old[dim], new[dim])
    return next(((dim, new[dim]) for dim in apart if old[dim] > new[dim]), None)
