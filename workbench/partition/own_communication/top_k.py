"""The largest k of a dimension. XLA:CPU and XLA:GPU have no partitioned form of `topk` and replicate its operand, batch dimensions too
(`DefaultAction`; openxla/xla, `spmd_partitioner.cc`).

XLA:TPU sorts and slices instead before it partitions: a cut batch dimension sends nothing then; what a cut sorted dimension sends is not
told.
"""

from jax.extend.mlir import ir

from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed
from workbench.partition.own_communication.windows import whole

_TARGET = "call_target_name"


def read(op: ir.Operation) -> bool | None:
    return True if _TARGET in op.attributes and ir.StringAttr(op.attributes[_TARGET]).value == "mhlo.topk" else None


def sends(facts: bool, placed: Placed) -> Answer | None:  # noqa: ARG001 - that it is one is all there is to know
    operand = placed.operands[0]
    if not any(operand.stored):
        return NOTHING
    if placed.backend.expands_early:
        return None if operand.stored[-1] else NOTHING
    return whole(placed, 0)


TOP_K = Operator("top-k", ("stablehlo.custom_call",), read, sends)
