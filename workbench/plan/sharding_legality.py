"""Check that the sharding of one tensor is legal, with texts for errors and drop zones.

Mesh-TensorFlow's rules: an axis shards at most one dimension, into equal parts (required by JAX for arguments).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Protocol

from workbench.core.mesh import Mesh
from workbench.core.tensor import Tensor
from workbench.errors import LayoutError
from workbench.units import divisors

Spec = tuple[tuple[str, ...] | None, ...]
"""The axes of each dimension, major to minor; `None` is left to propagation."""


class AxisSizes(Protocol):
    """The size of each axis: a `Mesh`, or a mapping."""

    def __getitem__(self, axis: str, /) -> int: ...
    def __contains__(self, axis: object, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class AxisTwice:
    """One mesh axis on two dimensions, given by index."""

    axis: str
    earlier: int
    place: int


@dataclass(frozen=True, slots=True)
class UnevenSplit:
    """A dimension of `size` that does not divide into `parts` equal parts."""

    place: int
    size: int
    axes: tuple[str, ...]
    parts: int

    def __str__(self) -> str:
        return f"{self.size} % {self.parts} = {self.size % self.parts}"


Fault = AxisTwice | UnevenSplit


def sharding_faults(shape: tuple[int, ...], spec: Spec, sizes: AxisSizes) -> Iterator[Fault]:
    """Yield all faults of one tensor's sharding by dimension; axes without a size shard nothing."""
    owner: dict[str, int] = {}
    for place, (size, axes) in enumerate(zip(shape, spec, strict=False)):
        for axis in axes or ():
            if axis in owner:
                yield AxisTwice(axis, owner[axis], place)
            owner[axis] = place
        parts = prod(sizes[axis] for axis in axes or () if axis in sizes)
        if size % parts:
            yield UnevenSplit(place, size, axes or (), parts)


def fault_error(fault: Fault, tensor: Tensor, mesh: Mesh) -> LayoutError:
    """Return a fault as an error with arithmetic and suggestions."""
    dim = tensor.dims[fault.place]
    if isinstance(fault, UnevenSplit):
        return _uneven_error(fault, tensor, dim, mesh)
    return LayoutError(
        f"`{tensor}` would have both `{tensor.dims[fault.earlier]}` and `{dim}` on mesh axis `{fault.axis}`; "
        "an axis shards one dimension of a tensor.",
        [f"put `{dim}` on another axis", f"override `{tensor.path}`", f"leave `{dim}` whole"],
    )


def brief_fault(fault: Fault, tensor: Tensor, dim: str) -> str:
    """Describe a fault briefly for a drop zone of dimension `dim`: `2048 % 3 = 2`, `w1 has d_ff on model`."""
    if isinstance(fault, UnevenSplit):
        return str(fault)
    occupied = tensor.dims[fault.place]
    return f"{tensor.path.rpartition('/')[2]} has {tensor.dims[fault.earlier] if occupied == dim else occupied} on {fault.axis}"


def _uneven_error(fault: UnevenSplit, tensor: Tensor, dim: str, mesh: Mesh) -> LayoutError:
    size, axes, parts = fault.size, fault.axes, fault.parts
    product = f" ({' x '.join(str(mesh[axis]) for axis in axes)} = {parts})" if len(axes) > 1 else f" ({parts})"
    even = [n for n in divisors(size) if 2 <= n <= 4 * parts]
    nearest = sorted(sorted(even, key=lambda n: abs(n - parts))[:2])
    others = [name for name, width in mesh.axes if name not in axes and width > 1 and size % width == 0]
    rounded = -(-size // parts) * parts
    return LayoutError(
        f"`{tensor}`: the layout puts `{dim}` ({size}) on mesh axis `{'+'.join(axes)}`{product}, and {fault}. JAX requires equal parts.",
        [
            *([f"make the parts {' or '.join(map(str, nearest))}"] if nearest else []),
            *(f"put `{dim}` on `{name}` ({mesh[name]} divides {size})" for name in others[:1]),
            f"pad `{dim}` to {rounded}",
            f"leave `{dim}` whole",
        ],
    )
