"""From lowered StableHLO to a module ready for edits: everything that no layout changes is done here, once a trace.

    lowered module  ->  calls inlined  ->  the form XLA's partitioner sees  ->  loop invariants captured
                    ->  constants set apart  ->  what decides nothing dropped  ->  rules populated  ->  operations numbered

The result propagates as the program does in XLA, in half the operations.
"""

from jax.extend.mlir import ir

from workbench.partition.capture import capture_invariants
from workbench.partition.context import main_function, run_passes
from workbench.partition.hlo_form import to_hlo_form
from workbench.partition.inline import inline_calls
from workbench.partition.operations import CONTROL_FLOW
from workbench.partition.own_meshes import merge_meshes
from workbench.partition.prune import prune

ID = "wb_id"


def prepare(module: ir.Module) -> None:
    """Make the lowered module ready, in place."""
    with module.context, ir.Location.unknown():
        merge_meshes(module.operation)
        inline_calls(module.operation)
        to_hlo_form(main_function(module.operation))
        capture_invariants(main_function(module.operation))
        run_passes(module.operation, "sdy-constant-or-scalar-splitter")
        prune(main_function(module.operation))
        run_passes(module.operation, "sdy-add-data-flow-edges,func.func(sdy-populate-op-sharding-rules)")
        _number(main_function(module.operation), 0)


def _number(parent: ir.Operation, next_id: int) -> int:
    """Give each operation of the program its id, in program order."""
    integer = ir.IntegerType.get_signless(32)
    for region in parent.regions:
        for block in region.blocks:
            for each in block.operations:
                op = each.operation
                op.attributes[ID] = ir.IntegerAttr.get(integer, next_id)
                next_id += 1
                if op.name in CONTROL_FLOW:
                    next_id = _number(op, next_id)
    return next_id
