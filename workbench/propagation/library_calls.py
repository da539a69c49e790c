"""Calls of routines that XLA does not see into: LAPACK's, cuSOLVER's and libtpu's decompositions of matrices, and a user's own.

Shardy splits a matrix like any value. XLA's partitioner splits a routine along its batch, if JAX states how many dimensions that has, and
gathers all other dimensions of what the routine reads (`custom_call_handler.cc`).
"""

import itertools
import string
from collections.abc import Collection, Sequence

from jax.extend.mlir import ir

from workbench.propagation.module.mlir_context import shape_of
from workbench.propagation.xla_backends import Backend

_CALL, _FRONTEND, _BATCH = "stablehlo.custom_call", "mhlo.frontend_attributes", "num_batch_dims"
_NOT_SPLIT = "Eigh"  # of libtpu: Shardy has a rule for it, but every device does the whole batch


def library_rule(op: ir.Operation, backend: Backend, *, has_rule: bool) -> str:
    """The sharding rule of a routine or a triangular solve as XLA partitions it; empty for other operations.

    `has_rule` is whether Shardy has one.
    """
    if op.name == "stablehlo.triangular_solve" and backend.expands_solves:
        return _solving_rule(op)
    batch = _batch_rank(op, has_rule=has_rule)
    if batch is None:
        return ""
    letters = iter(string.ascii_lowercase[8:])
    shared = list(itertools.islice(letters, batch))
    sides = [
        [[*shared[: len(shape)], *itertools.islice(letters, max(0, len(shape) - batch))] for shape in map(shape_of, values)]
        for values in (op.operands, op.results)
    ]
    return _rule_text(op, sides, split=shared)


def is_done_whole(op: ir.Operation) -> bool:
    """Whether every device does a routine for the whole batch although Shardy splits it."""
    return op.name == _CALL and ir.StringAttr(op.attributes["call_target_name"]).value == _NOT_SPLIT


def _batch_rank(op: ir.Operation, *, has_rule: bool) -> int | None:
    """The number of leading dimensions along which XLA splits a routine; `None` for other operations."""
    if op.name == "stablehlo.triangular_solve":
        return len(shape_of(op.operands[0])) - 2
    if op.name != _CALL:
        return None
    frontend = ir.DictAttr(op.attributes[_FRONTEND]) if _FRONTEND in op.attributes else {}
    if _BATCH in frontend:
        return int(ir.StringAttr(frontend[_BATCH]).value)
    return None if has_rule and not is_done_whole(op) else 0


def _solving_rule(op: ir.Operation) -> str:
    """The systems of a batch, and the right-hand sides of each, are independent."""
    *batch, row, column, right = list(string.ascii_lowercase[8:])[: len(shape_of(op.operands[0])) + 1]
    is_left = ir.BoolAttr(op.attributes["left_side"]).value
    solved = [*batch, row, right] if is_left else [*batch, right, row]
    return _rule_text(op, [[[*batch, row, column], solved], [solved]], split=[*batch, right])


def _rule_text(op: ir.Operation, sides: Sequence[Sequence[Sequence[str]]], split: Collection[str]) -> str:
    """The rule with these factors of operands and results; those that are not `split` are gathered."""
    sizes: dict[str, int] = {}
    for names, value in zip((names for side in sides for names in side), (*op.operands, *op.results), strict=True):
        sizes |= zip(names, shape_of(value), strict=True)
    operands, results = (", ".join(f"[{', '.join(names)}]" for names in side) for side in sides)
    stated, whole = ", ".join(f"{name}={size}" for name, size in sizes.items()), ", ".join(name for name in sizes if name not in split)
    gathered = f" need_replication={{{whole}}}" if whole else ""
    return f"#sdy.op_sharding_rule<({operands})->({results}) {{{stated}}}{gathered}>"
