"""Keeps constraints separate: a value that is constrained twice is resharded by way of the first constraint.

`sdy-reshard-to-collectives` does not mark where one reshard ends and the next begins, and the collectives depend on it:
XLA reshards one after the other. So a barrier replaces each constraint of the program as its value, and separates each
two other reshards.
"""

import re
from collections.abc import Container, Sequence

from jax.extend.mlir import ir

from workbench.propagation.module.hlo_form import ORDER
from workbench.propagation.module.mlir_context import producer
from workbench.propagation.module.operation_kinds import CONSTANTS, ELEMENTWISE, operations_below
from workbench.propagation.module.prepare_module import ID

RESHARD = "sdy.reshard"
_RULE, _SHARDING = "sdy.sharding_rule", "sdy.sharding"
_UNREDUCED = re.compile(r", unreduced=\{[^}]*\}")
_CHEAP_TO_REMAKE = {*CONSTANTS, "stablehlo.broadcast_in_dim", "stablehlo.iota"}  # each device computes its own shard


def drop_reshard_rules(ops: Sequence[ir.Operation]) -> None:
    """Remove the sharding rule of constraints that became reshards: Shardy would reshard after them, unlike XLA."""
    for op in ops:
        if op.name == RESHARD and _RULE in op.attributes:
            del op.attributes[_RULE]


def reshard_elementwise_operands(ops: Sequence[ir.Operation]) -> None:
    """Reshard elementwise operands to the result's sharding, as XLA does; Shardy may use a third one.

    Needed only with constraints: elsewhere, propagation rarely leaves such a conflict.
    """
    for op in [item for item in ops if item.name in ELEMENTWISE and _SHARDING in item.attributes]:
        mine = op.attributes[_SHARDING]
        for number, value in enumerate(op.operands):
            maker = producer(value)
            if maker is None or maker.name in _CHEAP_TO_REMAKE or (_SHARDING in maker.attributes and maker.attributes[_SHARDING] == mine):
                continue
            kind, result_sharding = ir.RankedTensorType(value.type), _sharding_text(op.results[0])
            if kind.rank and kind.shape == ir.RankedTensorType(op.results[0].type).shape and _sharding_text(value) != result_sharding:
                attributes = {"sharding": ir.Attribute.parse(f"#sdy.sharding{result_sharding}")}
                place = ir.InsertionPoint(op)
                reshard = ir.Operation.create(RESHARD, [value.type], [value], attributes, loc=op.location, ip=place)
                op.operands[number] = reshard.results[0]


def clear_unreduced_results(main: ir.Operation, stated: Container[int]) -> None:
    """Reduce unreduced results except those in `stated`: JAX returns whole values, unlike Shardy from JAX 0.11 on."""
    if "res_attrs" not in main.attributes:
        return
    entries = list(ir.ArrayAttr(main.attributes["res_attrs"]))
    for number, entry in enumerate(entries):
        if number not in stated and " unreduced=" in (text := str(entry)):
            entries[number] = ir.Attribute.parse(_UNREDUCED.sub("", text))
    main.attributes["res_attrs"] = ir.ArrayAttr.get(entries)


def insert_barriers(main: ir.Operation) -> None:
    """Insert the barriers; those of the program's constraints get their numbers."""
    reshards = [op for op in operations_below(main) if op.name == RESHARD]
    for op in [reshard for reshard in reshards if ID in reshard.attributes]:
        barrier = _insert_barrier(op.results[0], op.attributes["sharding"], op)
        barrier.move_after(op)
        op.results[0].replace_all_uses_except(barrier.results[0], barrier)
        for name in (ID, ORDER):
            if name in op.attributes:
                del op.attributes[name]
    for op in reshards:
        if (first := producer(op.operands[0])) is not None and first.name == RESHARD:
            before, between, after = _sharding_text(first.operands[0]), _sharding_text(first.results[0]), _sharding_text(op.results[0])
            if before != between != after:
                op.operands[0] = _insert_barrier(first.results[0], first.attributes["sharding"], op).results[0]


def _insert_barrier(value: ir.Value, sharding: ir.Attribute, place: ir.Operation) -> ir.Operation:
    per_value = ir.Attribute.parse(f"#sdy.sharding_per_value<[{str(sharding).removeprefix('#sdy.sharding')}]>")
    numbers = {name: place.attributes[name] for name in (ID, ORDER) if name in place.attributes}
    point = ir.InsertionPoint(place)
    attributes = {"sdy.sharding": per_value, **numbers}
    return ir.Operation.create("stablehlo.optimization_barrier", [value.type], [value], attributes, loc=place.location, ip=point)


def _sharding_text(value: ir.Value) -> str:
    """A value's sharding as text without open-dimension marks (`?`); for an argument its name."""
    owner = producer(value)
    if owner is None:
        return str(value)
    name = next((name for name in ("sharding", "out_sharding", "sdy.sharding") if name in owner.attributes), "")
    text = str(owner.attributes[name]) if name else ""
    return (
        text.removeprefix("#sdy.sharding")
        .removeprefix("_per_value<[")
        .removesuffix("]>" if "per_value" in text else "")
        .replace(", ?", "")
        .replace("?", "")
    )
