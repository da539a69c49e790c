"""Model state without gradients (running statistics, random keys, counters), frozen parameters, and dtype casts at a
function's boundaries.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from workbench.errors import TraceError
from workbench.tracing.leaves import Leaves, named_leaves


class WithState(NamedTuple):
    """The second argument of a loss with state."""

    state: Any
    batch: Any


def pack_state(loss: Callable[..., Any]) -> Callable[..., Any]:
    """`loss(params, state, batch)` as a function of parameters and `WithState`."""

    def packed(params: Any, given: WithState) -> Any:
        return loss(params, given.state, given.batch)

    return packed


def verify_state(state: Leaves, result: Any, name: str) -> None:
    """Raise `TraceError` unless a loss with a result of these shapes returns its value and a matching new state."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise TraceError(
            f"`{name}` takes state and returns {_kind_of(result)}; it must return its value and the new state.",
            ["return (value, state)", "omit `state` if it never changes, and pass it in the batch"],
        )
    if difference := first_difference(state, result[1], "state"):
        raise TraceError(
            f"The state that `{name}` returns differs from the state it takes: {difference}.",
            ["return every leaf, changed or not, in the shape and type it was given", "cast it back, `.astype(...)`"],
        )


def first_difference(given: Leaves, returned: Any, root: str) -> str:
    """A message on the first leaf in which a pytree of shapes differs from `given`; empty if there is none."""
    paths, leaves = named_leaves(root, returned)
    paths = paths if root else [path.partition("/")[2] for path in paths]
    if paths != given.paths:
        missing, new = (
            next((path for path in one if path not in other), "") for one, other in ((given.paths, paths), (paths, given.paths))
        )
        return f"`{missing}` is not returned" if missing else f"`{new}` is new" if new else "its leaves have another order"
    for path, before, after in zip(paths, given.specs, leaves, strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            return f"`{path}` is {before.dtype}{list(before.shape)} and becomes {after.dtype}{list(after.shape)}"
    return "" if jax.tree.structure(returned) == given.structure else "it has other container types"


def _kind_of(result: Any) -> str:
    if isinstance(result, tuple):
        return f"{len(result)} values"
    return f"{result.dtype}{list(result.shape)}" if hasattr(result, "shape") else f"a {type(result).__name__}"


# Frozen parameters, of which no gradient is taken; the optimizer does not see them.


def trained_tree(structure: Any, leaves: Sequence[Any], frozen: Collection[int]) -> Any:
    """The parameters' pytree with `None` for the frozen leaves."""
    return jax.tree.unflatten(structure, [None if i in frozen else leaf for i, leaf in enumerate(leaves)])


def of_trained(loss: Callable[..., Any], structure: Any, leaves: Sequence[Any], frozen: Collection[int]) -> Callable[..., Any]:
    """`loss(params, ...)` as a function of the `trained_tree` alone; the frozen ones are taken from `leaves`."""
    if not frozen:
        return loss

    def call(trained: Any, *rest: Any) -> Any:
        values = iter(jax.tree.leaves(trained))
        return loss(jax.tree.unflatten(structure, [leaf if i in frozen else next(values) for i, leaf in enumerate(leaves)]), *rest)

    return call


# Precision at a function's boundaries: floating-point arguments are cast, and results cast back.


def cast(tree: Any, dtype: str | None) -> Any:
    """A pytree with floating-point leaves, arrays or specs, cast to `dtype`; unchanged for `None`."""
    if dtype is None:
        return tree

    def change(leaf: Any) -> Any:
        if not is_float(leaf) or leaf.dtype == dtype:
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf.astype(dtype)

    return jax.tree.map(change, tree)


def cast_like(tree: Any, example: Any) -> Any:
    """A pytree with each floating-point leaf cast to the type of its counterpart in `example`."""
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype) if is_float(leaf) and leaf.dtype != like.dtype else leaf, tree, example)


def is_float(leaf: Any) -> bool:
    """Return whether an array holds floating-point numbers, not random keys or integers."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) and jnp.issubdtype(dtype, jnp.floating)


def compute_in(fn: Callable[..., Any], dtype: str | None, results: Any) -> Callable[..., Any]:
    """`fn` in `dtype`, with results cast back; state is not cast: low-precision running averages would stall."""
    if dtype is None:
        return fn

    def call(*args: Any) -> Any:
        with jax.named_scope("precision"):
            cast_args = tuple(
                arg._replace(batch=cast(arg.batch, dtype)) if isinstance(arg, WithState) else cast(arg, dtype) for arg in args
            )
        outputs = fn(*cast_args)
        with jax.named_scope("precision"):
            return cast_like(outputs, results)

    return call
