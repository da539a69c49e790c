"""Which devices a compiled collective joins, mapped back to mesh axes.

XLA writes the groups in one of five ways, all over the logical device numbers of the program (row-major in the mesh):

    replica_groups={{0,1},{2,3}}                                      listed
    replica_groups=[4,2]<=[8]                                         iota: 0..7 shaped to 4 groups of 2
    replica_groups=[2,4]<=[4,2]T(1,0)                                 iota, transposed before it is cut
    replica_groups=mesh['a'=2,'b'=4], device_ids=([8]) {'b':(2)2}     a mesh and its (sub-)axes; `:(pre)size`
    source_target_pairs={{0,2},{2,0}}                                 a permutation
"""

import re
from typing import Any

import numpy as np

from workbench.mesh import Mesh

Groups = tuple[tuple[int, ...], ...]
Ids = np.ndarray[Any, np.dtype[Any]]  # logical device numbers

_LISTED = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{.*?\}|)\}")
_IOTA = r"\[(?P<dims>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?"
_IOTA_GROUPS = re.compile(r"replica_groups=\[(?P<count>\d+),(?P<width>\d+)\]<=" + _IOTA)
_MESH_GROUPS = re.compile(r"replica_groups=@?mesh\[(?P<axes>[^\]]*)\](?:, device_ids=\((?P<ids>[^{]*)\))? \{(?P<used>[^}]*)\}")
_MESH_AXIS = re.compile(r"'(?P<name>[^']+)'=(?P<size>\d+)")
_USED_AXIS = re.compile(r"'(?P<name>[^']+)'(?::\((?P<pre>\d+)\)(?P<size>\d+))?")


def parse_groups(attributes: str, devices: int) -> Groups:
    """The groups of devices that talk; for a permutation its (source, target) pairs. One group of all where XLA lists none."""
    if found := _MESH_GROUPS.search(attributes):
        return _from_mesh(found["axes"], found["ids"], found["used"], devices)
    if found := _IOTA_GROUPS.search(attributes):
        return _rows(_iota(found).reshape(int(found["count"]), int(found["width"])))
    if (found := _LISTED.search(attributes)) and found[1]:
        listed = tuple(tuple(int(each) for each in group.split(",")) for group in re.findall(r"\{([\d,]+)\}", found[1]))
        if listed != ((0,),):  # one replica of many partitions: all of them
            return listed
    return (tuple(range(devices)),)


def _iota(found: re.Match[str]) -> Ids:
    dims = _numbers(found["dims"])
    ids = np.arange(int(np.prod(dims))).reshape(dims)
    return ids.transpose(_numbers(found["order"])) if found["order"] else ids


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def _rows(ids: Ids) -> Groups:
    return tuple(tuple(int(each) for each in row) for row in ids)


def _from_mesh(axes_text: str, ids_text: str | None, used_text: str, devices: int) -> Groups:
    """Cut every axis at its sub-axes, bring the used pieces last, and read the groups off the rows."""
    ids: Ids = np.arange(devices)
    if ids_text and (iota := re.search(_IOTA, ids_text)):
        ids = _iota(iota)
    elif ids_text:
        ids = np.array(_numbers(ids_text))
    used: dict[str, list[tuple[int, int]]] = {}
    for found in _USED_AXIS.finditer(used_text):
        used.setdefault(found["name"], []).append((int(found["pre"] or 1), int(found["size"] or 0)))
    pieces: list[int] = []
    talking: list[int] = []
    for name, size in _MESH_AXIS.findall(axes_text):
        done = 1
        for pre, width in sorted(used.get(name, [])):
            pieces += [pre // done, width or int(size)]
            talking.append(len(pieces) - 1)
            done = pre * (width or int(size))
        pieces.append(int(size) // done)
    silent = [i for i in range(len(pieces)) if i not in talking]
    return _rows(ids.reshape(pieces).transpose(silent + talking).reshape(-1, int(np.prod([pieces[i] for i in talking]))))


def axes_of(groups: Groups, mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which the members of a group differ, in mesh order; none if every group is one device.

    >>> axes_of(((0, 2, 4, 6), (1, 3, 5, 7)), Mesh("data:4 model:2"))
    ('data',)
    """
    places = np.array(np.unravel_index(np.arange(mesh.size), mesh.sizes)).T.reshape(mesh.size, len(mesh.sizes))
    varies = np.zeros(len(mesh.sizes), dtype=bool)
    for group in groups:
        members = places[list(group)]
        varies |= (members != members[0]).any(axis=0)
    return tuple(name for name, used in zip(mesh.names, varies, strict=True) if used)
