"""What a model carries from step to step besides its parameters: running statistics, random keys, counters; no gradient is taken of it. And
casts of floating-point arrays at a function's edges."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from workbench.errors import TraceError
from workbench.tracing.leaves import Leaves, named_leaves


class WithState(NamedTuple):
    """The second argument of a loss that has state."""

    state: Any
    batch: Any


def pack_state(loss: Callable[..., Any]) -> Callable[..., Any]:
    """`loss(params, state, batch)` as a function of parameters and `WithState`."""

    def packed(params: Any, given: WithState) -> Any:
        return loss(params, given.state, given.batch)

    return packed


def verify_state(state: Leaves, result: Any, name: str) -> None:
    """Raises `TraceError` if a loss, whose result has these shapes, does not return a value with the state that goes into the next step."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise TraceError(
            f"`{name}` takes state and returns {_kind_of(result)}; it must return its value and the new state.",
            ["return (value, state)", "omit `state` if it never changes, and pass it in the batch"],
        )
    if difference := first_difference(state, result[1], "state"):
        raise TraceError(
            f"The state that `{name}` returns is not like the one it takes: {difference}.",
            ["return every leaf, changed or not, in the shape and type it was given", "cast it back, `.astype(...)`"],
        )


def first_difference(given: Leaves, returned: Any, root: str) -> str:
    """In words, the first leaf in which a pytree of shapes differs from the one it is to replace; empty if there is none."""
    paths, leaves = named_leaves(root, returned)
    paths = paths if root else [path.partition("/")[2] for path in paths]
    if paths != given.paths:
        gone, new = (next((path for path in one if path not in other), "") for one, other in ((given.paths, paths), (paths, given.paths)))
        return f"`{gone}` is not returned" if gone else f"`{new}` is new" if new else "its leaves are in another order"
    for path, before, after in zip(paths, given.specs, leaves, strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            return f"`{path}` is {before.dtype}{list(before.shape)} and becomes {after.dtype}{list(after.shape)}"
    return "" if jax.tree.structure(returned) == given.structure else "it is of other containers"


def _kind_of(result: Any) -> str:
    if isinstance(result, tuple):
        return f"{len(result)} values"
    return f"{result.dtype}{list(result.shape)}" if hasattr(result, "shape") else f"a {type(result).__name__}"


# Precision applied at a function's edges: floating-point arrays are cast where they go in, and back where they come out.


def cast(tree: Any, dtype: str | None) -> Any:
    """The floating-point leaves of a pytree, arrays or their specs, in `dtype`; `None` leaves them as they are."""
    if dtype is None:
        return tree

    def change(leaf: Any) -> Any:
        if not is_float(leaf) or leaf.dtype == dtype:
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf.astype(dtype)

    return jax.tree.map(change, tree)


def cast_like(tree: Any, example: Any) -> Any:
    """The tree with each floating-point leaf in the type of its place in `example`."""
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype) if is_float(leaf) and leaf.dtype != like.dtype else leaf, tree, example)


def is_float(leaf: Any) -> bool:
    """Whether an array holds floating-point numbers (random keys and whole numbers are never cast)."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) and jnp.issubdtype(dtype, jnp.floating)


def compute_in(fn: Callable[..., Any], dtype: str | None, results: Any) -> Callable[..., Any]:
    """`fn`, its arguments cast to `dtype` and its results to the types of `results`. A model's state is not cast: running averages would
    stand still in few bits."""
    if dtype is None:
        return fn

    def call(*args: Any) -> Any:
        with jax.named_scope("precision"):
            given = tuple(
                each._replace(batch=cast(each.batch, dtype)) if isinstance(each, WithState) else cast(each, dtype) for each in args
            )
        found = fn(*given)
        with jax.named_scope("precision"):
            return cast_like(found, results)

    return call
