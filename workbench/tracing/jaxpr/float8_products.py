"""Products with float8 operands, scaled each time by their largest magnitude (Micikevicius et al. 2022, arXiv:2209.05433; dynamic
scaling as torchao's `float8_linear` does it).

An operand x becomes q = x s in eight bits, with s = the type's largest number / max |x|; the product of two is divided by both scales.
The gradients of both operands are such products, too. Scaling, casting and multiplication are operations of the step; no state is carried
to the next step. The backward pass casts a weight again, because a kept copy would take memory for each micro-batch in flight.

    tensorwise   one s for an operand; gradients arrive in e5m2, with more range, the rest is e4m3
    rowwise      one s for each row, over what the product sums; all in e4m3. An operand is then cast once for each of its two products
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from workbench.core.precision import SCALED_PRODUCT
from workbench.errors import PrecisionError, unknown_name

E4M3, E5M2 = jnp.float8_e4m3fn, jnp.float8_e5m2
SCALINGS = ("tensorwise", "rowwise")
_SMALLEST = 1e-12
"""The lower bound of a largest magnitude, so that zeros have a scale."""

Einsum = Callable[[str, Any, Any], Any]


def product_by(scaling: str) -> Einsum:
    """`einsum(subscripts, x, w)` of two operands: in float8 by one of `SCALINGS`, in the operands' own type if `scaling` is empty.

    Raises `PrecisionError` for another scaling.
    """
    if scaling and scaling not in SCALINGS:
        raise PrecisionError(*unknown_name("scaling of float8", scaling, SCALINGS))
    return partial(scaled_einsum, scaling=scaling) if scaling else jnp.einsum


def scaled_einsum(subscripts: str, x: Any, w: Any, *, scaling: str) -> Any:
    """`jnp.einsum(subscripts, x, w)` in float8; operands and result have one type. As in a weight product, every letter is in
    exactly two of the three terms."""
    return _scaled_product(x, w, subscripts, scaling)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _scaled_product(x: Any, w: Any, subscripts: str, scaling: str) -> Any:
    return _forward(x, w, subscripts, scaling)[0]


def _forward(x: Any, w: Any, subscripts: str, scaling: str) -> tuple[Any, Any]:
    left, right, out = split_subscripts(subscripts)
    quantized = _quantize(x, _summed(left, out, scaling), E4M3), _quantize(w, _summed(right, out, scaling), E4M3)
    kept = tuple(checkpoint_name(each, f"{left} in eight bits") for each in quantized[0])
    result = _multiply(f"{left},{right}->{out}", kept, quantized[1], x.dtype)
    return result, (kept, w) if scaling == "tensorwise" else (x, w)


def _backward(subscripts: str, scaling: str, residuals: Any, arriving: Any) -> tuple[Any, Any]:
    left, right, out = split_subscripts(subscripts)
    if scaling == "tensorwise":
        x, w, g = residuals[0], _quantize(residuals[1], (), E4M3), _quantize(arriving, (), E5M2)
        for_x, for_w = (g, w), (x, g)
    else:
        x, w = residuals
        for_x = _quantize(arriving, _summed(out, left, scaling), E4M3), _quantize(w, _summed(right, left, scaling), E4M3)
        for_w = _quantize(x, _summed(left, right, scaling), E4M3), _quantize(arriving, _summed(out, right, scaling), E4M3)
    return (_multiply(f"{out},{right}->{left}", *for_x, arriving.dtype), _multiply(f"{left},{out}->{right}", *for_w, arriving.dtype))


_scaled_product.defvjp(_forward, _backward)


def split_subscripts(subscripts: str) -> tuple[str, str, str]:
    """
    >>> split_subscripts("bsd,df->bsf")
    ('bsd', 'df', 'bsf')
    """
    operands, _, out = subscripts.partition("->")
    left, _, right = operands.partition(",")
    return left, right, out


def _summed(letters: str, out: str, scaling: str) -> tuple[int, ...]:
    """The dimensions that share a scale: the dimensions that a product to `out` sums, or () for all dimensions.

    >>> _summed("bsd", "bsf", "rowwise"), _summed("bsd", "bsf", "tensorwise")
    ((2,), ())
    """
    return tuple(dim for dim, letter in enumerate(letters) if letter not in out) if scaling == "rowwise" else ()


def _quantize(x: Any, dims: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    """x in eight bits, and the float32 factor that restores x; its size is 1 in each dimension of `dims`, in all dimensions if ()."""
    with jax.named_scope("quantize"):
        with jax.named_scope("scale"):
            largest = jnp.max(jnp.abs(x), axis=dims or None, keepdims=True).astype(jnp.float32)
            with jax.named_scope("divide"):  # a separate call, for one number or one per row
                scale = float(jnp.finfo(dtype).max) / jnp.maximum(largest, _SMALLEST)
        with jax.named_scope("cast"):
            return (x.astype(jnp.float32) * scale).astype(dtype), 1 / scale


def _multiply(subscripts: str, x: tuple[Any, Any], w: tuple[Any, Any], dtype: Any) -> Any:
    """The product of two quantized operands, of type `dtype`. Devices also sum partial results in this type, except for float16, whose
    range is too small for the product before scaling."""
    left, right, out = split_subscripts(subscripts)
    with jax.named_scope(SCALED_PRODUCT):
        product = jnp.einsum(subscripts, x[0], w[0], preferred_element_type=jnp.float32 if dtype == jnp.float16 else dtype)
        return (product.astype(jnp.float32) * (align_scale(x[1], left, out) * align_scale(w[1], right, out))).astype(dtype)


def align_scale(scale: Any, letters: str, out: str) -> Any:
    """A scale with the dimensions of `letters`, 1 where it is summed, in the order of `out`, 1 for what the operand does not have."""
    order = sorted(range(len(letters)), key=lambda dim: out.find(letters[dim]))
    sizes = {letters[dim]: scale.shape[dim] for dim in order}
    return jnp.transpose(scale, order).reshape([sizes.get(letter, 1) for letter in out])
