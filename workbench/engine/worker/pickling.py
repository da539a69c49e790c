"""Pickle functions and plain values for another process; a module's sentinels keep their identity, and a class registered as a JAX pytree
stays registered."""

import importlib
import io
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle
import jax

from workbench.engine.worker.pickled_classes import reduce_class


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
    """

    def reducer_override(self, obj: Any) -> Any:
        name = _sentinel_name(obj)
        if name:
            return _global_of, (type(obj).__module__, name)
        if _is_cache(obj) and (found := _find_cache(obj)):
            return _global_of, found
        if isinstance(obj, jax.custom_vjp):
            return _empty_custom_vjp, (), vars(obj)
        if isinstance(obj, CodeType):
            return self._reduce_code(obj)
        reduced = super().reducer_override(obj)
        return reduce_class(obj, reduced) if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) == _BY_VALUE else reduced

    def _reduce_code(self, code: CodeType) -> Any:
        """Reduce a code object as cloudpickle does, with its file name, which cloudpickle 3.1.3 drops: messages name the user's line."""
        make, parts = self.dispatch_table[CodeType](code)
        return _with_file_name, (make, parts, code.co_filename)


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
