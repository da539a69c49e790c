"""Numbers on operations, in the order they stand: Shardy's passes keep an attribute they do not know."""

from jax.extend.mlir import ir

from workbench.partition.operations import CONTROL_FLOW


def number_operations(parent: ir.Operation, attribute: str, first: int = 0) -> int:
    """Give each operation below `parent` its number, a loop before what is in it; returns the next free one."""
    integer = ir.IntegerType.get_signless(32)
    for region in parent.regions:
        for block in region.blocks:
            for each in block.operations:
                op = each.operation
                op.attributes[attribute] = ir.IntegerAttr.get(integer, first)
                first += 1
                if op.name in CONTROL_FLOW:
                    first = number_operations(op, attribute, first)
    return first
