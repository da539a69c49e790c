"""Pickle functions and plain values for another process; a module's sentinels keep their identity, and a class registered as a JAX pytree
stays registered.
"""

import abc
import dataclasses
import importlib
import inspect
import io
import sys
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import cloudpickle
import jax
from jax._src import tree_util


def dump_by_value(content: Any) -> bytes:
    """A pickle with functions by value; raises whatever an object in `content` raises that cannot be pickled."""
    with io.BytesIO() as file:
        _Pickler(file).dump(content)
        return file.getvalue()


_BY_VALUE = 6
"""Parts of what a class that is sent by value is reduced to; one that is found by name, or has one as `type(None)`, has fewer."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickles a sentinel by its name in its module: after a plain pickle it would be another object, and comparisons by `is` would fail.

    Equinox 0.13 has one in the tree structure of each module, and could not reassemble a module in a worker process. JAX's caches of
    functions, which cannot be pickled, go by their names, too: a function of a notebook under `jax.checkpoint` has one with it.

    A device mesh arrives as an abstract mesh, which JAX lays over whatever devices the plan is run on or compiled for.
    """

    def reducer_override(self, obj: Any) -> Any:
        name = _sentinel_name(obj)
        if name:
            return _global_of, (type(obj).__module__, name)
        if _is_cache(obj) and (found := _find_cache(obj)):
            return _global_of, found
        if isinstance(obj, jax.custom_vjp):
            return _empty_custom_vjp, (), vars(obj)
        if isinstance(obj, jax.sharding.Mesh):
            return jax.sharding.AbstractMesh, (obj.axis_sizes, obj.axis_names, obj.axis_types)
        if isinstance(obj, jax.Device):
            return _device_of_worker, (jax.devices(obj.platform).index(obj),)
        if _takes_its_parts(type(obj)):
            return type(obj), tuple(obj)
        if isinstance(obj, CodeType):
            return self._reduce_code(obj)
        reduced = super().reducer_override(obj)
        return reduce_class(obj, reduced) if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) == _BY_VALUE else reduced

    def _reduce_code(self, code: CodeType) -> Any:
        """Reduce a code object as cloudpickle does, with its file name, which cloudpickle 3.1.3 drops: messages name the user's line."""
        make, parts = self.dispatch_table[CodeType](code)
        return _with_file_name, (make, parts, code.co_filename)


def _takes_its_parts(kind: type) -> bool:
    """Whether it is a tuple of JAX's that is made of its parts one by one, as a sharding rule's mappings: Python hands it one tuple."""
    return issubclass(kind, tuple) and "__new__" in vars(kind) and not hasattr(kind, "_fields") and kind.__module__.startswith("jax.")


def _device_of_worker(number: int) -> Any:
    """The device of this number, or one in its place where there are fewer."""
    return jax.devices()[number % len(jax.devices())]


def _empty_custom_vjp() -> Any:
    """One without its function, which may refer to it: `custom_vjp` cannot be made so by itself, as unpickling makes an object."""
    return object.__new__(jax.custom_vjp)


def _with_file_name(make: Callable[..., CodeType], parts: tuple[Any, ...], file_name: str) -> CodeType:
    return make(*parts).replace(co_filename=file_name)


