"""Groups of devices as XLA's partitioner forms them: those that hold the same part along some dimensions, and how a value lies within each.

To take a product apart XLA goes one kind of dimension after the other: it groups devices by what they hold along it, and looks at the rest
within each group, where a device is a number of its group (`GroupedSharding` of `hlo_sharding_util.cc`; `AlignGroupsWith` of
`spmd_partitioner_util.cc`). Tiles are as in `xla_tiles`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workbench.partition.xla_tiles import Devices, canonical, is_whole, merged


class Groups(NamedTuple):
    """`members`: a row a group; `dims` that they are formed along, the replicas' being the last, each into so many (`sizes`); `inner`: how
    the value lies within each group."""

    members: Devices
    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    inner: Devices

    def shape(self, whole: Sequence[int]) -> tuple[int, ...]:
        """The part of a value that one group has."""
        sizes = dict(zip(self.dims, self.sizes, strict=True))
        return tuple(-(-size // sizes.get(dim, 1)) for dim, size in enumerate(whole))


def grouped_along(tiles: Devices, dims: Sequence[int], left: Sequence[int] = ()) -> Groups:
    """Groups of those that hold the same part along `dims`, the parts of each but for the minor `left` of them."""
    minor = dict(zip(dims, left or [1] * len(dims), strict=True))
    cut: list[int] = []
    major: dict[int, int] = {}
    for dim, size in enumerate(tiles.shape):
        if dim in minor:
            major[dim] = len(cut)
            cut += [size // minor[dim], minor[dim]]
        else:
            cut.append(size)
    front = [major[dim] for dim in dims]
    rest = [place for place in range(len(cut)) if place not in front]
    sizes = tuple(cut[place] for place in front)
    members = tiles.reshape(cut).transpose([*front, *rest]).reshape([math.prod(sizes), -1])
    inner = np.arange(members.shape[1]).reshape([cut[place] for place in rest])
    return Groups(members, tuple(dims), sizes, canonical(inner))


def ungrouped_from(groups: Groups) -> Devices:
    """How the value lies among all devices."""
    inner, sizes = groups.inner, dict(zip(groups.dims, groups.sizes, strict=True))
    whole = groups.members[:, inner.ravel()].reshape([*groups.sizes, *inner.shape])
    order: list[int] = []
    shape = []
    for dim, size in enumerate(inner.shape):
        if dim in sizes:
            order.append(groups.dims.index(dim))
        order.append(len(sizes) + dim)
        shape.append(size * sizes.get(dim, 1))
    return canonical(whole.transpose(order).reshape(shape))


def aligned_with(groups: Groups, reference: Groups, *, in_order: bool = True) -> Groups:
    """The same within the reference's groups, in terms of their numbers where the groups hold the same devices."""
    if groups.members.shape != reference.members.shape:
        raise ValueError("groups of another kind")
    found = _places_in(groups.members, reference.members)
    is_same = bool((found == found[:, :1]).all()) and (not in_order or bool((found[:, 0] == np.arange(len(found))).all()))
    if not is_same or is_whole(groups.inner):
        return groups._replace(members=reference.members)
    numbers = np.empty(groups.members.size, dtype=np.int64)
    row = reference.members[found[0, 0]]
    numbers[row] = np.arange(len(row))
    return groups._replace(members=reference.members, inner=canonical(numbers[groups.members[0]][groups.inner]))


def are_same_groups(one: Groups, other: Groups) -> bool:
    """Whether they hold the same devices, group by group."""
    if len(one.members) != len(other.members):
        return False
    found = _places_in(other.members, one.members)
    return bool((found == np.arange(len(found))[:, None]).all())


def _places_in(members: Devices, reference: Devices) -> Devices:
    """The group of the reference that each member is in."""
    group_of = np.empty(reference.size, dtype=np.int64)
    group_of[reference] = np.arange(len(reference))[:, None]
    return group_of[members]


def matching_dims(tiles: Devices, members: Devices) -> list[int] | None:
    """Dimensions, the replicas' too, along which these groups hold the same part each; `None` if there are none such."""
    if is_whole(tiles) or len(members) < 2 or tiles.size != members.size:
        return None
    if members.shape[1] == 1:
        return [dim for dim, size in enumerate(tiles.shape) if size > 1]
    places = np.empty((tiles.ndim, tiles.size), dtype=np.int64)
    places[:, tiles.ravel()] = np.stack(np.unravel_index(np.arange(tiles.size), tiles.shape))
    of_groups = places[:, members]
    rank = tiles.ndim - 1
    dims = [dim for dim in range(tiles.ndim) if of_groups[dim, 0, 0] == of_groups[dim, 0, 1] and (dim < rank or tiles.shape[rank] > 1)]
    if math.prod(tiles.shape[dim] for dim in dims) != len(members):
        return None
    return dims if all((of_groups[dim] == of_groups[dim][:, :1]).all() for dim in dims) else None


