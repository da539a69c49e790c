"""The device mesh around a trace (`jax.set_mesh`, `with mesh:`), and how the arguments of a program are laid out by themselves.

A program is traced again later, elsewhere: for another remat policy, in a worker process. So the mesh around the first trace goes with it,
as an abstract mesh, which needs no devices.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from workbench.core.sharding import Sharding
from workbench.core.source_annotations import NOTHING_WRITTEN, WrittenShardings


def keep_mesh(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` under the mesh that is around it now, whenever it is called; itself where there is none."""
    mesh = _current_mesh()
    if mesh is None:
        return function

    @functools.wraps(function)
    def under_mesh(*args: Any, **kwargs: Any) -> Any:
        if jax.sharding.get_abstract_mesh().axis_names == mesh.axis_names:
            return function(*args, **kwargs)
        with jax.sharding.use_abstract_mesh(mesh):
            return function(*args, **kwargs)

    return under_mesh


def _current_mesh() -> AbstractMesh | None:
    """Of `jax.set_mesh`, else of a `with mesh:` block, which JAX keeps elsewhere and has no public function for."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        from jax._src.mesh import thread_resources

        mesh = thread_resources.env.physical_mesh
    return None if mesh.empty else AbstractMesh(mesh.axis_sizes, mesh.axis_names, mesh.axis_types)


def written_shardings(leaves: Sequence[Any]) -> WrittenShardings:
    """The shardings of arrays and `jax.ShapeDtypeStruct`s over named mesh axes."""
    shardings = [_named_sharding(leaf) for leaf in leaves]
    meshes = [each.mesh for each in shardings if each is not None]
    if not meshes:
        return NOTHING_WRITTEN
    axes = {name: size for mesh in meshes for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True)}
    explicit = dict.fromkeys(name for mesh in meshes for name in _explicit_axes(mesh))
    found = (None if each is None else read_spec(each.spec, getattr(leaf, "ndim", 0)) for leaf, each in zip(leaves, shardings, strict=True))
    return WrittenShardings(tuple(axes.items()), tuple(explicit), tuple(found))


def _named_sharding(leaf: Any) -> NamedSharding | None:
    sharding = getattr(leaf, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) and not sharding.mesh.empty else None


def _explicit_axes(mesh: Any) -> Iterator[str]:
    return (name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind is AxisType.Explicit)


def read_spec(spec: PartitionSpec, rank: int) -> Sharding:
    """JAX's spec as a sharding: `P('data', None, ('a', 'b'))` is `[data, -, a+b]`."""
    return Sharding(tuple(_axes_of(entry) for entry in (*spec, *(None,) * (rank - len(spec)))))


def _axes_of(entry: Any) -> tuple[str, ...] | None:
    if entry is PartitionSpec.UNCONSTRAINED:
        return None
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
