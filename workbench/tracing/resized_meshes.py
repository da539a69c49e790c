"""Replaces the mesh that a function refers to.

A `shard_map` is traced at the shapes of one device's shards, so another mesh needs another trace. A function can refer to its mesh through
a closure, a global variable, a default, a module, an attribute or a `NamedSharding`. `over_mesh` copies only the objects that lead to a
mesh, and replaces the mesh in the copies. In library code it follows only closures.
"""

import copy
import functools
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from workbench.core.program import MeshAxes
from workbench.propagation.module.source_location import is_library

T = TypeVar("T")
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