def replicas_grouped_as(tiles: Devices, left: int, members: Devices) -> Groups | None:
    """Replicas divided among these groups, of which each gets `left` of every tile and lies alike; `None` if that cannot be."""
    if is_whole(tiles) or tiles.shape[-1] % len(members):
        return None
    places = np.empty(tiles.size, dtype=np.int64)
    places[tiles.ravel()] = np.arange(tiles.size) // tiles.shape[-1]
    shape = (*tiles.shape[:-1], tiles.shape[-1] // len(members))
    found: Devices | None = None
    for row in places[members]:
        if (np.bincount(row, minlength=tiles.size // tiles.shape[-1]) != left).any():
            return None
        inner = np.argsort(row, kind="stable").reshape(shape)
        if found is not None and not np.array_equal(found, inner):
            return None
        found = inner
    if found is None:
        return None
    return Groups(members, (tiles.ndim - 1,), (tiles.shape[-1] // left,), found)


def transposed(tiles: Devices, to: Sequence[int], back: Sequence[int]) -> Devices | None:
    """As it lies for a value with other dimensions, `to[i]` being dimension i there, -1 if it has none; `None` if such a one is cut."""
    if is_whole(tiles):
        return tiles.reshape([1] * len(back) + [-1])
    if any(place < 0 and tiles.shape[dim] > 1 for dim, place in enumerate(to)):
        return None
    kept = [dim for dim in back if dim >= 0]
    gone = [dim for dim, place in enumerate(to) if place < 0]
    turned = tiles.transpose([*kept, *gone, tiles.ndim - 1])
    return turned.reshape([*(tiles.shape[dim] if dim >= 0 else 1 for dim in back), tiles.shape[-1]])


def made_whole(tiles: Devices, dims: Sequence[int]) -> Devices:
    """Some dimensions replicated."""
    for dim in dims:
        tiles = merged(tiles, dim, tiles.shape[dim])
    return tiles


def combined(one: Devices, other: Devices) -> Devices | None:
    """Cut along the dimensions of both, which are cut alike where both cut one; `None` if the same devices would hold too many parts."""
    shape = tuple(map(max, one.shape[:-1], other.shape[:-1]))
    places = np.zeros(one.size, dtype=np.int64)
    for dim, size in enumerate(shape):
        mine = [_places(tiles)[dim] for tiles in (one, other) if tiles.shape[dim] > 1]
        if any(not np.array_equal(each, mine[0]) for each in mine) or any(tiles.shape[dim] not in (1, size) for tiles in (one, other)):
            return None
        places = places * size + (mine[0] if mine else 0)
    counts = np.bincount(places, minlength=math.prod(shape))
    return np.argsort(places, kind="stable").reshape([*shape, -1]) if (counts == counts[0]).all() else None


def _places(tiles: Devices) -> Devices:
    """Where each device's part is: a row for each dimension, a column for each device."""
    places = np.empty((tiles.ndim - 1, tiles.size), dtype=np.int64)
    places[:, tiles.ravel()] = np.stack(np.unravel_index(np.arange(tiles.size), tiles.shape))[:-1]
    return places


def lies_within(shape: Sequence[int], fine: Devices, coarse: Devices) -> bool:
    """Whether each device's part in the one lies within its part in the other."""
    if is_whole(coarse):
        return True
    if is_whole(fine):
        return False
    (starts, ends), (firsts, lasts) = (_extents(shape, tiles) for tiles in (fine, coarse))
    return bool(((starts >= firsts) & (ends <= lasts)).all())


def _extents(shape: Sequence[int], tiles: Devices) -> tuple[Devices, Devices]:
    """First element, and the one behind the last, of each device's part: a row for each dimension."""
    places, sizes = _places(tiles), np.asarray(shape)[:, None]
    parts = -(-sizes // np.asarray(tiles.shape[:-1])[:, None])
    return np.minimum(places * parts, sizes), np.minimum((places + 1) * parts, sizes)