def _sentinel_name(obj: Any) -> str:
    """The name under which the module of its class holds this object, if it has no state and pickles as any object does; else empty."""
    kind = type(obj)
    is_plain = all(getattr(kind, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__"))
    if not is_plain or hasattr(kind, "__slots__") or getattr(obj, "__dict__", None) != {} or kind.__module__ == "__main__":
        return ""
    module = sys.modules.get(kind.__module__)
    return next((name for name, value in vars(module).items() if value is obj), "") if module else ""


def _is_cache(obj: Any) -> bool:
    """Whether it is a function behind a cache of jaxlib's (0.10 to 0.12), which has neither a name of its own nor a pickle."""
    return type(obj).__name__ == "WeakrefLRUCache" and type(obj).__module__.partition(".")[0] == "jaxlib"


def _find_cache(obj: Any) -> tuple[str, str] | None:
    """A module of JAX that holds it, and its name there."""
    modules = [(name, module) for name, module in list(sys.modules.items()) if name.partition(".")[0] == "jax" and module]
    return next(((name, key) for name, module in modules for key, value in list(vars(module).items()) if value is obj), None)


def _global_of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


# Classes that are pickled by value, such as those of a notebook or a script: their registration with JAX is in JAX's registry and not in
# the class, so it would be lost. It is sent with the class and repeated on arrival.
#
# Equinox registers a class from its metaclass as soon as it is made, and cloudpickle creates it empty, to fill it later: so its fields are
# there from the beginning.

Reduced = tuple[Any, ...]

_REGISTRY: Mapping[type, Any] = getattr(tree_util, "_registry", {})
"""JAX's own registry of pytree classes and their flattening functions, which has no public interface."""


def reduce_class(kind: type, reduced: Reduced) -> Reduced:
    """Reduce a class that is sent by value as cloudpickle does, with its fields and its registration."""
    make, made_of, state, *rest, fill = reduced
    if type(kind) not in (type, abc.ABCMeta) and "__dataclass_fields__" in vars(kind):
        metaclass, name, bases, namespace, *others = made_of
        made_of = (metaclass, name, bases, namespace | _fields_of(kind), *others)
    if (entry := _REGISTRY.get(kind)) is None:
        return make, made_of, state, *rest, fill
    return make, made_of, (fill, state, _registration(kind, entry)), *rest, _fill_and_register


def _fields_of(kind: type) -> dict[str, Any]:
    """What a metaclass reads from a class that is to become a dataclass. A field's default and its functions come with the state."""
    fields = {each.name: each for each in dataclasses.fields(kind)}
    own = [name for name in inspect.get_annotations(kind) if name in fields]
    found: dict[str, Any] = {"__annotations__": dict.fromkeys(own, Any)}
    found |= {name: _outline(fields[name]) for name in own}
    return found | ({} if _is_generated(vars(kind).get("__init__")) else {"__init__": _to_come})


def _outline(field: "dataclasses.Field[Any]") -> Any:
    plain = {key: value for key, value in field.metadata.items() if isinstance(value, bool | int | str | None)}
    default: dict[str, Any] = {}
    if field.default is not dataclasses.MISSING:
        default = {"default": None}
    elif field.default_factory is not dataclasses.MISSING:
        default = {"default_factory": list}
    return dataclasses.field(init=field.init, kw_only=bool(field.kw_only), metadata=plain, **default)


def _is_generated(init: Any) -> bool:
    """Whether the only `__init__` is the one that `dataclasses` generates."""
    return init is None or getattr(getattr(init, "__code__", None), "co_qualname", "").startswith("__create_fn__")


def _to_come(self: Any) -> None:
    """Placeholder for the `__init__` that comes with a class's state."""


def _registration(kind: type, entry: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The call that repeats the registration of such a class, without the class argument."""
    if getattr(entry.to_iter, "__qualname__", "").startswith("register_dataclass."):
        lists = inspect.getclosurevars(entry.to_iter).nonlocals
        data, meta = lists["data_fields"], lists["meta_fields"]
        init = [each.name for each in dataclasses.fields(kind) if each.init] if dataclasses.is_dataclass(kind) else []
        return _register_dataclass, (data, meta, tuple(name for name in init if name not in data and name not in meta))
    return jax.tree_util.register_pytree_node, (entry.to_iter, entry.from_iter)


def _register_dataclass(kind: type, data: tuple[str, ...], meta: tuple[str, ...], dropped: tuple[str, ...]) -> None:
    jax.tree_util.register_dataclass(kind, data, meta, drop_fields=dropped)


def _fill_and_register(kind: type, parts: tuple[Callable[..., Any], Any, tuple[Callable[..., Any], tuple[Any, ...]]]) -> type:
    fill, state, (register, arguments) = parts
    fill(kind, state)
    if kind not in _REGISTRY:
        register(kind, *arguments)
    return kind
