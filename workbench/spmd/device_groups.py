"""Device groups of a collective, mapped back to mesh axes.

XLA writes the groups in one of four forms, all over the program's logical device numbers (row-major in the mesh):

- listed, `{{0,1},{2,3}}`; for a permutation pairs of source and target;
- iota, `[4,2]<=[8]`: 0..7 reshaped to 4 groups of 2, optionally transposed first;
- a mesh with axes or sub-axes (XLA of 2026 and later);
- omitted, for all devices.
"""

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from workbench.core.mesh import Mesh
from workbench.core.sharding import SubAxis
from workbench.spmd import hlo_pb2

Groups = tuple[tuple[int, ...], ...]
Ids = np.ndarray[Any, np.dtype[Any]]  # logical device numbers


def read_groups(instruction: hlo_pb2.Instruction, devices: int) -> Groups:
    """Return the device groups, one of all devices if none are listed; for a permutation (source, target) pairs."""
    if instruction.source_target_pairs:
        return tuple((pair.source, pair.target) for pair in instruction.source_target_pairs)
    listed = instruction.collective_device_list
    for lists in (instruction, listed):  # libtpu of 2025 nests them in the device list
        iota = lists.iota_collective_device_list if lists is instruction else listed.iota_replica_group_list
        if iota.num_replica_groups:
            return _from_iota(iota)
        if lists.mesh_axes_replica_group_list.axes:
            return _from_mesh(lists.mesh_axes_replica_group_list, devices)
    groups = tuple(tuple(group.replica_ids) for group in (listed.replica_groups or instruction.replica_groups))
    if groups in ((), ((0,),), ((),)):  # one replica of many partitions: all devices
        return (tuple(range(devices)),)
    return groups


def _from_iota(iota: hlo_pb2.IotaReplicaGroupList) -> Groups:
    ids = _iota(tuple(iota.iota_reshape_dims), tuple(iota.iota_transpose_perm))
    return _group_rows(ids.reshape(iota.num_replica_groups, iota.num_devices_per_group))


def _iota(dims: tuple[int, ...], order: tuple[int, ...]) -> Ids:
    ids: Ids = np.arange(prod(dims)).reshape(dims)
    return ids.transpose(order) if order else ids


def _group_rows(ids: Ids) -> Groups:
    return tuple(map(tuple, ids.tolist()))


def _from_mesh(groups: hlo_pb2.MeshAxesReplicaGroupList, devices: int) -> Groups:
    """Split every axis at its sub-axes, transpose the used parts to the end, and read the groups from the rows."""
    mesh = groups.mesh
    ids: Ids = np.arange(devices)
    if mesh.iota_transform.reshape_dims:
        ids = _iota(tuple(mesh.iota_transform.reshape_dims), tuple(mesh.iota_transform.transpose_perm))
    elif mesh.device_ids:
        ids = np.array(mesh.device_ids)
    used: dict[int, list[tuple[int, int]]] = {}
    for axis in groups.axes:
        used.setdefault(axis.mesh_axis_index, []).append((axis.sub_axis_info.pre_size or 1, axis.sub_axis_info.size))
    pieces: list[int] = []
    group_dims: list[int] = []
    for index, axis in enumerate(mesh.axes):
        done = 1
        for before, width in sorted(used.get(index, [])):
            pieces += [before // done, width or axis.size]
            group_dims.append(len(pieces) - 1)
            done = before * (width or axis.size)
        pieces.append(axis.size // done)
    other_dims = [i for i in range(len(pieces)) if i not in group_dims]
    return _group_rows(ids.reshape(pieces).transpose(other_dims + group_dims).reshape(-1, prod(pieces[i] for i in group_dims)))


@lru_cache(maxsize=4096)
def axes_of(groups: Groups, mesh: Mesh) -> tuple[str, ...]:
    """Mesh axes along which the members of a group differ, in mesh order; empty if every group is a single device.

    >>> axes_of(((0, 2, 4, 6), (1, 3, 5, 7)), Mesh("data:4 model:2"))
    ('data',)
    """
    varies = np.zeros(len(mesh.sizes), dtype=bool)
    coordinates = _device_coordinates(mesh)
    for width in {len(group) for group in groups}:
        members = coordinates[np.array([group for group in groups if len(group) == width])]
        varies |= (members != members[:, :1]).any(axis=(0, 1))
    return tuple(name for name, used in zip(mesh.names, varies, strict=True) if used)


@lru_cache(maxsize=4096)
def sub_axes_of(groups: Groups, mesh: Mesh) -> tuple[str, ...]:
    """Mesh axes along which the members of a group differ, as sub-axes if only part of an axis communicates.

    `y:(2)4` gives the sizes before the sub-axis and of it. The connected pairs of a permutation form one group.

    >>> sub_axes_of(((0, 1), (2, 3)), Mesh("data:4"))
    ('data:(2)2',)
    >>> sub_axes_of(((0, 1), (1, 2), (2, 3), (3, 0)), Mesh("data:4"))
    ('data',)
    """
    coordinates = _device_coordinates(mesh)[np.array(max(_connected_groups(groups), key=len))]
    result = []
    for name in axes_of(groups, mesh):
        number, size = mesh.names.index(name), mesh[name]
        reached = np.unique(coordinates[:, number])
        step = int(np.diff(reached).min()) if len(reached) > 1 else 1
        is_part = 1 < len(reached) < size and size % (step * len(reached)) == 0
        result.append(str(SubAxis(name, size // (step * len(reached)), len(reached))) if is_part else name)
    return tuple(result)


def _connected_groups(groups: Groups) -> Groups:
    component_of: dict[int, list[int]] = {}
    for group in groups:
        components = {id(component): component for component in (component_of.setdefault(device, [device]) for device in group)}
        largest, *others = sorted(components.values(), key=len, reverse=True)
        for other in others:
            largest += other
            component_of |= dict.fromkeys(other, largest)
    return tuple({id(component): tuple(component) for component in component_of.values()}.values())


@lru_cache(maxsize=64)
def _device_coordinates(mesh: Mesh) -> Ids:
    """Coordinates of each device: int64[devices, axes]."""
    return np.array(np.unravel_index(np.arange(mesh.size), mesh.sizes)).T.reshape(mesh.size, len(mesh.sizes))
