"""Classes that are pickled by value, such as those of a notebook or a script: their registration with JAX is in JAX's registry and not in
the class, so it would be lost. It is sent with the class and repeated on arrival.

Equinox registers a class from its metaclass as soon as it is made, and cloudpickle creates it empty, to fill it later: so its fields are
there from the beginning.
"""

import abc
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax._src import tree_util

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
