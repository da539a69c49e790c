"""Placements for the tests of pictures."""

from hypothesis import strategies as st

from tests.support.strategies import DIMS, meshes, shardings
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding
from workbench.core.tensor import Role, Tensor
from workbench.reports.placement import Placement

GRID = "processor_rows:2 processor_cols:4"


def placed(shape: tuple[int, ...], dims: str, sharding: str, mesh: str, path: str = "w") -> Placement:
    return Placement(Tensor(path, shape, "float32", tuple(dims.split()), Role.INPUT), Sharding.parse(sharding), Mesh(mesh))


def image_batch(sharding: str) -> Placement:
    """Mesh-TensorFlow's example."""
    return placed((100, 28, 28, 3), "batch rows cols channels", sharding, GRID, "image_batch")


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """Any rank to 4, up to three axes, even and uneven splits, open dimensions."""
    mesh = draw(meshes(max_axes=3, max_size=4))
    sharding = draw(shardings(names=mesh.names))
    shape = tuple(draw(st.integers(1, 9)) for _ in sharding.dims)
    return Placement(Tensor("w", shape, "float32", DIMS[: len(shape)], Role.PARAMETER), sharding, mesh)
