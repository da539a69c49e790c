"""Classes that are sent by value, as those of a notebook or a script are: what they were registered as with JAX is lost on the way, since
it stands in JAX's registry and not in the class, so it is sent beside the class and done again where that arrives.

Equinox registers a class from its metaclass as soon as it is made, and cloudpickle makes it empty, to fill it later: its fields are
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
"""JAX's own record of which functions take a class apart, which it tells nowhere else."""


def reduce_class(kind: type, reduced: Reduced) -> Reduced:
    """As cloudpickle reduces a class that it sends by value, with its fields and its registration."""
    make, made_of, state, *rest, fill = reduced
    if type(kind) not in (type, abc.ABCMeta) and "__dataclass_fields__" in vars(kind):
        metaclass, name, bases, namespace, *others = made_of
        made_of = (metaclass, name, bases, namespace | _fields_of(kind), *others)
    if (entry := _REGISTRY.get(kind)) is None:
        return make, made_of, state, *rest, fill
    return make, made_of, (fill, state, _registration(kind, entry)), *rest, _fill_and_register


def _fields_of(kind: type) -> dict[str, Any]:
    """What a metaclass reads off a class that is to be a dataclass. A field's default and its functions come with the state."""
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
    """Whether there is no `__init__` but what `dataclasses` writes."""
    return init is None or getattr(getattr(init, "__code__", None), "co_qualname", "").startswith("__create_fn__")


def _to_come(self: Any) -> None:
    """Stands for the `__init__` that comes with a class's state."""


def _registration(kind: type, entry: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The call that registers such a class again, without the class."""
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
