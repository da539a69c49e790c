"""Numbers on operations, in program order: Shardy's passes keep attributes they do not know."""

from jax.extend.mlir import ir

from workbench.propagation.module.operation_kinds import operations_below


def number_operations(parent: ir.Operation, attribute: str) -> None:
    """Give each operation below `parent` its number, from 0."""
    integer = ir.IntegerType.get_signless(32)
    for number, op in enumerate(operations_below(parent)):
        op.attributes[attribute] = ir.IntegerAttr.get(integer, number)
