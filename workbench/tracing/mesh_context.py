"""The device mesh around a trace (`jax.set_mesh`, `with mesh:`), and the existing shardings of a program's arguments.

A program is traced again later, elsewhere: for another remat policy, or in a worker process. So the first trace's mesh
is kept as an abstract mesh, which needs no devices.
"""

import functools
import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from workbench.core.program import MeshAxes
from workbench.core.sharding import Sharding
from workbench.core.source_annotations import NOTHING_WRITTEN, WrittenShardings
from workbench.errors import TraceError
from workbench.propagation.module.source_location import is_library
from workbench.tracing.jaxpr.equations import equations_below, equations_inside, jaxprs_in, source_line
from workbench.tracing.resized_meshes import is_another

T = TypeVar("T")


def bind_mesh(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` bound to the current mesh context; unchanged if there is none."""
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


def pmap_error(function: object) -> TraceError | None:
    """The error for a function made by `jax.pmap`, with what to write instead; `None` for other functions."""
    code = getattr(function, "__code__", None)
    if code is None or not _is_pmap(code.co_filename):
        return None
    return _refused_map(getattr(function, "__name__", "f"), _pmapped_axis(function))


def verify_pmaps(jaxpr: Any) -> None:
    """Raise the error of `pmap_error` for a map over one device, which JAX lowers without its mesh axis."""
    for eqn, around in equations_below(jaxpr):
        if eqn.primitive.name == "shard_map" and eqn.params["mesh"].size == 1 and _is_pmap(next(jaxprs_in(eqn)).debug_info.func_filename):
            (axis,) = eqn.params["mesh"].axis_names
            raise _refused_map(_mapped_name(eqn), _shown_axis(axis), next(filter(None, map(source_line, around[::-1])), ""))


def _is_pmap(filename: str | None) -> bool:
    return filename is not None and filename.replace("\\", "/").endswith("jax/_src/pmap.py")


def _refused_map(name: str, axis: str, line: str = "") -> TraceError:
    place = f" ({line})" if line else ""
    return TraceError(
        f"`{name}` is mapped by `jax.pmap`{place}, which chooses its own devices, so that no plan can shard it.",
        [
            f"use `jax.jit({name})` on the whole batch, without collectives over `{axis}`, and shard it in the plan, `batch:data`",
            f'keep them with `jax.shard_map({name}, mesh=mesh, in_specs=P("{axis}"), out_specs=P("{axis}"))` and a mesh axis `{axis}`',
        ],
    )


def _pmapped_axis(function: Any) -> str:
    try:
        inner = inspect.getclosurevars(inspect.getclosurevars(function).nonlocals["infer_params"]).nonlocals
    except (KeyError, TypeError):
        return "data"
    return _shown_axis(inner.get("axis_name"))


def _shown_axis(axis: object) -> str:
    return "data" if axis in (None, "_internal_pmap_axis_name") else str(axis)


def _mapped_name(shard_map: Any) -> str:
    """The name of the mapped function, from the calls that led to its operations; `f` for a lambda."""
    for eqn in equations_inside(shard_map):
        frames = eqn.source_info.traceback.frames if eqn.source_info.traceback is not None else ()
        names = [frame.function_name.rpartition(".")[2] for frame in frames if not is_library(frame.file_name)]
        if names:  # the outermost: JAX begins the calls of an operation at the map
            return names[-1] if names[-1].isidentifier() else "f"
    return "f"


def called_pmap_error(error: Exception) -> TraceError | None:
    """The error of `pmap_error` if the innermost function of the traceback uses a mapped function."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        values = {**frame.f_globals, **frame.f_locals}
        used = (values[name] for name in (*frame.f_code.co_names, *frame.f_code.co_varnames, *frame.f_code.co_freevars) if name in values)
        if (pmapped := next(filter(None, map(pmap_error, used)), None)) is not None:
            return pmapped
    return None


def _current_mesh() -> AbstractMesh | None:
    """The mesh of `jax.set_mesh`, or of a `with mesh:` block, for which JAX has no public accessor."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        from jax._src.mesh import thread_resources

        mesh = thread_resources.env.physical_mesh
    return None if mesh.empty else AbstractMesh(mesh.axis_sizes, mesh.axis_names, mesh.axis_types)


def call_over(axes: MeshAxes, function: Callable[[], T]) -> T:
    """The result of `function`, which enters its own mesh; in a thread of its own where another mesh than that of these axes is around, for
    JAX replaces a mesh by one of the same size only."""
    around = _current_mesh()
    if around is None or not is_another(around, axes):
        return function()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, function).result()


def written_shardings(leaves: Sequence[Any]) -> WrittenShardings:
    """The shardings of arrays and `jax.ShapeDtypeStruct`s over named mesh axes."""
    shardings = [_named_sharding(leaf) for leaf in leaves]
    meshes = [item.mesh for item in shardings if item is not None]
    if not meshes:
        return NOTHING_WRITTEN
    axes = {name: size for mesh in meshes for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True)}
    explicit = dict.fromkeys(name for mesh in meshes for name in _explicit_axes(mesh))
    specs = (None if item is None else read_spec(item.spec, getattr(leaf, "ndim", 0)) for leaf, item in zip(leaves, shardings, strict=True))
    return WrittenShardings(tuple(axes.items()), tuple(explicit), tuple(specs))


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
