"""How XLA's partitioner goes from one sharding of a value to another: the collectives it emits, and where it must gather all.

XLA does not see mesh axes here but tiles: into how many parts each dimension is cut, and which device holds which part
(`PartitionedHlo::ReshardNoCache` of `spmd_partitioner.cc`; DOMAIN 3.5). It tries, in this order: a permutation, all-to-alls that swap the
parts of two dimensions, slicing what is replicated, gathering what shall be replicated, taking a dimension or the replicas apart, going
on within the groups that a dimension leaves as they are; and at last gathers the whole value (*involuntary full rematerialisation*).
Shardy's own way between the same shardings is often another and cheaper one, but it is not what runs.
"""

import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from workbench.mesh import Mesh
from workbench.partition.attributes import Dims, local_shape
from workbench.sharding import axis_size, base_axis

Devices = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

_SUB_AXIS = re.compile(r"(?P<axis>.+):\((?P<pre>\d+)\)(?P<size>\d+)")
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
    if _begin_with(source, target):
        before, after = (math.prod(local_shape(shape, dims, mesh)) for dims in (source, target))
        return Way((Step(SLICE, (), before, 0, after),) if source != target else (), rematerialises=False)
    if _begin_with(target, source):
        return Way(tuple(_gathers(shape, source, target, mesh)), rematerialises=False)
    walk = _Walk(mesh, np.arange(mesh.size)[None])
    walk.reshard(_State(shape, tiles_of(source, mesh)), tiles_of(target, mesh), may_replicate=True)
    return Way(tuple(walk.steps), walk.rematerialises)


def _begin_with(fewer: Dims, more: Dims) -> bool:
    """Whether each dimension's axes of the one are its major axes in the other: to go there is to slice, to come back to gather."""
    return all(few == many[: len(few)] for few, many in zip(fewer, more, strict=True))


def _gathers(shape: tuple[int, ...], source: Dims, target: Dims, mesh: Mesh) -> Iterator[Step]:
    """One all-gather a dimension, the last one first. The common case, and told without a look at the devices: a mesh may have many."""
    dims, elements = list(source), math.prod(local_shape(shape, source, mesh))
    for dim in range(len(dims) - 1, -1, -1):
        axes = dims[dim][len(target[dim]) :]
        if axes:
            before, dims[dim] = math.prod(local_shape(shape, tuple(dims), mesh)), target[dim]
            elements *= math.prod(axis_size(axis, mesh) for axis in axes)
            yield Step("all-gather", _ordered(axes, mesh), before, elements, math.prod(local_shape(shape, tuple(dims), mesh)))


