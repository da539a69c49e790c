"""Functions and plain values as bytes for another process; a module's sentinels stay the objects that they are."""

import importlib
import io
import sys
from typing import Any

import cloudpickle


def dump_by_value(content: Any) -> bytes:
    """A pickle of functions by value; raises whatever an object of `content` raises that cannot be pickled."""
    with io.BytesIO() as file:
        _Pickler(file).dump(content)
        return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # its types are not followed
    """Sends a sentinel by the name it has in its module: what is compared by `is` would be another object after a plain pickle.

    Equinox 0.13 has one in the tree structure of each module, and could not put a module together again in a worker process.
    """

    def reducer_override(self, obj: Any) -> Any:
        name = _sentinel_name(obj)
        return (_global_of, (type(obj).__module__, name)) if name else super().reducer_override(obj)


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
