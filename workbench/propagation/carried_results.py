"""Gives each carried result the sharding of its argument in the next step, also if the plan leaves the argument open.

Propagation does not see the next step and may shard the two differently, and XLA cannot donate an argument's memory to
a result with another sharding. So the result is resharded: after propagation in the planner's module, behind a barrier
in the compiled one.
"""

from collections.abc import Sequence

from jax.extend.mlir import ir

from workbench.core.sharding import Sharding
from workbench.plan.plan import Plan
from workbench.propagation.module.insert_statements import sharding_attribute

_SHARDING = "sdy.sharding"
_NONE = 0  # sdy.PropagationDirection


def close_arguments(main: ir.Operation, plan: Plan, lies: Sequence[Sharding]) -> None:
    """Close open arguments with the shardings in `lies`, so that XLA's own propagation cannot choose others."""
    entries = list(ir.ArrayAttr(main.attributes["arg_attrs"]))
    kinds = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    for number, requested in enumerate(plan.argument_shardings):
        if not requested.is_closed:
            other_entries = {entry.name: entry.attr for entry in ir.DictAttr(entries[number])}
            closed = sharding_attribute(lies[number], plan.mesh, ir.RankedTensorType(kinds[number]).rank)
            entries[number] = ir.DictAttr.get(other_entries | {_SHARDING: closed})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)


def open_carried_results(plan: Plan) -> tuple[tuple[int, int], ...]:
    """The `(result, argument)` pairs of carried results whose argument has an open dimension."""
    return tuple((result, argument) for result, argument in plan.program.carried if not plan.argument_shardings[argument].is_closed)


def reshard_carried_results(main: ir.Operation, plan: Plan) -> None:
    """Return each open carried result in the propagated sharding of its argument."""
    if not (carried := open_carried_results(plan)):
        return
    arguments, results = (list(ir.ArrayAttr(main.attributes[side])) for side in ("arg_attrs", "res_attrs"))
    for result, argument in carried:
        entries = {entry.name: entry.attr for entry in ir.DictAttr(results[result])}
        argument_attrs = ir.DictAttr(arguments[argument])
        if _SHARDING in argument_attrs:
            results[result] = ir.DictAttr.get(entries | {_SHARDING: argument_attrs[_SHARDING]})
    main.attributes["res_attrs"] = ir.ArrayAttr.get(results)


def pin_carried_results(main: ir.Operation, plan: Plan, lies: Sequence[Sharding]) -> None:
    """Return each open carried result in its argument's sharding in `lies`, behind a propagation barrier."""
    carried = open_carried_results(plan)
    entries = list(ir.ArrayAttr(main.attributes["res_attrs"]))
    end = main.regions[0].blocks[0].operations[-1].operation
    for result, argument in carried:
        value = end.operands[result]
        rank = ir.RankedTensorType(value.type).rank
        requested, closed = (
            sharding_attribute(sharding, plan.mesh, rank) for sharding in (plan.argument_shardings[argument], lies[argument])
        )
        constrained = ir.Operation.create(
            "sdy.sharding_constraint", [value.type], [value], {"sharding": requested}, ip=ir.InsertionPoint(end)
        )
        direction = {"allowed_direction": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _NONE)}
        barrier = ir.Operation.create("sdy.propagation_barrier", [value.type], [constrained.result], direction, ip=ir.InsertionPoint(end))
        end.operands[result] = barrier.result
        other_entries = {entry.name: entry.attr for entry in ir.DictAttr(entries[result])}
        entries[result] = ir.DictAttr.get(other_entries | {_SHARDING: closed})
    main.attributes["res_attrs"] = ir.ArrayAttr.get(entries)
