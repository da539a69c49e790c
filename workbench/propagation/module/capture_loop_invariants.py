"""Loop invariants are captured by the loop instead of carried, as XLA does before it propagates shardings.

A scan's constants and stacked inputs pass through the StableHLO loop unchanged. Carried, they would force one sharding on every use in the
loop through the carry's data-flow edge; captured, each use is free, which is what XLA's partitioner sees. As in its Shardy round trip
(`xla-sdy-open-while-free-vars-sharding`), an open sharding constraint before the loop lets the inside differ from the outside.
"""

import re

from jax.extend.mlir import ir

_CONSTRAINING = re.compile(r'["=]|\{\}')  # an axis, axes kept out or summed over, a dimension kept whole


def capture_invariants(parent: ir.Operation) -> None:
    """Capture in every loop below `parent`, outer loops first, in place."""
    for region in parent.regions:
        for block in region.blocks:
            for each in list(block.operations):
                op = each.operation
                if op.name == "stablehlo.while":
                    _capture(op)
                if len(op.regions) and op.name.startswith(("stablehlo.while", "stablehlo.case", "stablehlo.if")):
                    capture_invariants(op)


def _capture(loop: ir.Operation) -> None:
    condition, body = (region.blocks[0] for region in loop.regions)
    returning = list(body.operations)[-1].operation
    for i, argument in enumerate(body.arguments):
        if returning.operands[i] != argument or not ir.RankedTensorType(argument.type).rank:
            continue
        start = loop.operands[i]
        opened = _open_constraint(start, loop)
        argument.replace_all_uses_except(opened, returning)
        condition.arguments[i].replace_all_uses_with(opened)
        loop.results[i].replace_all_uses_with(start)


def _open_constraint(value: ir.Value, before: ir.Operation) -> ir.Value:
    dims = ", ".join(["{?}"] * ir.RankedTensorType(value.type).rank)
    # The mesh is declared when a plan is known (`propagate`); an inline empty mesh here makes Shardy's passes crash.
    sharding = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{dims}]>")
    insertion_point = ir.InsertionPoint(before)
    return ir.Operation.create(
        "sdy.sharding_constraint", [value.type], [value], {"sharding": sharding}, loc=before.location, ip=insertion_point
    ).result


def is_open(constraint: ir.Operation) -> bool:
    """Whether a constraint requests nothing, as those before loops do."""
    return _CONSTRAINING.search(str(constraint.attributes["sharding"])) is None
