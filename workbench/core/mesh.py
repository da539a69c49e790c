"""Define the device mesh: named axes with sizes, without physical topology (as in Mesh-TensorFlow)."""

import math
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from workbench.errors import MeshError, unknown_name, wrong_type

MAX_DEVICES = 1 << 20
MAX_AXES = 16
"""Limits the axis orders and axis assignments to try; 2**16 devices can still be sixteen axes of two."""
_PAIR = 2  # a name and a size
_USUAL_AXES = ("data", "model", "pipe")  # default axis names for a mesh of sizes only
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")


@dataclass(frozen=True, slots=True, init=False)
class Mesh:
    """Named mesh axes with sizes, major to minor.

    >>> mesh = Mesh("data:4 model:2")
    >>> mesh.size, mesh["model"], str(mesh)
    (8, 2, 'data:4 model:2')
    >>> mesh == Mesh({"data": 4, "model": 2})
    True

    **Invariants**

    - Names are unique identifiers (letters, digits, `_`, `.`; at most 64 characters).
    - At most 16 axes; sizes are integers from 1, with a product of at most 2**20 devices.
    """

    axes: tuple[tuple[str, int], ...]

    def __init__(self, axes: str | Mapping[str, int] | Iterable[tuple[str, int]]) -> None:
        pairs = _parse(axes) if isinstance(axes, str) else tuple((name, _as_integer(size)) for name, size in _read_pairs(axes))
        _verify(pairs)
        object.__setattr__(self, "axes", pairs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for _, size in self.axes)

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(self.sizes)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> int:
        for axis, size in self.axes:
            if axis == name:
                return size
        raise MeshError(*unknown_name("mesh axis", name, self.names))

    def coordinates(self, device: int) -> dict[str, int]:
        """Return the index of a device on each axis; devices are numbered row-major.

        >>> Mesh("data:4 model:2").coordinates(5)
        {'data': 2, 'model': 1}
        """
        indices: dict[str, int] = {}
        for name, size in reversed(self.axes):
            device, indices[name] = divmod(device, size)
        return {name: indices[name] for name in self.names}

    @property
    def description(self) -> str:
        """The mesh as a phrase for a sentence; "one device" if it has no axes.

        >>> Mesh("data:4").description, Mesh("").description
        ('data:4', 'one device')
        """
        return str(self) or "one device"

    def __str__(self) -> str:
        return " ".join(f"{name}:{size}" for name, size in self.axes)

    def __repr__(self) -> str:
        return f'Mesh("{self}")'


def _read_pairs(axes: Any) -> tuple[tuple[str, Any], ...]:
    if isinstance(axes, Mapping):
        return tuple(axes.items())
    pairs = tuple(axes) if isinstance(axes, Iterable) else None
    if pairs is None or not all(isinstance(pair, tuple | list) and len(pair) == _PAIR for pair in pairs):
        raise MeshError(wrong_type("mesh", axes, 'axes with names and sizes, such as "data:4 model:2"'), [_suggest_mesh(axes)])
    return pairs


def _suggest_mesh(axes: Any) -> str:
    sizes = [axes] if isinstance(axes, Integral) else axes
    if isinstance(shape := getattr(axes, "shape", None), Mapping):  # a mesh of JAX
        return f'write "{" ".join(f"{name}:{size}" for name, size in shape.items())}"'
    if not isinstance(sizes, list | tuple) or not 0 < len(sizes) <= len(_USUAL_AXES):
        return 'write axes as "data:4 model:2"'
    if all(isinstance(word, str) for word in sizes):
        return f'write "{" ".join(sizes)}"'
    if all(isinstance(word, Integral) and not isinstance(word, bool) for word in sizes):
        return f'name the axes, "{" ".join(f"{name}:{size}" for name, size in zip(_USUAL_AXES, sizes, strict=False))}"'
    return 'write axes as "data:4 model:2"'


def _as_integer(size: Any) -> Any:
    return operator.index(size) if hasattr(size, "__index__") and not isinstance(size, bool) else size


def _parse(text: str) -> tuple[tuple[str, int], ...]:
    """Parse `"data:4 model:2"`; `,` and `;` also separate axes, as in Mesh-TensorFlow's `mesh_shape`."""
    pairs = []
    for word in re.split(r"[\s,;]+", text.strip()):
        name, colon, size = word.partition(":")
        if not word:
            continue
        if not colon or not re.fullmatch(r"-?\d+", size):
            raise MeshError(f"`{word[:80]}` is not a mesh axis.", ['write axes as "data:4 model:2"'])
        pairs.append((name, int(size.lstrip("0")[:20] or 0)))  # longer numbers are too large too, and `int` refuses thousands of digits
    return tuple(pairs)


def _verify(axes: tuple[tuple[str, int], ...]) -> None:
    if len(axes) > MAX_AXES:
        raise MeshError(f"The mesh has {len(axes):,} axes; it may have {MAX_AXES}.", ["merge adjacent axes"])
    names = [name for name, _ in axes]
    for name, size in axes:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise MeshError(f"`{str(name)[:80]}` is not a valid name of a mesh axis.", ["use at most 64 letters, digits and `_`"])
        if names.count(name) > 1:
            raise MeshError(f"The mesh has two axes named `{name}`.", ["give each axis its own name"])
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise MeshError(f"Mesh axis `{name}` has size {size}; a size is a whole number from 1.", ["remove the axis"])
        if size > MAX_DEVICES:
            description = f"{size:,}" if size < 10**18 else "more than 10**18"
            raise MeshError(
                f"Mesh axis `{name}` has size {description}; a mesh has at most {MAX_DEVICES:,} devices.", ["make the axis smaller"]
            )
    if (devices := math.prod(size for _, size in axes)) > MAX_DEVICES:
        raise MeshError(
            f"{' x '.join(str(size) for _, size in axes)} = {devices:,} devices; a mesh has at most {MAX_DEVICES:,}.",
            ["make an axis smaller"],
        )
