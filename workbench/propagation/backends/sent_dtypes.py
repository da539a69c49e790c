"""The type in which a back end sends a value, and so the number of bytes."""

import re
from collections.abc import Sequence

from jax.extend.mlir import ir

from workbench.propagation.backends.xla_backends import Backend
from workbench.propagation.structure.operation_work import is_exact

_NARROW_FLOAT = re.compile(r"[x<](bf16|f16|f8E\w+)>$")
"""The type of an array of floats for which XLA:CPU has no arithmetic: it sends one of two bytes as four, and one of a byte as two."""


def adjust_sent_bytes(backend: Backend, op: ir.Operation, kind: str, local: int, payload: int) -> tuple[int, int]:
    """Bytes of the result and bytes sent, in the type that the back end sends what `op` makes."""
    if _is_narrowed(backend, op, kind):
        return local // 2, payload // 2
    if backend.widens_two_byte_floats and _NARROW_FLOAT.search(str(op.operands[0].type)):
        return local * 2, payload * 2
    return local, payload


def _is_narrowed(backend: Backend, op: ir.Operation, kind: str) -> bool:
    return kind == "all-gather" and is_rounded(backend, [use.owner.operation for use in op.results[0].uses], op.operands[0])


def is_rounded(backend: Backend, readers: Sequence[ir.Operation], value: ir.Value) -> bool:
    """Whether a value is rounded to two bytes before it is sent, given all its readers."""
    if not backend.narrows_dot_operands or not str(value.type).endswith("xf32>"):
        return False
    return bool(readers) and all(each.name == "stablehlo.dot_general" and not is_exact(each) for each in readers)
