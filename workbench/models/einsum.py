"""Any einsum of a few tensors, in the notation of papers: what a lesson begins with.

`C[I,K] = A[I,J] B[J,K]` is a matrix product; `B[I,J] = A[I,J]` computes nothing, and costs what it takes to bring A from one sharding to
another: an all-gather, an all-to-all, a slice of what is there.
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
"""For the default product on eight devices: its rows, the dimension summed over, rows and columns, all three."""
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
    """The program of an equation at these sizes, one for each of its dimensions in the order of their first appearance on the right.

    With `backward`, also the gradients of its operands, for a gradient of the result that is given. Raises `DocumentError` for a text that
    is no equation, for sizes that are not as many as its dimensions, and for another type.
    """
    if dtype not in _DTYPES or (backward and dtype == "int8"):
        raise DocumentError(*unknown_name("type", dtype, FLOATS if backward else _DTYPES, " of an einsum"))
    result, operands = _parse(equation)
    size_of = _sizes(equation, operands, sizes)
    forward = _forward(result, operands)
    call = _with_gradients(forward, result, operands) if backward else forward
    given = (*operands, *((_Operand(f"d{result.name}", result.dims),) if backward else ()))
    specs = [jax.ShapeDtypeStruct(tuple(size_of[dim] for dim in each.dims), dtype) for each in given]
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # the arguments' names
        [inspect.Parameter(each.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in given]
    )
    return trace(call, *specs, dims={each.name: " ".join(each.dims) for each in given}, name="einsum")


def _parse(equation: str) -> tuple[_Operand, tuple[_Operand, ...]]:
    """The result and the operands. Raises `DocumentError`."""
    left, equals, right = equation.partition("=")
    found, operands = _read(left), _read(right)
    if not equals or len(found) != 1 or not 1 <= len(operands) <= MOST_TENSORS:
        raise DocumentError(f"`{equation[:80]}` is not an equation of tensors.", [_WAY_OUT])
    result, names = found[0], [each.name for each in (*found, *operands)]
    known = {dim for each in operands for dim in each.dims}
    if missing := [dim for dim in result.dims if dim not in known]:
        raise DocumentError(f"`{equation[:80]}`: {result.name} has a dimension `{missing[0]}` that no operand has.", [_WAY_OUT])
    if len(set(names)) < len(names) or any(len(set(each.dims)) < len(each.dims) for each in (*found, *operands)):
        raise DocumentError(
            f"`{equation[:80]}` has a name twice where each should be its own.", ["give each tensor, and each of its dimensions, a name"]
        )
    return result, operands


def _read(text: str) -> tuple[_Operand, ...]:
    """The tensors of one side; none where it is not made of tensors alone."""
    found = list(_TENSOR.finditer(text))
    if "".join(each[0] for each in found) != text:
        return ()
    return tuple(_Operand(each[1], tuple(dim.strip() for dim in each[2].split(","))) for each in found)


def _sizes(equation: str, operands: tuple[_Operand, ...], sizes: tuple[int, ...]) -> dict[str, int]:
    dims = tuple(dict.fromkeys(dim for each in operands for dim in each.dims))
    if len(sizes) != len(dims):
        raise DocumentError(
            f"`{equation[:80]}` has {len(dims)} dimensions, {', '.join(f'`{dim}`' for dim in dims)}; `sizes` has {len(sizes)} numbers.",
            [f"give {len(dims)}, in this order"],
        )
    return dict(zip(dims, sizes, strict=True))


def _forward(result: _Operand, operands: tuple[_Operand, ...]) -> Callable[..., Any]:
    """The einsum, as a function of its operands."""
    letters = dict(zip(dict.fromkeys(dim for each in operands for dim in each.dims), ascii_letters, strict=False))
    if len(operands) == 1 and set(operands[0].dims) == set(result.dims):
        order = tuple(operands[0].dims.index(dim) for dim in result.dims)
        # a barrier is there for the partitioner, and the compiler drops it: without, the result would be the argument itself
        return lambda tensor: jnp.transpose(jax.lax.optimization_barrier(tensor), order)
    *sides, made = ("".join(letters[dim] for dim in each.dims) for each in (*operands, result))
    text = f"{','.join(sides)}->{made}"
    return lambda *tensors: jnp.einsum(text, *tensors)


def _with_gradients(forward: Callable[..., Any], result: _Operand, given: tuple[_Operand, ...]) -> Callable[..., Any]:
    """The einsum and the gradients of its operands, `C`, `dA` and `dB`, as a function of the operands and the gradient of the result."""

    def both(*tensors: Any) -> Any:
        *operands, gradient = tensors
        made, pull_back = jax.vjp(forward, *operands)
        gradients = zip((f"d{each.name}" for each in given), pull_back(gradient), strict=True)
        return {result.name: made, **dict(gradients)}

    return both
