"""Functions and plain values as bytes for another process; a module's sentinels stay the objects that they are, and a class that JAX takes
for a tree stays one."""

import importlib
import io
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle

from workbench.engine.worker.pickled_classes import reduce_class


def dump_by_value(content: Any) -> bytes:
    """A pickle of functions by value; raises whatever an object of `content` raises that cannot be pickled."""
    with io.BytesIO() as file:
        _Pickler(file).dump(content)
        return file.getvalue()


_BY_VALUE = 6
"""Parts of what a class that is sent by value is reduced to; one that is found by name, or has one as `type(None)`, has fewer."""


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # its types are not followed
    """Sends a sentinel by the name it has in its module: what is compared by `is` would be another object after a plain pickle.

    Equinox 0.13 has one in the tree structure of each module, and could not put a module together again in a worker process.
    """

    def reducer_override(self, obj: Any) -> Any:
        name = _sentinel_name(obj)
        if name:
            return _global_of, (type(obj).__module__, name)
        if isinstance(obj, CodeType):
            return self._reduce_code(obj)
        reduced = super().reducer_override(obj)
        return reduce_class(obj, reduced) if isinstance(obj, type) and isinstance(reduced, tuple) and len(reduced) == _BY_VALUE else reduced

    def _reduce_code(self, code: CodeType) -> Any:
        """As cloudpickle reduces it, with the name of its file, which cloudpickle 3.1.3 leaves out: messages tell the user's line."""
        make, parts = self.dispatch_table[CodeType](code)
        return _with_file_name, (make, parts, code.co_filename)


def _with_file_name(make: Callable[..., CodeType], parts: tuple[Any, ...], file_name: str) -> CodeType:
    return make(*parts).replace(co_filename=file_name)


def _sentinel_name(obj: Any) -> str:
    """Under which name the module of its class holds this object, if it has no state and pickles as any object does; else empty."""
    kind = type(obj)
    is_plain = all(getattr(kind, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__"))
    if not is_plain or hasattr(kind, "__slots__") or getattr(obj, "__dict__", None) != {} or kind.__module__ == "__main__":
        return ""
    module = sys.modules.get(kind.__module__)
    return next((name for name, value in vars(module).items() if value is obj), "") if module else ""


def _global_of(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)
