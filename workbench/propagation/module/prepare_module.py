"""From lowered StableHLO to a module ready for edits: everything that no layout changes is done here, once a trace.

    lowered module  ->  meshes merged, calls inlined  ->  the form XLA's partitioner sees  ->  loop invariants captured
                    ->  constants set apart  ->  irrelevant operations dropped  ->  rules populated  ->  operations numbered

The result propagates as the program does in XLA, in half the operations.
"""

from jax.extend.mlir import ir

from workbench.propagation.module.capture_loop_invariants import capture_invariants
from workbench.propagation.module.hlo_form import to_hlo_form
from workbench.propagation.module.inline_mlir_calls import inline_calls
from workbench.propagation.module.mlir_context import main_function, run_passes
from workbench.propagation.module.numbering import number_operations
from workbench.propagation.module.prune import prune

ID = "wb_id"


def prepare(module: ir.Module) -> None:
    """Prepare a module with one mesh for edits, in place."""
    with module.context, ir.Location.unknown():
        inline_calls(module.operation)
        to_hlo_form(main_function(module.operation))
        capture_invariants(main_function(module.operation))
        run_passes(module.operation, "sdy-constant-or-scalar-splitter")
        prune(main_function(module.operation))
        run_passes(module.operation, "sdy-add-data-flow-edges,func.func(sdy-populate-op-sharding-rules)")
        number_operations(main_function(module.operation), ID)
