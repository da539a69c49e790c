"""Constraints kept apart: a value that is constrained twice goes by way of the first constraint.

`sdy-reshard-to-collectives` leaves no sign of where one reshard ends and the next begins, and what is sent depends on it: XLA takes them
one after the other. A barrier stands for each constraint of the program, as its value, and between each two reshards else.
"""

from jax.extend.mlir import ir

from workbench.partition.context import producer
from workbench.partition.hlo_form import ORDER
from workbench.partition.operations import operations_below
from workbench.partition.prepare import ID

RESHARD = "sdy.reshard"
_RULE = "sdy.sharding_rule"


def forget_rules(main: ir.Operation) -> None:
    """Take their rule from the constraints that became reshards: with one, Shardy would move the reshard behind them, where XLA has none."""
    for op in operations_below(main):
        if op.name == RESHARD and _RULE in op.attributes:
            del op.attributes[_RULE]


def keep_apart(main: ir.Operation) -> None:
    """Put the barriers in place; those of the program's constraints have their numbers."""
    reshards = [op for op in operations_below(main) if op.name == RESHARD]
    for op in [each for each in reshards if ID in each.attributes]:
        barrier = _barrier(op.results[0], op.attributes["sharding"], op)
        barrier.move_after(op)
        op.results[0].replace_all_uses_except(barrier.results[0], barrier)
        for name in (ID, ORDER):
            if name in op.attributes:
                del op.attributes[name]
    for op in reshards:
        if (first := producer(op.operands[0])) is not None and first.name == RESHARD:
            before, between, after = _lies(first.operands[0]), _lies(first.results[0]), _lies(op.results[0])
            if before != between != after:
                op.operands[0] = _barrier(first.results[0], first.attributes["sharding"], op).results[0]


def _barrier(value: ir.Value, sharding: ir.Attribute, place: ir.Operation) -> ir.Operation:
    """A barrier that lies so, before `place`, with that one's number if it has one."""
    lies = ir.Attribute.parse(f"#sdy.sharding_per_value<[{str(sharding).removeprefix('#sdy.sharding')}]>")
    numbers = {name: place.attributes[name] for name in (ID, ORDER) if name in place.attributes}
    point = ir.InsertionPoint(place)
    attributes = {"sdy.sharding": lies, **numbers}
    return ir.Operation.create("stablehlo.optimization_barrier", [value.type], [value], attributes, loc=place.location, ip=point)


def _lies(value: ir.Value) -> str:
    """How a value lies, as text without what only propagation reads (`?`); its own name for an argument."""
    owner = producer(value)
    if owner is None:
        return str(value)
    name = next((name for name in ("sharding", "out_sharding", "sdy.sharding") if name in owner.attributes), "")
    text = str(owner.attributes[name]) if name else ""
    return text.removeprefix("#sdy.sharding").removeprefix("_per_value<[").removesuffix("]>" if "per_value" in text else "").replace(", ?", "").replace("?", "")
