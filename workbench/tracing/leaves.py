"""Pytrees as named leaves: `params["layers"][0].w` is `params/layers/0/w`."""

from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding
from jax.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, SequenceKey

from workbench.errors import TraceError


def path_of(root: str, keys: tuple[KeyEntry, ...]) -> str:
    """The path of a leaf of argument `root`."""
    return "/".join((root, *(_key_text(key) for key in keys)))


def _key_text(key: KeyEntry) -> str:
    match key:
        case DictKey(key=word):
            return str(word)
        case SequenceKey(idx=index) | FlattenedIndexKey(key=index):
            return str(index)
        case GetAttrKey(name=name):
            return name
    return str(key).strip(".[]'\"")


def named_leaves(root: str, tree: Any) -> tuple[list[str], list[Any]]:
    """Paths and leaves of one argument, in JAX's order."""
    entries = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [path_of(root, keys) for keys, _ in entries], [leaf for _, leaf in entries]


def _explicit_sharding(leaf: jax.ShapeDtypeStruct) -> NamedSharding | None:
    """The leaf's sharding over explicit mesh axes; others only describe where an array happens to be."""
    sharding = leaf.sharding
    is_explicit = isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types
    return sharding if is_explicit else None


def spec_of(path: str, leaf: Any) -> jax.ShapeDtypeStruct:
    """Shape, dtype and explicit sharding of an array, number or `ShapeDtypeStruct`; else raises `TraceError`."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=leaf.weak_type, sharding=_explicit_sharding(leaf))
    try:
        return jax.eval_shape(lambda x: x, leaf)
    except TypeError as error:
        raise TraceError(
            f"`{path}` is a {type(leaf).__name__}, which is not an array.",
            ["bind it with functools.partial or a closure", "register its type as a pytree"],
        ) from error


@dataclass(frozen=True, slots=True)
class Leaves:
    """A flattened pytree: the path, the example, and the shape and type of each leaf."""

    paths: list[str]
    examples: list[Any]
    specs: list[jax.ShapeDtypeStruct]
    structure: Any

    @classmethod
    def of(cls, root: str, tree: Any) -> "Leaves":
        """Flatten a pytree; raises `TraceError` for a leaf that is not an array."""
        paths, examples = named_leaves(root, tree)
        try:
            specs = [spec_of(path, leaf) for path, leaf in zip(paths, examples, strict=True)]
        except TraceError as error:
            if not any(base.__module__.partition(".")[0] == "equinox" for base in type(tree).__mro__):
                raise
            name = type(tree).__name__
            ways_out = [f"give the {name} to `wb.from_equinox(model, loss, batch)`, which separates non-arrays from the step"]
            raise TraceError(error.message, ways_out) from error
        return cls(paths, examples, specs, jax.tree.structure(tree))

    def tree(self, leaves: Any = None) -> Any:
        """The pytree of these leaves, by default of the specs."""
        return jax.tree.unflatten(self.structure, self.specs if leaves is None else leaves)
