"""The shardings of a program's arguments, results and intermediate values."""

from dataclasses import dataclass
from math import ceil, prod

from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor, itemsize


@dataclass(frozen=True, slots=True)
class Placement:
    """One argument or result and its sharding."""

    tensor: Tensor
    sharding: Sharding
    mesh: Mesh

    @property
    def local_shape(self) -> tuple[int, ...]:
        return self.sharding.local_shape(self.tensor.shape, self.mesh)

    @property
    def local_bytes(self) -> int:
        """Bytes on one device, including padding."""
        return ceil(prod(self.local_shape) * itemsize(self.tensor.dtype))


@dataclass(frozen=True, slots=True)
class Value:
    """Intermediate values of equal scope, operation, shape and sharding; `count` of them are computed per step."""

    path: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    sharding: Sharding
    local_shape: tuple[int, ...]
    count: int
    source: str
