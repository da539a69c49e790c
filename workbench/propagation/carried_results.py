"""A result that becomes an argument of the next step gets that argument's sharding, also where the plan leaves the argument open.

Propagation knows nothing of the next step: it may give the two different shardings, and XLA cannot donate an argument's memory to a result
that is sharded otherwise. So the result is resharded, after propagation in the planner's module, behind a barrier in the compiled one.
"""

from collections.abc import Sequence

from jax.extend.mlir import ir

from workbench.core.sharding import Sharding
from workbench.plan.plan import Plan
from workbench.propagation.module.insert_statements import sharding_attribute

_SHARDING = "sdy.sharding"
_NONE = 0  # sdy.PropagationDirection


def close_arguments(main: ir.Operation, plan: Plan, lies: Sequence[Sharding]) -> None:
    """Close the arguments that the plan leaves open, with the shardings in `lies`: a run passes them so, and XLA, which propagates again,
    must not choose others."""
    entries = list(ir.ArrayAttr(main.attributes["arg_attrs"]))
    kinds = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).inputs
    for number, requested in enumerate(plan.argument_shardings):
        if not requested.is_closed:
            other_entries = {entry.name: entry.attr for entry in ir.DictAttr(entries[number])}
            closed = sharding_attribute(lies[number], plan.mesh, ir.RankedTensorType(kinds[number]).rank)
            entries[number] = ir.DictAttr.get(other_entries | {_SHARDING: closed})
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)


def list_open_carried(plan: Plan) -> tuple[tuple[int, int], ...]:
    """The carried results, and their arguments, where the plan leaves a dimension of the argument open."""
    return tuple((result, argument) for result, argument in plan.program.carried if not plan.argument_shardings[argument].is_closed)


def reshard_carried_results(main: ir.Operation, plan: Plan) -> None:
    """Return each open carried result in the sharding that propagation gave its argument, resharded where needed."""
    if not (carried := list_open_carried(plan)):
        return
    arguments, results = (list(ir.ArrayAttr(main.attributes[side])) for side in ("arg_attrs", "res_attrs"))
    for result, argument in carried:
        entries = {entry.name: entry.attr for entry in ir.DictAttr(results[result])}
        lies = ir.DictAttr(arguments[argument])
        if _SHARDING in lies:
            results[result] = ir.DictAttr.get(entries | {_SHARDING: lies[_SHARDING]})
    main.attributes["res_attrs"] = ir.ArrayAttr.get(results)


def pin_carried_results(main: ir.Operation, plan: Plan, lies: Sequence[Sharding]) -> None:
    """Return each open carried result in the sharding that `lies` has for its argument. A barrier hides this from propagation."""
    carried = list_open_carried(plan)
    entries = list(ir.ArrayAttr(main.attributes["res_attrs"]))
    end = main.regions[0].blocks[0].operations[-1].operation
    for result, argument in carried:
        value = end.operands[result]
        rank = ir.RankedTensorType(value.type).rank
        requested, closed = (sharding_attribute(each, plan.mesh, rank) for each in (plan.argument_shardings[argument], lies[argument]))
        constrained = ir.Operation.create(
            "sdy.sharding_constraint", [value.type], [value], {"sharding": requested}, ip=ir.InsertionPoint(end)
        )
        direction = {"allowed_direction": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _NONE)}
        barrier = ir.Operation.create("sdy.propagation_barrier", [value.type], [constrained.result], direction, ip=ir.InsertionPoint(end))
        end.operands[result] = barrier.result
        other_entries = {entry.name: entry.attr for entry in ir.DictAttr(entries[result])}
        entries[result] = ir.DictAttr.get(other_entries | {_SHARDING: closed})
    main.attributes["res_attrs"] = ir.ArrayAttr.get(entries)
