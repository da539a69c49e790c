"""Shardings as XLA's partitioner sees them: into how many parts each dimension is cut, and which device holds which part.

An array of device numbers, one dimension for each of the value's and a last one for replicas (`HloSharding`, `TileAssignment`). The
functions are those of `hlo_sharding_util.cc` and `spmd_partitioner_util.cc` that `xla_reshard` walks with.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from workbench.mesh import Mesh
from workbench.partition.attributes import Dims
from workbench.sharding import SubAxis, axis_size, base_axis, sub_axis

Devices = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def ordered(axes: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
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
    return canonical(devices.transpose([*front, *rest]).reshape([*parts, -1]))


def _atoms(name: str, size: int, used: Sequence[str]) -> list[tuple[int, int]]:
    """A mesh axis as (pre-size, size) of the pieces that the sub-axes in use cut it into."""
    cuts = {1, size}
    for axis in used:
        part = sub_axis(axis)
        if part and part.axis == name:
            cuts |= {part.pre_size, part.pre_size * part.size}
    places = sorted(cuts)
    return [(low, high // low) for low, high in itertools.pairwise(places)] or [(1, size)]


def _is_within(atom: tuple[str, int, int], axis: str, mesh: Mesh) -> bool:
    name, pre_size, size = atom
    part = sub_axis(axis) or SubAxis(axis, 1, mesh[axis])
    return name == part.axis and part.pre_size <= pre_size and pre_size * size <= part.pre_size * part.size


def canonical(tiles: Devices) -> Devices:
    """Devices that hold the same tile in ascending order, so that equal shardings are equal arrays."""
    return np.sort(tiles, axis=-1)


def is_whole(tiles: Devices) -> bool:
    return math.prod(tiles.shape[:-1]) == 1


def varying(groups: Devices, mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which the members of a group differ; the sub-axes of these, where they are less than the axes."""
    places = np.unravel_index(groups, mesh.sizes)
    used = {name: place for name, place in zip(mesh.names, places, strict=True) if (place != place[:, :1]).any()}
    whole = tuple(used)
    if math.prod(mesh[name] for name in whole) == groups.shape[1]:
        return whole
    parts = tuple(_part(name, np.unique(place[0]), mesh[name]) for name, place in used.items())
    fits = math.prod(axis_size(part, mesh) for part in parts) == groups.shape[1]
    return parts if fits else whole


def _part(name: str, places: Devices, size: int) -> str:
    """`x:(m)k`, the part of size k after a pre-size of m (Y6), from the places it takes; the axis itself if they are no such part."""
    steps, count = np.diff(places), len(places)
    if count in (1, size) or (steps != steps[0]).any() or size % (count * int(steps[0])):
        return name
    return str(SubAxis(name, size // (count * int(steps[0])), count))


def swaps(source: Devices, target: Devices) -> list[tuple[int, int]] | None:
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


def disjoint(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs, by their second dimension, that share no dimension with one before."""
    seen: set[int] = set()
    found = []
    for pair in sorted(pairs, key=lambda pair: pair[1]):
        if not seen & set(pair):
            found.append(pair)
            seen |= set(pair)
    return found


def swapped(tiles: Devices, source: int, target: int) -> tuple[Devices, int]:
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
    return canonical(tiles.reshape(cut).transpose(order).reshape(sizes)), group


def minor_groups(tiles: Devices, moving: Sequence[tuple[int, int]]) -> Devices:
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


def merged(tiles: Devices, dim: int, factor: int) -> Devices:
    """The minor `factor` parts of a dimension made replicas."""
    sizes = tiles.shape
    apart = tiles.reshape([*sizes[:dim], sizes[dim] // factor, factor, *sizes[dim + 1 :]])
    return canonical(np.moveaxis(apart, dim + 1, -1).reshape([*sizes[:dim], sizes[dim] // factor, *sizes[dim + 1 : -1], -1]))


def replicated(tiles: Devices, dim: int) -> Devices:
    return merged(tiles, dim, tiles.shape[dim])


def nested(coarse: Devices, fine: Devices) -> Devices | None:
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
    return canonical(apart.transpose([*order, apart.ndim - 1]).reshape(fine.shape))


def _lies_within(fine: Devices, coarse: Devices, factors: Sequence[int]) -> bool:
    """Whether each device's tile in the one lies within the tile it has in the other."""
    inner, outer = (_places(tiles) for tiles in (fine, coarse))
    return bool((inner // np.asarray(factors)[:, None] == outer).all())


def _places(tiles: Devices) -> Devices:
    """Where each device's tile is: a row for each dimension, a column for each device."""
    found = np.empty((tiles.ndim - 1, tiles.size), dtype=np.int64)
    found[:, tiles.ravel()] = np.stack(np.unravel_index(np.arange(tiles.size), tiles.shape))[:-1]
    return found


def goes_into(one: int, other: int, size: int) -> bool:
    few, many = sorted((one, other))
    return many % few == 0 and (-(-size // few) * few) % many == 0


def split(tiles: Devices, dim: int, size: int) -> Devices:
    return tiles.reshape([*tiles.shape[:dim], size, tiles.shape[dim] // size, *tiles.shape[dim + 1 :]])


def shifted(partial: Devices, tiled: Devices) -> Devices | None:
    """Of a tiling whose dimensions are one further left than in `partial`: the same with its last cut dimension replicated."""
    if tiled.shape[-1] > 1 or is_whole(tiled) or partial.shape[0] != 1 or tiled.shape[:-1] != partial.shape[1:]:
        return None
    if not np.array_equal(partial.ravel(), tiled.ravel()):
        return None
    return replicated(tiled, len(tiled.shape) - 2)


def grouped(tiles: Devices, dims: Sequence[int]) -> Devices:
    """One row a part of the dimensions: its devices, in the order of the other dimensions."""
    rest = [dim for dim in range(tiles.ndim) if dim not in dims]
    return tiles.transpose([*dims, *rest]).reshape([math.prod(tiles.shape[dim] for dim in dims), -1])


def aligned(groups: Devices, reference: Devices) -> Devices:
    """The first group's order of devices in terms of the reference's, if the groups hold the same devices; else as it stands."""
    if not np.array_equal(np.sort(groups), np.sort(reference)):
        return np.arange(groups.shape[1])
    return np.argsort(reference[0])[np.searchsorted(np.sort(reference[0]), groups[0])]


def ungrouped(inner: Devices, groups: Devices, dims: Sequence[int], shape: Sequence[int]) -> Devices:
    """The tiling of all devices that is `inner` within each group."""
    rest = [dim for dim in range(len(shape)) if dim not in dims]
    whole = groups[:, inner.ravel()].reshape([*(shape[dim] for dim in dims), *(shape[dim] for dim in rest)])
    return whole.transpose(np.argsort([*dims, *rest]))
