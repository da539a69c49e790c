"""Define a named tensor: an argument, result or intermediate value of a program, independent of layout."""

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from workbench.errors import DimensionError

_DIM_NAME = re.compile(r"[^\s:;,=@\[\]]{1,80}")  # names that a layout's text form can contain
_BITS = {"bool": 8, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4_e2m1fn": 4}


class Role(StrEnum):
    """A tensor's role in the step; memory is reported by role."""

    PARAMETER = "parameter"
    OPTIMIZER_STATE = "optimizer state"
    GRADIENT = "gradient"
    ACTIVATION = "activation"
    INPUT = "input"
    OUTPUT = "output"
    MODEL_STATE = "model state"
    """Other carried state: running statistics, random keys, counters, environments."""


def itemsize(dtype: str) -> float:
    """Return the bytes per element; half a byte for four-bit types.

    >>> itemsize("bfloat16"), itemsize("float8_e4m3fn"), itemsize("int4"), itemsize("complex64"), itemsize("key<fry>")
    (2.0, 1.0, 0.5, 8.0, 8.0)
    """
    if dtype in _BITS:
        return _BITS[dtype] / 8
    if dtype.startswith("key<"):  # JAX's typed random keys; a threefry key holds two uint32
        return 16.0 if "rbg" in dtype else 8.0
    digits = "".join(c for c in dtype.split("_", maxsplit=1)[0] if c.isdigit())
    return int(digits) / 8


@dataclass(frozen=True, slots=True)
class Tensor:
    """`path: dtype[dim=size, ...]`, where `path` joins the pytree keys with `/`.

    >>> print(Tensor("params/w1", (1024, 4096), "float32", ("d_model", "d_ff"), Role.PARAMETER))
    params/w1: float32[d_model=1024, d_ff=4096]

    **Invariants**

    - One name per dimension.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]
    role: Role

    def __post_init__(self) -> None:
        if len(self.dims) != len(self.shape):
            raise ValueError(f"{self.path}: {len(self.dims)} names for {len(self.shape)} dimensions")

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return math.ceil(self.elements * itemsize(self.dtype))

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={size}" for name, size in zip(self.dims, self.shape, strict=True))
        return f"{self.path}: {self.dtype}[{inner}]"


def verify_dim_name(name: str) -> None:
    """Raise `DimensionError` if a layout cannot contain this name."""
    if not _DIM_NAME.fullmatch(name):
        raise DimensionError(f"`{name[:80]}` is not a valid dimension name.", ["use at most 80 letters, digits and `_`"])
