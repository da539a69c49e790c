"""The error that rounding explains, measured: how far a step moves when every argument moves by one rounding."""

from collections.abc import Sequence
from functools import partial
from math import isfinite

import jax

from workbench.core.program import Program

_FAR_ABOVE = 30.0  # sums in another order, at every layer: more roundings than one, of which most cancel
_MOST = 0.5  # of the largest magnitude: as much is wrong, whatever the dtype
_CHAOTIC = 3.0  # times what one rounding does, for steps where one rounding does as much as that
_MULTIPLIED_BY_TPUS = "bfloat16"  # which TPUs round operands of matrix products to
_TF32 = 2.0**-11  # the unit roundoff of TF32, which NVIDIA's GPUs may round operands of float32 products to


def explained_error(sensitivity: float, epsilon: float) -> float:
    """The largest relative error that rounding explains; `sensitivity` is the relative change that one rounding of the arguments makes.

    >>> explained_error(2e-7, 1.2e-7) < 1e-5, explained_error(0.02, 0.008), explained_error(1.0, 0.008)
    (True, 0.5, 3.0)
    """
    one = max(sensitivity, epsilon) if isfinite(sensitivity) else epsilon
    return min(_FAR_ABOVE * one, max(_MOST, _CHAOTIC * one))


def largest_epsilon(program: Program, platform: str) -> float:
    """The machine epsilon of the coarsest floating-point dtype that the program computes in."""
    names = {each.dtype for each in program.operations} | {each.dtype for each in (*program.arguments, *program.results)}
    names |= {_MULTIPLIED_BY_TPUS} if platform == "tpu" else set()
    coarsest = max((float(jax.numpy.finfo(name).eps) for name in names if _is_float(name)), default=0.0)
    return max(coarsest, _TF32) if platform in ("gpu", "cuda") and "float32" in names else coarsest


def move_by_rounding(leaves: Sequence[jax.Array], epsilon: float) -> list[jax.Array]:
    """The arrays with each floating-point number larger or smaller by `epsilon` of itself, at random; others as they are."""
    keys = jax.random.split(jax.random.key(0), max(len(leaves), 1))
    return [_move(leaf, key, epsilon) if _is_float(str(leaf.dtype)) else leaf for leaf, key in zip(leaves, keys, strict=False)]


@partial(jax.jit, static_argnums=2)
def _move(leaf: jax.Array, key: jax.Array, epsilon: float) -> jax.Array:
    wide = leaf.astype(jax.numpy.promote_types(leaf.dtype, "float32"))
    moved: jax.Array = jax.numpy.where(jax.random.bernoulli(key, shape=leaf.shape), wide * (1 + epsilon), wide * (1 - epsilon))
    return moved.astype(leaf.dtype)


def _is_float(name: str) -> bool:
    try:
        return bool(jax.dtypes.issubdtype(jax.numpy.dtype(name), jax.numpy.floating))
    except TypeError:  # a random key, a token
        return False
