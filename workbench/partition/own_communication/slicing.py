"""Slices and pads along a cut dimension, as windows of one element: a slice's padding is negative.

Where the parts of the result start elsewhere than those of the operand, each fetches what it lacks (`HandleSlice`, `HandlePad`;
openxla/xla, `spmd_partitioner.cc`).
"""

from jax.extend.mlir import ir

from workbench.partition.own_communication.placed import Answer, Operator, Placed, numbers, shape_of
from workbench.partition.own_communication.rotation import rotation_of
from workbench.partition.own_communication.windowed_reduction import Windows
from workbench.partition.own_communication.windows import Window, windowed


def read_slice(op: ir.Operation) -> Windows | None:
    if _is_rotated(op):
        return None
    rows = zip(shape_of(op.operands[0]), numbers(op, "start_indices"), numbers(op, "limit_indices"), numbers(op, "strides"), strict=True)
    found = tuple(Window(stride=stride, low=-start, high=limit - size) for size, start, limit, stride in rows)
    return None if all(each.is_trivial for each in found) else found


def _is_rotated(op: ir.Operation) -> bool:
    """Half of a rotation, which is one operation to XLA."""
    users = [use.owner.operation for use in op.results[0].uses]
    return bool(users) and all(user.name == "stablehlo.concatenate" and rotation_of(user) is not None for user in users)


def read_pad(op: ir.Operation) -> Windows | None:
    rows = zip(*(numbers(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")), strict=True)
    found = tuple(Window(low=low, high=high, base_dilation=interior + 1) for low, high, interior in rows)
    return None if all(each.is_trivial for each in found) else found


def sends(facts: Windows, placed: Placed) -> Answer | None:
    return windowed(facts, placed)


SLICE = Operator("slice", ("stablehlo.slice",), read_slice, sends)
PAD = Operator("pad", ("stablehlo.pad",), read_pad, sends)
