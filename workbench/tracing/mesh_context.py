"""The device mesh around a trace (`jax.set_mesh`, `with mesh:`), and the existing shardings of a program's arguments.

A program is traced again later, elsewhere: for another remat policy, or in a worker process. So the first trace's mesh
is kept as an abstract mesh, which needs no devices.
"""

import copy
import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import chain
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from workbench.core.program import MeshAxes
from workbench.core.sharding import Sharding
from workbench.core.source_annotations import NOTHING_WRITTEN, WrittenShardings
from workbench.errors import TraceError
from workbench.propagation.module.source_location import is_library
from workbench.tracing.jaxpr.equations import equations_below, equations_inside, jaxprs_in, source_line

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


# Replaces the mesh that a function refers to.
#
# A `shard_map` is traced at the shapes of one device's shards, so another mesh needs another trace. A function can refer to its mesh
# through a closure, a global variable, a default, a module, an attribute or a `NamedSharding`. `over_mesh` copies only the objects that
# lead to a mesh, and replaces the mesh in the copies. In library code it follows only closures.


_JITTED = type(jax.jit(abs))
_LEAVES = (
    *(str, bytes, int, float, complex, type(None), type, CodeType, BuiltinFunctionType),
    np.ndarray,
    np.dtype,
    jax.Array,
    Mesh,
    AbstractMesh,
)


def over_mesh(value: T, axes: MeshAxes) -> T:
    """`value` with a mesh of these axes in place of every reachable mesh that shares an axis with them."""
    copied: T = _Copier(_find_reaching(value, axes), axes).copy(value)
    return copied


def is_another(mesh: Mesh | AbstractMesh, axes: MeshAxes) -> bool:
    """Whether a mesh differs from these axes but shares an axis with them."""
    return tuple(mesh.shape.items()) != axes and not {*mesh.axis_names}.isdisjoint(name for name, _ in axes)


def _mesh_over(mesh: Mesh | AbstractMesh, axes: MeshAxes) -> AbstractMesh:
    """The mesh of these axes; an axis that `mesh` lacks gets the type of the first axis of `mesh`."""
    kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
    names, sizes = zip(*axes, strict=True)
    return AbstractMesh(sizes, names, tuple(kinds.get(name, mesh.axis_types[0]) for name in names))


def _find_reaching(root: Any, axes: MeshAxes) -> dict[int, Any]:
    """The objects, by identity, that lead to a mesh to replace."""
    parents: dict[int, list[int]] = {}
    objects: dict[int, Any] = {id(root): root}
    pending, meshes = [root], []
    while pending:
        value = pending.pop()
        if isinstance(value, Mesh | AbstractMesh) and is_another(value, axes):
            meshes.append(id(value))
        for part in _parts(value):
            parents.setdefault(id(part), []).append(id(value))
            if id(part) not in objects:
                objects[id(part)] = part
                pending.append(part)
    reaching: dict[int, Any] = {}
    while meshes:
        if (number := meshes.pop()) not in reaching:
            reaching[number] = objects[number]
            meshes += parents.get(number, ())
    return reaching


def _parts(value: Any) -> Iterable[Any]:
    """The objects that a value refers to and that a copy could replace."""
    match value:
        case FunctionType():
            return _function_parts(value)
        case ModuleType():
            file = getattr(value, "__file__", None)
            return () if file is None or is_library(file) else _attributes(value).values()
        case _JITTED():
            return (value.__wrapped__,)
        case MethodType():
            return value.__self__, value.__func__
        case functools.partial():
            return value.func, value.args, value.keywords
        case NamedSharding():
            return (value.mesh,)
        case jax.ShapeDtypeStruct():
            return (value.sharding,)
        case dict():
            return list(value.values())
        case tuple() | list():
            return value
    return () if isinstance(value, _LEAVES) else _attributes(value).values()


def _function_parts(value: FunctionType) -> Iterator[Any]:
    yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
    yield from (value.__defaults__, value.__kwdefaults__)
    if not is_library(value.__code__.co_filename):
        yield from (value.__globals__[name] for name in _global_names(value.__code__) if name in value.__globals__)


def _attributes(value: Any) -> dict[str, Any]:
    named = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    slots = chain.from_iterable((names,) if isinstance(names, str) else tuple(names) for names in named)
    found = {name: getattr(value, name) for name in slots if not name.startswith("__") and hasattr(value, name)}
    return found | dict(getattr(value, "__dict__", None) or {})


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises for a variable that has no value yet
    except ValueError:
        return False
    return True


def _global_names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_global_names(each) for each in code.co_consts if isinstance(each, CodeType)))


class _Copier:
    """Copies each object that leads to a mesh once."""

    def __init__(self, reaching: Mapping[int, Any], axes: MeshAxes) -> None:
        self._reaching, self._axes = reaching, axes
        self._made: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        if id(value) not in self._reaching:
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._make(value)
        return self._made[id(value)]

    def _make(self, value: Any) -> Any:
        match value:
            case Mesh() | AbstractMesh():
                return _mesh_over(value, self._axes)
            case NamedSharding():
                return NamedSharding(self.copy(value.mesh), value.spec, memory_kind=value.memory_kind)
            case jax.ShapeDtypeStruct():
                return value.update(sharding=self.copy(value.sharding))
            case FunctionType():
                return self._make_function(value)
            case functools.partial():
                return functools.partial(self.copy(value.func), *self.copy(value.args), **self.copy(value.keywords))
            case MethodType():
                return MethodType(self.copy(value.__func__), self.copy(value.__self__))
            case _JITTED():
                state = value.__getstate__()
                return jax.jit(
                    self.copy(value.__wrapped__), static_argnums=state["static_argnums"], static_argnames=state["static_argnames"]
                )
        return self._make_container(value)

    def _make_container(self, value: Any) -> Any:
        if isinstance(value, tuple):
            parts = map(self.copy, value)
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        made: Any
        if isinstance(value, dict | list):
            self._made[id(value)] = made = copy.copy(value)
            for key, part in list(value.items() if isinstance(value, dict) else enumerate(value)):
                made[key] = self.copy(part)
            return made
        self._made[id(value)] = made = ModuleType(value.__name__) if isinstance(value, ModuleType) else object.__new__(type(value))
        for name, part in _attributes(value).items():
            object.__setattr__(made, name, self.copy(part))
        return made

    def _make_function(self, value: FunctionType) -> FunctionType:
        cells = tuple(CellType() for _ in value.__closure__ or ())
        variables = dict(value.__globals__)
        made = FunctionType(value.__code__, variables, value.__name__, self.copy(value.__defaults__), cells if value.__closure__ else None)
        self._made[id(value)] = made  # a function may refer to itself
        for cell, old in zip(cells, value.__closure__ or (), strict=True):
            if _is_filled(old):
                cell.cell_contents = self.copy(old.cell_contents)
        if not is_library(value.__code__.co_filename):
            variables |= {name: self.copy(variables[name]) for name in _global_names(value.__code__) if name in variables}
        made.__kwdefaults__ = self.copy(value.__kwdefaults__)
        made.__dict__.update(value.__dict__)
        made.__module__, made.__qualname__, made.__doc__ = value.__module__, value.__qualname__, value.__doc__
        return made
