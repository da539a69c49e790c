"""Products with float8 operands, scaled each time by their largest magnitude (Micikevicius et al. 2022, arXiv:2209.05433; dynamic
scaling as torchao's `float8_linear` does it).

An operand x becomes q = x s in eight bits, with s = the type's largest number / max |x|; the product of two is divided by both scales.
The gradients of both operands are such products, too. Scaling, casting and multiplication are operations of the step; no state is carried
to the next step. The backward pass casts a weight again, because a kept copy would take memory for each micro-batch in flight.

    tensorwise   one s for an operand; gradients arrive in e5m2, with more range, the rest is e4m3
    rowwise      one s for each row, over what the product sums; all in e4m3. An operand is then cast once for each of its two products
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import count
from operator import or_
from string import ascii_letters
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.extend import core as jex_core

from workbench.core.precision import SCALED_PRODUCT
from workbench.errors import PrecisionError, unknown_name
from workbench.tracing.jaxpr.equations import (
    BATCH,
    BOTH,
    CALLS,
    PARAMETERS,
    jaxprs_in,
    parts_of,
    rewrite_inside,
    scan_widths,
    substituted,
    variables,
)

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


# Rewrites a function's jaxpr before differentiation, so that its weight products are computed in float8.
#
# A weight product multiplies an activation with a weight, or with a value that depends only on weights. The rewrite applies to products
# in layers: in the body of a scan, in a `jax.checkpoint`, or in a function marked by `wb.layer`. In a function without layers it applies
# to all weight products but the first and the last.
#
# These products keep their type, as in the recipes of torchao and Transformer Engine:
#
# - products outside of layers, such as the head or a first projection;
# - routers: a top-k or a sort reads their result before another product does;
# - products with a dimension that is not a multiple of 16, as the float8 units require;
# - products of two activations, as in attention.


MULTIPLE = 16
_LAYERS = ("scan", "remat", "remat2", "checkpoint")
_HOLDERS = (*CALLS, *_LAYERS, "custom_jvp_call")
_CHOOSING = ("top_k", "approx_top_k", "sort", "argmax", "argmin")


class InFloat8:
    """`fn` with its weight products in float8; `parameters` are the numbers of the arguments whose leaves are weights.

    A trace raises `PrecisionError` if there is no such product.
    """

    def __init__(self, fn: Callable[..., Any], scaling: str, name: str, parameters: Sequence[int] = (0,)) -> None:
        self._fn, self._scaling, self._name, self._parameters = fn, scaling, name, tuple(parameters)

    def __call__(self, *args: Any) -> Any:
        closed, shape = jax.make_jaxpr(partial(self._fn), return_shape=True)(*args)
        leaves = [jax.tree.leaves(each) for each in args]
        parts = [PARAMETERS if number in self._parameters else BATCH for number, each in enumerate(leaves) for _ in each]
        rewritten = rewrite_products(closed, parts, self._scaling)
        if rewritten is None:
            raise PrecisionError(
                f"`{self._name}` has no weight product in its layers that can be computed in float8.",
                [
                    "mark its layers with `@wb.layer`",
                    f"use widths that are multiples of {MULTIPLE}",
                    "use the plan's `remat` in place of the model's `recompute=replay`",
                ],
            )
        return jax.tree.unflatten(jax.tree.structure(shape), jex_core.jaxpr_as_fun(rewritten)(*(leaf for each in leaves for leaf in each)))

    def __reduce__(self) -> tuple[Any, ...]:
        return InFloat8, (self._fn, self._scaling, self._name, self._parameters)


def rewrite_products(closed: Any, parts: Sequence[int], scaling: str) -> Any:
    """The jaxpr with weight products in float8, or `None` without such products; `parts` marks the arguments that are parameters."""
    chosen = float8_products(closed, parts)
    return jex_core.ClosedJaxpr(_replace(closed.jaxpr, chosen, scaling), closed.consts) if chosen else None


def float8_products(closed: Any, parts: Sequence[int]) -> set[int]:
    """The ids of the equations that `rewrite_products` makes in float8."""
    found = _ProductFinder()
    found.read(closed.jaxpr, parts, in_layer=False)
    return {id(eqn) for eqn in found.chosen()}


@dataclass(slots=True)
class _ProductFinder:
    """The weight products of a jaxpr, in order, and whether each is in a layer. Equal layers share a jaxpr."""

    products: dict[int, tuple[Any, bool]] = field(default_factory=dict)

    def chosen(self) -> Iterator[Any]:
        """The products to make in float8."""
        products = list(self.products.values())
        if not any(in_layer for _, in_layer in products):
            products = [(eqn, True) for eqn, _ in products[1:-1]]
        return (eqn for eqn, in_layer in products if in_layer and _has_whole_tiles(eqn))

    def read(self, jaxpr: Any, parts: Sequence[int], *, in_layer: bool) -> list[int]:
        """Read the equations of a jaxpr whose arguments depend on `parts`, and return the parts that its results depend on."""
        of = dict(zip(jaxpr.invars, parts, strict=True))
        for eqn in jaxpr.eqns:
            reads = parts_of(eqn.invars, of)
            if _is_of_weights(eqn, reads) and not _chooses(eqn, jaxpr.eqns):
                self.products.setdefault(id(eqn), (eqn, in_layer))
            results = self._read_inside(eqn, reads, in_layer=in_layer)
            of.update(zip(eqn.outvars, results or [reduce(or_, reads, 0)] * len(eqn.outvars), strict=True))
        return parts_of(jaxpr.outvars, of)

    def _read_inside(self, eqn: Any, reads: list[int], *, in_layer: bool) -> list[int]:
        """Read the jaxpr that an equation calls, and return the parts of its results; empty if it calls none."""
        name, inner = eqn.primitive.name, list(jaxprs_in(eqn))
        if name not in _HOLDERS or not inner:
            return []
        if name == "scan":  # carried values depend on the batch
            constants, carried = scan_widths(eqn)
            reads = [part | (BATCH if constants <= at < constants + carried else 0) for at, part in enumerate(reads)]
        return self.read(inner[0], reads, in_layer=in_layer or name in _LAYERS)


def _is_of_weights(eqn: Any, reads: Sequence[int]) -> bool:
    """Whether an equation multiplies a weight with an activation."""
    return eqn.primitive.name == "dot_general" and sorted(reads) in ([PARAMETERS, BATCH], [PARAMETERS, BOTH])


def _has_whole_tiles(eqn: Any) -> bool:
    """Whether the contracted and the free size of both operands are multiples of 16."""
    (left, right), batch = eqn.params["dimension_numbers"]
    sizes = []
    for atom, summed, shared in zip(eqn.invars, (left, right), batch, strict=True):
        free, contracted = 1, 1
        for dim, size in enumerate(atom.aval.shape):
            contracted *= size if dim in summed else 1
            free *= 1 if dim in (*summed, *shared) else size
        sizes += [free, contracted]
    return all(size % MULTIPLE == 0 for size in sizes)


def _chooses(product: Any, eqns: Iterable[Any]) -> bool:
    """Whether a choice among experts reads the result of a product before another product does."""
    reached = set(product.outvars)
    for eqn in eqns:
        if reached.isdisjoint(variables(eqn.invars)) or eqn.primitive.name == "dot_general":
            continue
        inside = {each.primitive.name for inner in jaxprs_in(eqn) for each in inner.eqns}
        if eqn.primitive.name in _CHOOSING or not inside.isdisjoint(_CHOOSING):
            return True
        if "dot_general" not in inside:
            reached.update(eqn.outvars)
    return False


def _replace(jaxpr: Any, chosen: set[int], scaling: str) -> Any:
    """The jaxpr with the chosen products in float8, also in the jaxprs inside it."""
    eqns: list[Any] = []
    known: dict[Any, Any] = {}
    for eqn in jaxpr.eqns:
        placed = eqn.replace(invars=substituted(eqn.invars, known))
        if id(eqn) in chosen:
            eqns += _scaled_equations(placed, known, scaling)
        elif eqn.primitive.name in _HOLDERS:
            eqns.append(rewrite_inside(placed, lambda inner: _replace(inner, chosen, scaling)))
        else:
            eqns.append(placed)
    return jaxpr.replace(eqns=eqns, outvars=substituted(jaxpr.outvars, known))


def _scaled_equations(eqn: Any, known: dict[Any, Any], scaling: str) -> list[Any]:
    """The equations of a product in float8, in the scope of the product; adds the variable of its result to `known`."""
    subscripts, dtype = subscripts_of(eqn), eqn.outvars[0].aval.dtype

    def multiply(x: Any, w: Any) -> Any:
        return scaled_einsum(subscripts, x, w, scaling=scaling).astype(dtype)

    inner = jax.make_jaxpr(multiply)(*(jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in eqn.invars)).jaxpr
    names = dict(zip(inner.invars, eqn.invars, strict=True))
    found = []
    for each in inner.eqns:
        fresh = [jex_core.Var(var.aval) for var in each.outvars]
        invars = substituted(each.invars, names)
        names.update(zip(each.outvars, fresh, strict=True))
        found.append(each.replace(invars=invars, outvars=fresh, source_info=eqn.source_info))
    known[eqn.outvars[0]] = substituted(inner.outvars, names)[0]
    return found


def subscripts_of(eqn: Any) -> str:
    """The einsum subscripts of a `dot_general`, in JAX's order of the result: batch dimensions, then the free dimensions of both sides."""
    (summed_left, summed_right), (shared_left, shared_right) = eqn.params["dimension_numbers"]
    letters = map(ascii_letters.__getitem__, count())
    left = [next(letters) for _ in eqn.invars[0].aval.shape]
    right = [""] * len(eqn.invars[1].aval.shape)
    for one, other in (*zip(summed_left, summed_right, strict=True), *zip(shared_left, shared_right, strict=True)):
        right[other] = left[one]
    right = [letter or next(letters) for letter in right]
    shared = [left[dim] for dim in shared_left]
    free = [each for dim, each in enumerate(left) if dim not in (*summed_left, *shared_left)]
    free += [each for dim, each in enumerate(right) if dim not in (*summed_right, *shared_right)]
    return f"{''.join(left)},{''.join(right)}->{''.join((*shared, *free))}"
