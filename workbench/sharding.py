"""How one tensor lies on a mesh: per dimension, the mesh axes that split it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import LayoutError
from workbench.mesh import Mesh

_SUB_AXIS = re.compile(r"(?P<axis>.+):\((?P<pre>\d+)\)(?P<size>\d+)")


def base_axis(axis: str) -> str:
    """The mesh axis of an axis or of a Shardy sub-axis (Y6): `x:(2)4`, the part of size 4 after a pre-size of 2, is of `x`."""
    found = _SUB_AXIS.fullmatch(axis)
    return found["axis"] if found else axis


def axis_size(axis: str, mesh: Mesh) -> int:
    """The size of a mesh axis or sub-axis.

    >>> axis_size("x", Mesh("x:8")), axis_size("x:(2)4", Mesh("x:8"))
    (8, 4)
    """
    found = _SUB_AXIS.fullmatch(axis)
    return int(found["size"]) if found else mesh[axis]


@dataclass(frozen=True, slots=True)
class Sharding:
    """Mesh axes per dimension, major to minor; an empty tuple is a dimension kept whole, `None` one left to propagation.

    Prints as `[data, -, model+pipe, ?]`: split on `data`, whole, split on `model` then `pipe`, open.

    >>> Sharding.parse("[data, -]").local_shape((8, 6), Mesh("data:4 model:2"))
    (2, 6)

    **Invariants**

    - An axis splits at most one dimension (Mesh-TensorFlow M5, Shardy Y9).
    """

    dims: tuple[tuple[str, ...] | None, ...]

    def __post_init__(self) -> None:
        used = self.axes
        for axis in used:
            if used.count(axis) > 1:
                raise LayoutError(f"{self} uses mesh axis `{axis}` twice.", ["an axis splits one dimension of a tensor"])

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes in use, in the order of the dimensions."""
        return tuple(axis for dim in self.dims for axis in dim or ())

    def parts(self, mesh: Mesh) -> tuple[int, ...]:
        """Into how many parts each dimension is cut."""
        return tuple(math.prod(axis_size(axis, mesh) for axis in dim or ()) for dim in self.dims)

    def local_shape(self, shape: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """The shape one device holds: `ceil(size / parts)`, so that uneven dimensions are padded (GSPMD section 3.4)."""
        return tuple(-(-size // parts) for size, parts in zip(shape, self.parts(mesh), strict=True))

    def replicas(self, mesh: Mesh) -> int:
        """How many devices hold the same part."""
        return mesh.size // math.prod(self.parts(mesh))

    def __str__(self) -> str:
        return "[" + ", ".join("?" if dim is None else "+".join(dim) or "-" for dim in self.dims) + "]"

    @classmethod
    def parse(cls, text: str) -> "Sharding":
        """The inverse of `str`."""
        body = text.strip()
        if not (body.startswith("[") and body.endswith("]")):
            raise LayoutError(f"`{text[:80]}` is not a sharding.", ['write "[data, -, model]", one entry a dimension'])
        words = [word.strip() for word in body[1:-1].split(",")] if body[1:-1].strip() else []
        if "" in (part for word in words for part in word.split("+")):
            raise LayoutError(f"`{text[:80]}` has an empty entry.", ["write `-` for a dimension kept whole"])
        return cls(tuple(None if word == "?" else () if word == "-" else tuple(word.split("+")) for word in words))

    @classmethod
    def whole(cls, rank: int) -> "Sharding":
        """Replicated on every device."""
        return cls(((),) * rank)
