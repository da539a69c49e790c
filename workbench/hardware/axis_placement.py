"""Placement of mesh axes on the links of the hardware, by an axis assignment or by default.

If two mesh axes share a physical axis, the later one gets adjacent devices. Consecutive devices of the earlier one are
as far apart as the size of the later one: their hops are longer, they share links with each other, and they form a ring
only if both axes together span a whole ring.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from workbench.core.mesh import Mesh
from workbench.errors import HardwareError, unknown_name
from workbench.hardware.axis_assignment_text import AxisAssignment, Route
from workbench.hardware.hardware import AxisTopology, Hardware, PhysicalAxis
from workbench.units import divisors


@dataclass(frozen=True, slots=True)
class PhysicalSpan:
    """The part of a mesh axis on one physical axis: `size` devices, `stride` devices apart."""

    physical: PhysicalAxis
    size: int
    stride: int


PhysicalSpans = Mapping[str, tuple[PhysicalSpan, ...]]


@functools.lru_cache(maxsize=256)
def complete_axis_assignment(mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None) -> AxisAssignment:
    """Assign every axis of a mesh, including those the assignment omits, so that the placement also holds in a smaller
    mesh.

    Raises `HardwareError` if the mesh does not fit.
    """
    partial = axis_assignment or AxisAssignment()
    placements = _place_axes(mesh, hardware, partial)
    return AxisAssignment(tuple((name, _shorten_routes(placements[name])) for name in _order_axes(mesh, partial) if mesh[name] > 1))


def default_axis_assignment(mesh: Mesh, hardware: Hardware) -> AxisAssignment:
    """Return the placement without an axis assignment, as in `jax.experimental.mesh_utils`.

    The minor axis chooses first. Links inside a node or a slice come before those across; whole dimensions of a torus
    before parts, more of them before fewer; free links before shared ones. Raises `HardwareError` if the mesh does not
    fit.
    """
    return complete_axis_assignment(mesh, hardware)


def _order_axes(mesh: Mesh, axis_assignment: AxisAssignment) -> list[str]:
    """Mesh axes in the order in which they share physical axes: assigned axes last, as assigned."""
    named = [name for name, _ in axis_assignment.routes]
    return [*(name for name in mesh.names if name not in named), *named]


@functools.lru_cache(maxsize=256)
def physical_spans(mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None) -> PhysicalSpans:
    """The physical spans of each mesh axis, major to minor. Raises `HardwareError` if the mesh does not fit."""
    axis_assignment = axis_assignment or AxisAssignment()
    placements = _place_axes(mesh, hardware, axis_assignment)
    order = _order_axes(mesh, axis_assignment)
    strides = dict.fromkeys((axis.name for axis in hardware.axes), 1)
    spans: dict[str, tuple[PhysicalSpan, ...]] = {}
    for name in reversed(order):
        spans[name] = tuple(PhysicalSpan(physical, size, strides[physical.name]) for physical, size in placements[name])
        for physical, size in placements[name]:
            strides[physical.name] *= size
    return {name: spans[name] for name in mesh.names}


def verify_links(hardware: Hardware, axis_assignment: AxisAssignment) -> None:
    """Raise `HardwareError` for an unknown physical axis; `axis_assignment_error` checks the fit of a mesh."""
    for _, routes in axis_assignment.routes:
        for route in routes:
            _find_physical_axis(route.axis, hardware)


def axis_assignment_error(mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None) -> HardwareError | None:
    """Return the error of an impossible assignment of the mesh, or `None`."""
    try:
        physical_spans(mesh, hardware, axis_assignment)
    except HardwareError as error:
        return error
    return None


def device_order(
    mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment | None = None
) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    """Number of the physical device at each position of the mesh; shape `mesh.sizes`.

    Physical devices are numbered row-major over `hardware.axes`: for a TPU slice the order of JAX's `(x, y, z, core)`
    array of devices, for nodes the order of `jax.devices()`. So `Mesh(devices.reshape(-1)[device_order(...)],
    mesh.names)` is the mesh with this axis assignment.

    >>> from workbench.hardware.catalogue import parse_hardware
    >>> from workbench.hardware.axis_assignment_text import parse_axis_assignment
    >>> device_order(Mesh("data:2 model:2"), parse_hardware("TPU v5e 2x2"), parse_axis_assignment("data:y; model:x")).tolist()
    [[0, 2], [1, 3]]
    """
    places = {axis.name: np.zeros((1,) * len(mesh.axes), dtype=np.int64) for axis in hardware.axes}
    for number, (name, routes) in enumerate(physical_spans(mesh, hardware, axis_assignment).items()):
        shape = [1] * len(mesh.axes)
        shape[number] = mesh[name]
        index = np.arange(mesh[name]).reshape(shape)
        for physical_span in reversed(routes):
            index, part = np.divmod(index, physical_span.size)
            places[physical_span.physical.name] = places[physical_span.physical.name] + part * physical_span.stride
    sizes = tuple(axis.size for axis in hardware.axes)
    numbers = np.ravel_multi_index(tuple(np.broadcast_arrays(*places.values())), sizes)
    return np.broadcast_to(numbers, mesh.sizes).astype(np.int64)


_Placements = Mapping[str, tuple[tuple[PhysicalAxis, int], ...]]
"""The physical axes of each mesh axis, major to minor, with the size on each."""


def _place_axes(mesh: Mesh, hardware: Hardware, axis_assignment: AxisAssignment) -> _Placements:
    if mesh.size > hardware.size:
        raise _too_large_error(mesh, hardware)
    placements = {name: _place_on_routes(name, mesh, hardware, routes) for name, routes in axis_assignment.routes}
    used = _count_used(placements, hardware)
    others = [(name, size) for name, size in reversed(mesh.axes) if name not in placements]
    free = _find_splits(tuple(size for _, size in others), tuple(used[axis.name] for axis in hardware.axes), hardware, set())
    if free is None:
        shares = "" if not placements else f" beside {axis_assignment}"
        raise HardwareError(
            f"The mesh {mesh} has {mesh.size} devices of the {hardware.size} of {hardware}, but its axes do not factor into the sizes of "
            f"{_sizes_text(hardware)}{shares}.",
            ["use mesh axes that are products of those sizes", "choose other hardware"],
        )
    for (name, _), split in zip(others, free, strict=True):
        placements[name] = tuple((axis, size) for axis, size in zip(hardware.axes, split, strict=True) if size > 1)
    return placements


def _place_on_routes(name: str, mesh: Mesh, hardware: Hardware, routes: tuple[Route, ...]) -> tuple[tuple[PhysicalAxis, int], ...]:
    """Place a mesh axis on its routes; open sizes are inferred from the minor route to the major one."""
    if name not in mesh:
        raise HardwareError(*unknown_name("mesh axis", name, mesh.names))
    axes = [_find_physical_axis(route.axis, hardware) for route in routes]
    if len({axis.name for axis in axes}) < len(axes):
        raise HardwareError(f"The axis assignment puts `{name}` on one physical axis twice.", ["write one size for both"])
    total = mesh[name]
    rest, remainder = divmod(total, math.prod(route.size or 1 for route in routes))
    sizes = [route.size for route in routes]
    for number in reversed(range(len(routes))):
        if sizes[number] is None:
            others_open = any(size is None for size in sizes[:number])
            sizes[number] = math.gcd(rest, axes[number].size) if others_open else rest
            rest //= sizes[number] or 1
    if remainder or rest != 1:
        product = " x ".join(f"{size}" for size in sizes)
        assigned = math.prod(size or 1 for size in sizes)
        raise HardwareError(
            f"`{name}` is {total}; the axis assignment puts {product} = {assigned} of it on {_routes_text(routes)}.",
            [f"make `{name}` {assigned}", "leave a size open"],
        )
    return tuple((axis, size) for axis, size in zip(axes, sizes, strict=True) if size and size > 1)  # routes of size 1 have no links


def _count_used(placements: _Placements, hardware: Hardware) -> dict[str, int]:
    used = dict.fromkeys((axis.name for axis in hardware.axes), 1)
    for axis in hardware.axes:
        takers = [(name, size) for name, routes in placements.items() for physical, size in routes if physical.name == axis.name]
        used[axis.name] = math.prod(size for _, size in takers)
        if used[axis.name] > axis.size:
            demands = " x ".join(f"`{name}` {size}" for name, size in takers)
            product = f" = {used[axis.name]}" if len(takers) > 1 else ""
            other = next((free.name for free in hardware.axes if free.name != axis.name and free.size > 1), "")
            spread = [f"spread it, `{takers[0][0]}:{other}+{axis.name}`"] if other else []
            raise HardwareError(
                f"{demands}{product} devices are assigned to `{axis.name}`; `{axis.name}` of {hardware} has {axis.size}.",
                [*spread, f"make `{takers[0][0]}` smaller"],
            )
    return used


def _find_splits(
    sizes: tuple[int, ...], used: tuple[int, ...], hardware: Hardware, dead_ends: set[tuple[int, tuple[int, ...]]]
) -> tuple[tuple[int, ...], ...] | None:
    """Split each size over the physical axes: the most preferred split that leaves room for the rest. Whether the rest
    fits depends only on the remaining sizes and the used devices, so failed states are not tried again. The number
    of states per axis is at most the number of divisors of its size.
    """
    if not sizes:
        return ()
    room = math.prod(axis.size // count for axis, count in zip(hardware.axes, used, strict=True))
    if math.prod(sizes) > room or (len(sizes), used) in dead_ends:
        return None
    free = tuple(axis.size // count for axis, count in zip(hardware.axes, used, strict=True))
    for split in _rank_splits(sizes[0], free, used, hardware.axes):
        used_then = tuple(part * count_used for part, count_used in zip(split, used, strict=True))
        if (rest := _find_splits(sizes[1:], used_then, hardware, dead_ends)) is not None:
            return (split, *rest)
    dead_ends.add((len(sizes), used))
    return None


@functools.lru_cache(maxsize=1 << 12)
def _rank_splits(size: int, free: tuple[int, ...], used: tuple[int, ...], axes: tuple[PhysicalAxis, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(_iterate_splits(size, free), key=lambda split: _preference_key(split, used, axes)))


def _iterate_splits(size: int, free: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not free:
        if size == 1:
            yield ()
        return
    for part in divisors(size):
        if part <= free[0] and size // part <= math.prod(free[1:]):
            yield from ((part, *rest) for rest in _iterate_splits(size // part, free[1:]))


def _preference_key(split: tuple[int, ...], used: tuple[int, ...], axes: tuple[PhysicalAxis, ...]) -> tuple[object, ...]:
    """Sort key, best first: `mesh_utils._prefer_first_logical_axis_assignment`, extended by nodes and slices."""
    whole = [part for part, axis in zip(split, axes, strict=True) if part == axis.size > 1]
    shared = [part for part, before in zip(split, used, strict=True) if before > 1]
    rates = [axis.link.bandwidth for part, axis in zip(split, axes, strict=True) if part > 1]
    inside = [-math.prod(split[number] for number in level) for level in _group_levels(axes)]
    return (*inside, -math.prod(whole), -len(whole), math.prod(shared), len(rates), -min(rates, default=0.0), [-part for part in split])


@functools.lru_cache(maxsize=64)
def _group_levels(axes: tuple[PhysicalAxis, ...]) -> tuple[tuple[int, ...], ...]:
    """Indices of the physical axes by level, innermost first: a torus is one level, each switched axis another."""
    levels: list[list[int]] = []
    for number in reversed(range(len(axes))):
        together = levels and axes[number].shape is not AxisTopology.SWITCH and axes[levels[-1][-1]].shape is not AxisTopology.SWITCH
        if together:
            levels[-1].append(number)
        else:
            levels.append([number])
    return tuple(map(tuple, levels))


def _shorten_routes(placements: tuple[tuple[PhysicalAxis, int], ...]) -> tuple[Route, ...]:
    """Routes without inferable sizes: the first one's, and those of whole axes."""
    return tuple(Route(axis.name, None if number == 0 or size == axis.size else size) for number, (axis, size) in enumerate(placements))


def _find_physical_axis(name: str, hardware: Hardware) -> PhysicalAxis:
    for axis in hardware.axes:
        if axis.name == name:
            return axis
    raise HardwareError(*unknown_name("physical axis", name, (axis.name for axis in hardware.axes), f" of {hardware}"))


def _too_large_error(mesh: Mesh, hardware: Hardware) -> HardwareError:
    product = " x ".join(f"`{name}` {size}" for name, size in mesh.axes)
    total = f" = {mesh.size:,}" if len(mesh.axes) > 1 else ""
    name, size = max(mesh.axes, key=lambda axis: axis[1])
    fits = max((divisor for divisor in divisors(size)[:-1] if mesh.size // size * divisor <= hardware.size), default=0)
    return HardwareError(
        f"The mesh needs {product}{total} devices; {hardware} has {hardware.size:,}.",
        [*([f"make `{name}` {fits}"] if fits else []), "choose larger hardware"],
    )


def _sizes_text(hardware: Hardware) -> str:
    return ", ".join(f"`{axis.name}` {axis.size}" for axis in hardware.axes)


def _routes_text(routes: tuple[Route, ...]) -> str:
    return "+".join(map(str, routes))
