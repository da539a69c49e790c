"""Any einsum of a few tensors in the notation of papers, for lessons.

`C[I,K] = A[I,J] B[J,K]` is a matrix product. `B[I,J] = A[I,J]` computes nothing and costs only the reshard of A: an
all-gather, an all-to-all or a local slice.
"""

import inspect
import re
from collections.abc import Callable
from string import ascii_letters
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.errors import DocumentError, unknown_name
from workbench.models.config_fields import FLOATS
from workbench.tracing import trace

LAYOUTS = (("x:8", "I:x"), ("x:8", "J:x"), ("x:4 y:2", "I:x; K:y"), ("x:2 y:2 z:2", "I:x; J:y; K:z"))
"""For the default product on eight devices: rows, the contracted dimension, rows and columns, all three."""
MOST_TENSORS = 8
_TENSOR = re.compile(r"\s*([A-Za-z]\w{0,19})\s*\[\s*([A-Za-z]\w{0,19}(?:\s*,\s*[A-Za-z]\w{0,19})*)\s*\]\s*")
_DTYPES = (*FLOATS, "int8")
_WAY_OUT = 'write "C[I,K] = A[I,J] B[J,K]"'


class _Operand(NamedTuple):
    name: str
    dims: tuple[str, ...]


def build(
    *, equation: str = "C[I,K] = A[I,J] B[J,K]", sizes: tuple[int, ...] = (1024, 512, 2048), dtype: str = "bfloat16", backward: bool = False
) -> Program:
    """Build the program of an equation; `sizes` are its dimensions in order of their first appearance on the right
    side.

    `backward` adds the gradients of the operands, for a given gradient of the result. Raises `DocumentError` for a
    malformed equation, a wrong number of sizes, or an unknown dtype.
    """
    if dtype not in _DTYPES or (backward and dtype == "int8"):
        raise DocumentError(*unknown_name("type", dtype, FLOATS if backward else _DTYPES, " of an einsum"))
    result, operands = _parse(equation)
    size_of = _sizes(equation, operands, sizes)
    forward = _forward(result, operands)
    call = _with_gradients(forward, result, operands) if backward else forward
    arguments = (*operands, *((_Operand(f"d{result.name}", result.dims),) if backward else ()))
    specs = [jax.ShapeDtypeStruct(tuple(size_of[dim] for dim in argument.dims), dtype) for argument in arguments]
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # the arguments' names
        [inspect.Parameter(argument.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for argument in arguments]
    )
    return trace(call, *specs, dims={argument.name: " ".join(argument.dims) for argument in arguments}, name="einsum")


def _parse(equation: str) -> tuple[_Operand, tuple[_Operand, ...]]:
    left, equals, right = equation.partition("=")
    results, operands = _read(left), _read(right)
    if not equals or len(results) != 1 or not 1 <= len(operands) <= MOST_TENSORS:
        raise DocumentError(f"`{equation[:80]}` is not an equation of tensors.", [_WAY_OUT])
    result, names = results[0], [tensor.name for tensor in (*results, *operands)]
    operand_dims = {dim for tensor in operands for dim in tensor.dims}
    if missing := [dim for dim in result.dims if dim not in operand_dims]:
        raise DocumentError(f"`{equation[:80]}`: {result.name} has a dimension `{missing[0]}` that no operand has.", [_WAY_OUT])
    if len(set(names)) < len(names) or any(len(set(tensor.dims)) < len(tensor.dims) for tensor in (*results, *operands)):
        raise DocumentError(
            f"`{equation[:80]}` has a name twice where each should be its own.", ["give each tensor, and each of its dimensions, a name"]
        )
    return result, operands


def _read(text: str) -> tuple[_Operand, ...]:
    """The tensors of one side; empty if the text is malformed."""
    matches = list(_TENSOR.finditer(text))
    if "".join(match[0] for match in matches) != text:
        return ()
    return tuple(_Operand(match[1], tuple(dim.strip() for dim in match[2].split(","))) for match in matches)


def _sizes(equation: str, operands: tuple[_Operand, ...], sizes: tuple[int, ...]) -> dict[str, int]:
    dims = tuple(dict.fromkeys(dim for operand in operands for dim in operand.dims))
    if len(sizes) != len(dims):
        raise DocumentError(
            f"`{equation[:80]}` has {len(dims)} dimensions, {', '.join(f'`{dim}`' for dim in dims)}; `sizes` has {len(sizes)} numbers.",
            [f"give {len(dims)}, in this order"],
        )
    return dict(zip(dims, sizes, strict=True))


def _forward(result: _Operand, operands: tuple[_Operand, ...]) -> Callable[..., Any]:
    """The einsum as a function of its operands."""
    letters = dict(zip(dict.fromkeys(dim for tensor_ in operands for dim in tensor_.dims), ascii_letters, strict=False))
    if len(operands) == 1 and set(operands[0].dims) == set(result.dims):
        order = tuple(operands[0].dims.index(dim) for dim in result.dims)
        # without the barrier the result would be the argument itself; the partitioner sees it and the compiler drops it
        return lambda tensor: jnp.transpose(jax.lax.optimization_barrier(tensor), order)
    *sides, output = ("".join(letters[dim] for dim in tensor_.dims) for tensor_ in (*operands, result))
    text = f"{','.join(sides)}->{output}"
    return lambda *tensors: jnp.einsum(text, *tensors)


def _with_gradients(forward: Callable[..., Any], result: _Operand, given: tuple[_Operand, ...]) -> Callable[..., Any]:
    """`C`, `dA` and `dB` as a function of the operands and of the gradient of the result."""

    def both(*tensors: Any) -> Any:
        *operands, gradient = tensors
        value, pull_back = jax.vjp(forward, *operands)
        gradients = zip((f"d{operand.name}" for operand in given), pull_back(gradient), strict=True)
        return {result.name: value, **dict(gradients)}

    return both
