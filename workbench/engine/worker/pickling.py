"""Pickle functions and plain values for another process; module sentinels keep their identity, and JAX pytree classes
their registration. A process that has not imported JAX does not import it here, as it has no objects of JAX.
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

from workbench.errors import EngineError

_CONFIG = (  # settings of JAX that change the meaning of a traced program or its random values
    "jax_enable_x64",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
)


def jax_settings() -> dict[str, Any]:
    """Return JAX's settings that another process must share, so that a program means the same there.

    Without JAX here they are those of the environment, which the other process has too.
    """
    jax = sys.modules.get("jax")
    return {name: getattr(jax.config, name) for name in _CONFIG} if jax else {}


def use_jax_settings(settings: Mapping[str, Any]) -> None:
    """Apply the settings in the other process, before it creates arrays."""
    import jax

    for name, value in settings.items():
        jax.config.update(name, value)


def sendable(content: Any, name: str, other_way: str) -> bytes:
    """Pickle with functions by value; raises `EngineError` if something in `content` cannot be pickled."""
    try:
        return dump_by_value(content)
    except Exception as error:  # an object's methods may raise anything
        raise EngineError(
            f"{name} cannot be sent to a worker process: {type(error).__name__}: {error}",
            ["use only arrays and plain values in its functions, not open files, locks or devices", other_way],
        ) from error


def dump_by_value(content: Any) -> bytes:
    """Pickle with functions by value; raises the error of any object in `content` that cannot be pickled."""
    with io.BytesIO() as file:
        _Pickler(file).dump(content)
        return file.getvalue()


_BY_VALUE = 6
"""Length of the reduction of a class sent by value; classes sent by name, or like `type(None)`, have fewer parts."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickler for sentinels, JAX caches, meshes and pytree classes.

    A sentinel is pickled by its name in its module: as a plain pickle it would be another object, and comparisons by
    `is` would fail. Equinox 0.13 has one in the tree structure of each module, and could not reassemble a module in a
    worker process. JAX's function caches, which cannot be pickled, are sent by name too: a notebook function under
    `jax.checkpoint` refers to one. A device mesh arrives as an abstract mesh, which JAX applies to the devices that the
    plan is run on or compiled for.
    """

    def reducer_override(self, obj: Any) -> Any:
        name = _sentinel_name(obj)
        if name:
            return _global_of, (type(obj).__module__, name)
        if "jax" in sys.modules and (of_jax := _reduce_of_jax(obj)) is not None:
            return of_jax
        if isinstance(obj, CodeType):
            return self._reduce_code(obj)
        reduced = super().reducer_override(obj)
        return reduce_class(obj, reduced) if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) == _BY_VALUE else reduced

    def _reduce_code(self, code: CodeType) -> Any:
        """Reduce a code object like cloudpickle, with its file name, which cloudpickle 3.1.3 drops but messages need."""
        make, parts = self.dispatch_table[CodeType](code)
        return _with_file_name, (make, parts, code.co_filename)


def _reduce_of_jax(obj: Any) -> Any:
    """Reduce a cache, mesh, device, tuple or differentiable function of JAX; `None` for any other object."""
    import jax

    if _is_cache(obj) and (location := _find_cache(obj)):
        return _global_of, location
    if isinstance(obj, jax.custom_vjp):
        return _empty_custom_vjp, (), vars(obj)
    if isinstance(obj, jax.sharding.Mesh):
        return jax.sharding.AbstractMesh, (obj.axis_sizes, obj.axis_names, obj.axis_types)
    if isinstance(obj, jax.Device):
        return _device_of_worker, (jax.devices(obj.platform).index(obj),)
    if _takes_elements_separately(type(obj)):
        return type(obj), tuple(obj)
    return None


def _takes_elements_separately(kind: type) -> bool:
    """Return whether this is a JAX tuple class with a constructor that takes the elements as separate arguments."""
    return issubclass(kind, tuple) and "__new__" in vars(kind) and not hasattr(kind, "_fields") and kind.__module__.startswith("jax.")


def _device_of_worker(number: int) -> Any:
    import jax

    return jax.devices()[number % len(jax.devices())]


def _empty_custom_vjp() -> Any:
    """Return a `custom_vjp` without its function, which may refer back to it; its constructor requires the function."""
    import jax

    return object.__new__(jax.custom_vjp)


def _with_file_name(make: Callable[..., CodeType], parts: tuple[Any, ...], file_name: str) -> CodeType:
    return make(*parts).replace(co_filename=file_name)


def _sentinel_name(obj: Any) -> str:
    """Return the object's name in its class's module, if it has no state and default pickling; else empty."""
    kind = type(obj)
    is_plain = all(getattr(kind, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__"))
    if not is_plain or hasattr(kind, "__slots__") or getattr(obj, "__dict__", None) != {} or kind.__module__ == "__main__":
        return ""
    module = sys.modules.get(kind.__module__)
    return next((name for name, value in vars(module).items() if value is obj), "") if module else ""


def _is_cache(obj: Any) -> bool:
    """Return whether this is a function behind a cache of jaxlib (0.10 to 0.12), which has neither a name nor a pickle."""
    return type(obj).__name__ == "WeakrefLRUCache" and type(obj).__module__.partition(".")[0] == "jaxlib"


def _find_cache(obj: Any) -> tuple[str, str] | None:
    modules = [(name, module) for name, module in list(sys.modules.items()) if name.partition(".")[0] == "jax" and module]
    return next(((name, key) for name, module in modules for key, value in list(vars(module).items()) if value is obj), None)


def _global_of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


# Classes that are pickled by value, such as those of a notebook or a script: their registration is in JAX's registry and not in
# the class, so it would be lost. It is sent with the class and repeated on arrival.
#
# Equinox registers a class in its metaclass at creation, and cloudpickle creates it empty and fills it later, so its fields are
# included from the beginning.

Reduced = tuple[Any, ...]


def pytree_registry() -> Mapping[type, Any]:
    """Return JAX's registry of pytree classes and their flattening functions, which has no public interface."""
    return getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})


