"""AdamW with one-byte moments and one float32 scale per block (Dettmers et al. 2022, arXiv:2110.02861).

    first moment    float8_e4m3fn [..., n]      scale float32 [..., n / block]
    second moment   float8_e4m3fn, its root     scale float32

The types are those of torchao's `AdamFp8`. The 8-bit integers of bitsandbytes have the same size, but would need a table lookup in XLA. A
block lies along one dimension, and the arrays keep the parameter's shape, so a moment is sharded like its parameter. The second moment is
stored as its square root, which halves the range of exponents. Arrays of fewer than 4,096 elements stay in float32, as in bitsandbytes.
"""

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

SMALLEST, BLOCK, SHORTEST = 4096, 256, 32
_CODES = jnp.float8_e4m3fn


class EightBitState(NamedTuple):
    """The step number, and for both moments the codes and the block scales (`None` for a moment in float32)."""

    count: Any
    mu: Any
    mu_scale: Any
    nu_root: Any
    nu_scale: Any


def eight_bit_adamw(learning_rate: float, *, weight_decay: float = 1e-4) -> optax.GradientTransformation:
    """`optax.adamw` with 8-bit moments."""
    return optax.chain(_scale_by_eight_bit_adam(), optax.add_decayed_weights(weight_decay), optax.scale_by_learning_rate(learning_rate))


def block_of(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The dimension along which a moment is divided into blocks, and their length; `None` for a moment that stays in float32.

    This is the shortest dimension with blocks of at least 128, so that the scales keep the longest dimension, along which state is sharded.

    >>> block_of((32, 4096, 8, 6, 128)), block_of((128256, 4096)), block_of((64, 7)), block_of((80, 1000))
    ((4, 128), (1, 256), None, (1, 250))
    """
    lengths = [max(part for part in range(1, min(size, BLOCK) + 1) if size % part == 0) for size in shape]
    if prod(shape) < SMALLEST or max(lengths) < SHORTEST:
        return None
    return max(enumerate(lengths), key=lambda each: (min(each[1], BLOCK // 2), -shape[each[0]], each[0]))


def _scale_by_eight_bit_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> optax.GradientTransformation:
    def init(params: Any) -> EightBitState:
        zeros = [_quantize(jnp.zeros(each.shape, jnp.float32)) for each in jax.tree.leaves(params)]
        codes, scales = _trees(params, zeros)
        return EightBitState(jnp.zeros((), jnp.int32), codes, scales, codes, scales)

    def update(gradients: Any, state: EightBitState, params: Any = None) -> tuple[Any, EightBitState]:
        del params
        count = state.count + 1
        changes, first, second = [], [], []
        moments = zip(*(jax.tree.structure(gradients).flatten_up_to(each) for each in state[1:]), strict=True)
        for gradient, (codes, scale, root_codes, root_scale) in zip(jax.tree.leaves(gradients), moments, strict=True):
            exact = gradient.astype(jnp.float32)
            mu = b1 * _dequantize(codes, scale) + (1 - b1) * exact
            root = jnp.sqrt(b2 * jnp.square(_dequantize(root_codes, root_scale)) + (1 - b2) * jnp.square(exact))
            bias = jnp.sqrt(1 - b2**count) / (1 - b1**count)
            changes.append((bias * mu / (root + eps)).astype(gradient.dtype))
            first.append(_quantize(mu))
            second.append(_quantize(root))
        new = EightBitState(count, *_trees(gradients, first), *_trees(gradients, second))
        return jax.tree.unflatten(jax.tree.structure(gradients), changes), new

    return optax.GradientTransformation(init, update)


def _trees(like: Any, pairs: Iterable[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The codes and the scales as two trees with the parameters' structure."""
    codes, scales = zip(*pairs, strict=True)
    structure = jax.tree.structure(like)
    return jax.tree.unflatten(structure, codes), jax.tree.unflatten(structure, scales)


def _quantize(x: Any) -> tuple[Any, Any]:
    """The codes of float32 numbers, and for each block the scale to multiply them by."""
    block = block_of(x.shape)
    if block is None:
        return x, None
    dim, length = block
    blocks = x.reshape(*x.shape[:dim], -1, length, *x.shape[dim + 1 :])
    largest = jnp.max(jnp.abs(blocks), axis=dim + 1, keepdims=True)
    scale = jnp.where(largest > 0, largest / float(jnp.finfo(_CODES).max), 1.0)
    return (blocks / scale).astype(_CODES).reshape(x.shape), scale.squeeze(dim + 1)


def _dequantize(codes: Any, scale: Any) -> Any:
    if scale is None:
        return codes
    dim, length = block_of(codes.shape) or (0, 1)
    blocks = codes.reshape(*codes.shape[:dim], -1, length, *codes.shape[dim + 1 :])
    return (blocks.astype(jnp.float32) * jnp.expand_dims(scale, dim + 1)).reshape(codes.shape)