def _ordered(axes: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
    return tuple(sorted(axes, key=lambda axis: (mesh.names.index(base_axis(axis)), axis)))


def tiles_of(dims: Dims, mesh: Mesh) -> Devices:
    """The devices by tile: a dimension of the array for each of the tensor's, and a last one for those that hold the same tile."""
    used = [axis for dim in dims for axis in dim]
    atoms = {name: _atoms(name, size, used) for name, size in mesh.axes}
    order = [(name, pre, size) for name in mesh.names for pre, size in atoms[name]]
    devices = np.arange(mesh.size).reshape([size for _, _, size in order])
    front: list[int] = []
    parts = []
    for dim in dims:
        mine = [place for axis in dim for place, atom in enumerate(order) if _is_within(atom, axis, mesh)]
        front += mine
        parts.append(math.prod(order[place][2] for place in mine))
    rest = [place for place in range(len(order)) if place not in front]
    return _canonical(devices.transpose([*front, *rest]).reshape([*parts, -1]))


def _piece(axis: str) -> tuple[str, int, int]:
    """The mesh axis of an axis or sub-axis, what is major to it there, and its size; 0 for all of it."""
    found = _SUB_AXIS.fullmatch(axis)
    return (found["axis"], int(found["pre"]), int(found["size"])) if found else (axis, 1, 0)


def _atoms(name: str, size: int, used: Sequence[str]) -> list[tuple[int, int]]:
    """A mesh axis as (pre-size, size) of the pieces that the sub-axes in use cut it into."""
    cuts = {1, size}
    for axis in used:
        base, pre, part = _piece(axis)
        if base == name and part:
            cuts |= {pre, pre * part}
    places = sorted(cuts)
    return [(low, high // low) for low, high in itertools.pairwise(places)] or [(1, size)]


def _is_within(atom: tuple[str, int, int], axis: str, mesh: Mesh) -> bool:
    name, pre, size = atom
    base, start, part = _piece(axis)
    return name == base and start <= pre and pre * size <= start * (part or mesh[base])


def _canonical(tiles: Devices) -> Devices:
    """Devices that hold the same tile in ascending order, so that equal shardings are equal arrays."""
    return np.sort(tiles, axis=-1)


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


def _is_whole(tiles: Devices) -> bool:
    return math.prod(tiles.shape[:-1]) == 1


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
        if _is_whole(source):
            self._slice(state, target)
        elif _is_whole(target):
            self._gather(state, target)
        elif source.shape == target.shape:
            self._permute(state, target)
        elif (pairs := _swaps(source, target)) is not None:
            self._all_to_all(state, target, pairs)
        elif source.shape[-1] > 1 and (near := _nested(source, target)) is not None:
            self._permute(self._slice(state, near), target)
        elif source.shape[-1] > 1 and self._swap_then_slice(state, target):
            pass
        elif target.shape[-1] > 1 and (near := _nested(target, source)) is not None:
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
                near = _replicated(source, dim)
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
        before, after = (_split(tiles, dim, size) for tiles in (state.tiles, target))
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
        mine, theirs = (_grouped(tiles, equal) for tiles in (source, target))
        inner = _aligned(theirs, mine).reshape([1 if dim in equal else size for dim, size in enumerate(target.shape)])
        own = np.arange(mine.shape[1]).reshape([1 if dim in equal else size for dim, size in enumerate(source.shape)])
        shape = tuple(
            -(-size // parts) if dim in equal else size for dim, (size, parts) in enumerate(zip(state.shape, state.parts, strict=True))
        )
        walk = _Walk(self._mesh, self._devices[:, mine].reshape(-1, mine.shape[1]))
        walk.reshard(_State(shape, _canonical(own)), _canonical(inner), may_replicate=True)
        self.steps += walk.steps
        self.rematerialises |= walk.rematerialises
        reached = _ungrouped(inner, mine, equal, target.shape)
        return self.reshard(_State(state.shape, _canonical(reached)), target, may_replicate=True)

    def _all_to_all(self, state: _State, target: Devices, pairs: Sequence[tuple[int, int]]) -> None:
        """Swap the parts of dimensions, those that share none at once, then put the devices in order."""
        apart = _disjoint(pairs)
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
            tiles, group = _swapped(tiles, source, target)
            moving.append((target, group))
        after = _State(state.shape, tiles)
        padded = list(after.local)
        for (source, _), (_, group) in zip(pairs, moving, strict=True):
            padded[source] = state.local[source] * group
        self._note("all-to-all", _minor_groups(tiles, moving), state, after, math.prod(padded))
        return after

    def _swap_then_slice(self, state: _State, target: Devices) -> bool:
        near = _shifted(state.tiles, target)
        if near is None or (pairs := _swaps(state.tiles, near)) is None:
            return False
        self._all_to_all(state, near, pairs)
        return self.reshard(_State(state.shape, near), target, may_replicate=True)

    def _gather_then_swap(self, state: _State, target: Devices) -> bool:
        near = _shifted(target, state.tiles)
        if near is None or (pairs := _swaps(near, target)) is None:
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
        self._note(SLICE, np.zeros((0, 1), dtype=np.int64), state, after, 0)
        return after

    def _gather(self, state: _State, target: Devices) -> _State:
        """One all-gather a dimension, the last one first; padding is cut off after the last."""
        elements = math.prod(state.local)
        for dim in range(len(state.shape) - 1, -1, -1):
            factor = state.tiles.shape[dim] // target.shape[dim]
            if factor > 1:
                after = _State(state.shape, _merged(state.tiles, dim, factor))
                elements *= factor
                self._note("all-gather", _minor_groups(state.tiles, [(dim, factor)]), state, after, elements)
                state = after
        return _State(state.shape, target)

    def _note(self, kind: str, groups: Devices, before: _State, after: _State, payload: int) -> None:
        axes = _varying(self._devices[:, groups].reshape(-1, groups.shape[1]), self._mesh)
        self.steps.append(Step(kind, axes, math.prod(before.local), payload, math.prod(after.local)))


def _varying(groups: Devices, mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which the members of a group differ; the sub-axes of these, where they are less than the axes."""
    places = np.unravel_index(groups, mesh.sizes)
    used = {name: place for name, place in zip(mesh.names, places, strict=True) if (place != place[:, :1]).any()}
    whole = tuple(used)
    if math.prod(mesh[name] for name in whole) == groups.shape[1]:
        return whole
    parts = tuple(_sub_axis(name, np.unique(place[0]), mesh[name]) for name, place in used.items())
    fits = math.prod(axis_size(part, mesh) for part in parts) == groups.shape[1]
    return parts if fits else whole


def _sub_axis(name: str, places: Devices, size: int) -> str:
    """`x:(m)k`, the part of size k after a pre-size of m (Y6), from the places it takes; the axis itself if they are no such part."""
    steps, count = np.diff(places), len(places)
    if count in (1, size) or (steps != steps[0]).any() or size % (count * int(steps[0])):
        return name
    return f"{name}:({size // (count * int(steps[0]))}){count}"


def _whole(state: _State) -> Devices:
    return np.sort(state.tiles.ravel()).reshape([1] * len(state.shape) + [-1])


def _swaps(source: Devices, target: Devices) -> list[tuple[int, int]] | None:
    """Pairs of dimensions (from, to) whose numbers of parts, swapped one pair after the other, make the one tiling the other."""
    old, new = source.shape, target.shape
    if (old[-1] > 1) != (new[-1] > 1) or math.prod(old[:-1]) != math.prod(new[:-1]):
        return None
    differing = [dim for dim in range(len(old) - 1) if old[dim] != new[dim]]
    if not differing or sorted(old[dim] for dim in differing) != sorted(new[dim] for dim in differing):
        return None
    by_size: dict[int, list[int]] = {}
    for dim in differing:
        by_size.setdefault(old[dim], []).append(dim)
    pairs = []
    while by_size:
        size = min(by_size)
        to = by_size[size][-1]
        wanted = new[to]
        if wanted == size:
            _drop(by_size, size, to)
            continue
        candidates = by_size.get(wanted)
        if not candidates or (size > 1 and wanted % size):
            return None
        fits = (dim for dim in candidates if (new[dim] != 1 if size == 1 else new[dim] == size))
        source_dim = next(fits, candidates[-1])
        pairs.append((source_dim, to))
        by_size[size][-1] = source_dim
        _drop(by_size, wanted, source_dim)
    return pairs


def _drop(by_size: dict[int, list[int]], size: int, dim: int) -> None:
    by_size[size].remove(dim)
    if not by_size[size]:
        del by_size[size]


def _disjoint(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs, by their second dimension, that share no dimension with one before."""
    seen: set[int] = set()
    found = []
    for pair in sorted(pairs, key=lambda pair: pair[1]):
        if not seen & set(pair):
            found.append(pair)
            seen |= set(pair)
    return found


def _swapped(tiles: Devices, source: int, target: int) -> tuple[Devices, int]:
    """Two dimensions' numbers of parts swapped, the minor parts of `source` going to `target`; and how many go."""
    sizes = list(tiles.shape)
    group = sizes[source] // sizes[target]
    cut: list[int] = []
    places: dict[int, int] = {}
    for dim, size in enumerate(sizes):
        cut += [sizes[target], group] if dim == source else [size, 1] if dim == target else [size]
        if dim in (source, target):
            places[dim] = len(cut) - 1
    order = list(range(len(cut)))
    order[places[source]], order[places[target]] = order[places[target]], order[places[source]]
    sizes[source], sizes[target] = sizes[target], sizes[source]
    return _canonical(tiles.reshape(cut).transpose(order).reshape(sizes)), group


def _minor_groups(tiles: Devices, moving: Sequence[tuple[int, int]]) -> Devices:
    """Devices that differ in the minor `size` parts of each of the (dimension, size) alone: one row a group."""
    factors = dict(moving)
    cut: list[int] = []
    minor = []
    for dim, size in enumerate(tiles.shape):
        if dim in factors:
            minor.append(len(cut) + 1)
            cut += [size // factors[dim], factors[dim]]
        else:
            cut.append(size)
    major = [place for place in range(len(cut)) if place not in minor]
    return tiles.reshape(cut).transpose([*major, *minor]).reshape([-1, math.prod(factors.values())])


def _merged(tiles: Devices, dim: int, factor: int) -> Devices:
    """The minor `factor` parts of a dimension made replicas."""
    sizes = tiles.shape
    apart = tiles.reshape([*sizes[:dim], sizes[dim] // factor, factor, *sizes[dim + 1 :]])
    return _canonical(np.moveaxis(apart, dim + 1, -1).reshape([*sizes[:dim], sizes[dim] // factor, *sizes[dim + 1 : -1], -1]))


def _replicated(tiles: Devices, dim: int) -> Devices:
    return _merged(tiles, dim, tiles.shape[dim])


def _nested(coarse: Devices, fine: Devices) -> Devices | None:
    """The tiling of `fine`'s parts whose tiles lie within those that the same devices hold in `coarse`; `fine` itself if it is one."""
    factors = [new // old for old, new in zip(coarse.shape[:-1], fine.shape[:-1], strict=True)]
    if any(new % old for old, new in zip(coarse.shape[:-1], fine.shape[:-1], strict=True)):
        return None
    if _lies_within(fine, coarse, factors):
        return fine
    grown = [dim for dim, factor in enumerate(factors) if factor > 1]
    apart = coarse.reshape([*coarse.shape[:-1], *(factors[dim] for dim in grown), fine.shape[-1]])
    rank = len(factors)
    order = []
    for dim in range(rank):
        order.append(dim)
        if dim in grown:
            order.append(rank + grown.index(dim))
    return _canonical(apart.transpose([*order, apart.ndim - 1]).reshape(fine.shape))


def _lies_within(fine: Devices, coarse: Devices, factors: Sequence[int]) -> bool:
    """Whether each device's tile in the one lies within the tile it has in the other."""
    inner, outer = (_places(tiles) for tiles in (fine, coarse))
    return bool((inner // np.asarray(factors)[:, None] == outer).all())


def _places(tiles: Devices) -> Devices:
    """Where each device's tile is: a row for each dimension, a column for each device."""
    found = np.empty((tiles.ndim - 1, tiles.size), dtype=np.int64)
    found[:, tiles.ravel()] = np.stack(np.unravel_index(np.arange(tiles.size), tiles.shape))[:-1]
    return found


def _dimension_to_split(state: _State, target: Devices) -> tuple[int, int] | None:
    """A dimension whose number of parts changes by a factor, and the part of it to take by itself."""
    old, new = state.tiles.shape, target.shape
    if old[-1] != new[-1]:
        return None
    differing = [dim for dim in range(len(old) - 1) if old[dim] != new[dim]]
    to_one = [dim for dim in differing if min(old[dim], new[dim]) == 1]
    apart = [dim for dim in differing if dim not in to_one and _goes_into(old[dim], new[dim], state.shape[dim])]
    for dim in apart:
        if any(old[dim] * old[other] == new[dim] * new[other] for other in to_one):
            return dim, min(old[dim], new[dim])
    return next(((dim, new[dim]) for dim in apart if old[dim] > new[dim]), None)


def _goes_into(one: int, other: int, size: int) -> bool:
    few, many = sorted((one, other))
    return many % few == 0 and (-(-size // few) * few) % many == 0


def _split(tiles: Devices, dim: int, size: int) -> Devices:
    return tiles.reshape([*tiles.shape[:dim], size, tiles.shape[dim] // size, *tiles.shape[dim + 1 :]])


def _shifted(partial: Devices, tiled: Devices) -> Devices | None:
    """Of a tiling whose dimensions are one further left than in `partial`: the same with its last cut dimension replicated."""
    if tiled.shape[-1] > 1 or _is_whole(tiled) or partial.shape[0] != 1 or tiled.shape[:-1] != partial.shape[1:]:
        return None
    if not np.array_equal(partial.ravel(), tiled.ravel()):
        return None
    return _replicated(tiled, len(tiled.shape) - 2)


def _grouped(tiles: Devices, dims: Sequence[int]) -> Devices:
    """One row a part of the dimensions: its devices, in the order of the other dimensions."""
    rest = [dim for dim in range(tiles.ndim) if dim not in dims]
    return tiles.transpose([*dims, *rest]).reshape([math.prod(tiles.shape[dim] for dim in dims), -1])


def _aligned(groups: Devices, reference: Devices) -> Devices:
    """The first group's order of devices in terms of the reference's, if the groups hold the same devices; else as it stands."""
    if not np.array_equal(np.sort(groups), np.sort(reference)):
        return np.arange(groups.shape[1])
    return np.argsort(reference[0])[np.searchsorted(np.sort(reference[0]), groups[0])]


def _ungrouped(inner: Devices, groups: Devices, dims: Sequence[int], shape: Sequence[int]) -> Devices:
    """The tiling of all devices that is `inner` within each group."""
    rest = [dim for dim in range(len(shape)) if dim not in dims]
    whole = groups[:, inner.ravel()].reshape([*(shape[dim] for dim in dims), *(shape[dim] for dim in rest)])
    return whole.transpose(np.argsort([*dims, *rest]))
