"""Whether a sharding of one tensor is legal: decided here once, and described at length in an error or briefly in a drop zone.

Mesh-TensorFlow's rules: an axis splits at most one dimension of a tensor, and into equal parts, which JAX demands of arguments, too.
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
"""The axes of each dimension, from major to minor; `None` is left to propagation."""


class AxisSizes(Protocol):
    """How many devices lie along each axis: a `Mesh`, or a mapping."""

    def __getitem__(self, axis: str, /) -> int: ...
    def __contains__(self, axis: object, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class AxisTwice:
    """One mesh axis on two dimensions, given by index; `earlier` has it already."""

    axis: str
    earlier: int
    place: int


@dataclass(frozen=True, slots=True)
class UnevenSplit:
    """A dimension of `size` split into `parts` that are not equal."""

    place: int
    size: int
    axes: tuple[str, ...]
    parts: int

    def __str__(self) -> str:
        return f"{self.size} % {self.parts} = {self.size % self.parts}"


Fault = AxisTwice | UnevenSplit


def sharding_faults(shape: tuple[int, ...], spec: Spec, sizes: AxisSizes) -> Iterator[Fault]:
    """All faults of one tensor's sharding, dimension by dimension; axes without a size split nothing."""
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
    """A fault as an error, with the arithmetic and the ways out."""
    dim = tensor.dims[fault.place]
    if isinstance(fault, UnevenSplit):
        return _uneven_error(fault, tensor, dim, mesh)
    return LayoutError(
        f"`{tensor}` would have both `{tensor.dims[fault.earlier]}` and `{dim}` on mesh axis `{fault.axis}`; "
        "an axis shards one dimension of a tensor.",
        [f"put `{dim}` on another axis", f"override `{tensor.path}`", f"leave `{dim}` whole"],
    )


def brief_fault(fault: Fault, tensor: Tensor, dim: str) -> str:
    """A fault in the few words that a drop zone has room for, for a user who places `dim`: `2048 % 3 = 2`, `w1 has d_ff on model`."""
    if isinstance(fault, UnevenSplit):
        return str(fault)
    here = tensor.dims[fault.place]
    return f"{tensor.path.rpartition('/')[2]} has {tensor.dims[fault.earlier] if here == dim else here} on {fault.axis}"


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