def reduce_class(kind: type, reduced: Reduced) -> Reduced:
    """Reduce a class sent by value like cloudpickle, with its fields and its registration."""
    create, arguments, state, *rest, fill = reduced
    if type(kind) not in (type, abc.ABCMeta) and "__dataclass_fields__" in vars(kind):
        metaclass, name, bases, namespace, *others = arguments
        arguments = (metaclass, name, bases, namespace | _fields_of(kind), *others)
    if (entry := pytree_registry().get(kind)) is None:
        return create, arguments, state, *rest, fill
    return create, arguments, (fill, state, _registration(kind, entry)), *rest, _fill_and_register


def _fields_of(kind: type) -> dict[str, Any]:
    """Return the attributes that a metaclass reads from a future dataclass; defaults come with the state."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    own_names = [name for name in inspect.get_annotations(kind) if name in fields]
    namespace: dict[str, Any] = {"__annotations__": dict.fromkeys(own_names, Any)}
    namespace |= {name: _outline(fields[name]) for name in own_names}
    return namespace | ({} if _is_generated(vars(kind).get("__init__")) else {"__init__": _init_placeholder})


def _outline(field: "dataclasses.Field[Any]") -> Any:
    plain = {key: value for key, value in field.metadata.items() if isinstance(value, bool | int | str | None)}
    default: dict[str, Any] = {}
    if field.default is not dataclasses.MISSING:
        default = {"default": None}
    elif field.default_factory is not dataclasses.MISSING:
        default = {"default_factory": list}
    return dataclasses.field(init=field.init, kw_only=bool(field.kw_only), metadata=plain, **default)


def _is_generated(init: Any) -> bool:
    return init is None or getattr(getattr(init, "__code__", None), "co_qualname", "").startswith("__create_fn__")


def _init_placeholder(self: Any) -> None:
    """Placeholder for the `__init__` that comes with a class's state."""


def _registration(kind: type, entry: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the call that repeats the registration of such a class, without the class argument."""
    if getattr(entry.to_iter, "__qualname__", "").lstrip("_").startswith("register_dataclass."):  # `_register_dataclass` from JAX 0.12 on
        lists = inspect.getclosurevars(entry.to_iter).nonlocals
        data, meta = lists["data_fields"], lists["meta_fields"]
        init = [field.name for field in dataclasses.fields(kind) if field.init] if dataclasses.is_dataclass(kind) else []
        return _register_dataclass, (data, meta, tuple(name for name in init if name not in data and name not in meta))
    from jax.tree_util import register_pytree_node

    return register_pytree_node, (entry.to_iter, entry.from_iter)


def _register_dataclass(kind: type, data: tuple[str, ...], meta: tuple[str, ...], dropped: tuple[str, ...]) -> None:
    import jax

    jax.tree_util.register_dataclass(kind, data, meta, drop_fields=dropped)


def _fill_and_register(kind: type, parts: tuple[Callable[..., Any], Any, tuple[Callable[..., Any], tuple[Any, ...]]]) -> type:
    fill, state, (register, arguments) = parts
    fill(kind, state)
    if kind not in pytree_registry():
        register(kind, *arguments)
    return kind
