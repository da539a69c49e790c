"""Reshapes that drop a dimension of one element, which is cut nevertheless: Shardy's rule does not mention such dimensions, and XLA makes
them whole first (`HandleReshape`; openxla/xla, `spmd_partitioner.cc`). Deep in a convolutional network images may be that small.
"""

from jax.extend.mlir import ir

from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, gathered, shape_of


def read(op: ir.Operation) -> tuple[int, ...] | None:
    """The dimensions of one element."""
    return tuple(dim for dim, size in enumerate(shape_of(op.operands[0])) if size == 1) or None


def sends(facts: tuple[int, ...], placed: Placed) -> Answer | None:
    value, kept = placed.operands[0], {axis for axes in placed.results[0].dims for axis in axes}
    dropped = [dim for dim in facts if value.dims[dim] and not set(value.dims[dim]) <= kept]
    return Answer(gathered(placed, value._replace(stored=value.dims), dropped)) if dropped else NOTHING


RESHAPING = Operator("reshape", ("stablehlo.reshape",), read, sends)
