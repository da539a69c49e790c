"""The function's own annotations, read off the prepared module: `core.source_annotations.SourceAnnotations`."""

import re
from collections import Counter

from jax.extend.mlir import ir

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.core.source_annotations import ManualRegion, SourceAnnotations, SourceConstraint, SourceType
from workbench.propagation.module.mlir_context import declared_mesh, main_function
from workbench.propagation.module.operation_kinds import axes_made_manual, operations_below
from workbench.propagation.module.shardy_attributes import read_annotation, read_annotations
from workbench.propagation.prepared_program import load_prepared


@cache_with_program(5)
def source_annotations(program: Program) -> SourceAnnotations:
    """What the traced function itself says of shardings."""
    module, structure = load_prepared(program)
    with module.context:
        main = main_function(module.operation)
        mesh = re.findall(r'"([^"]+)"=(\d+)', str(declared_mesh(module.operation).attributes["mesh"]))
        annotating_kinds = structure.kinds & {"sdy.sharding_constraint", "sdy.manual_computation"}
        ops = list(operations_below(main)) if annotating_kinds else []
        return SourceAnnotations(
            tuple((name, int(size)) for name, size in mesh),
            _read_types(program, main),
            _read_constraints(program, ops),
            _read_regions(program, ops),
        )


def _read_types(program: Program, main: ir.Operation) -> tuple[SourceType, ...]:
    if "arg_attrs" not in main.attributes:
        return ()
    entries = [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["arg_attrs"])]
    return tuple(
        SourceType(tensor.path, read_annotation(each["sdy.sharding"]))
        for tensor, each in zip(program.arguments, entries, strict=True)
        if "sdy.sharding" in each
    )


def _read_constraints(program: Program, ops: list[ir.Operation]) -> tuple[SourceConstraint, ...]:
    """Constraints that say something, alike ones together: one with all dimensions open says nothing."""
    found: Counter[SourceConstraint] = Counter()
    for operation, op in zip(program.operations, ops, strict=False):
        if op.name != "sdy.sharding_constraint":
            continue
        sharding = read_annotation(op.attributes["sharding"])
        if sharding.named_axes or any(dim is not None for dim in sharding.dims):
            path = operation.path.removesuffix("/sharding_constraint") or operation.path
            found[SourceConstraint(path, operation.source, operation.shape, operation.dtype, sharding, operation.manual)] += 1
    return tuple(
        SourceConstraint(each.path, each.source, each.shape, each.dtype, each.sharding, each.manual, times) for each, times in found.items()
    )


def _read_regions(program: Program, ops: list[ir.Operation]) -> tuple[ManualRegion, ...]:
    return tuple(
        ManualRegion(
            operation.path,
            operation.source,
            axes_made_manual(op),
            read_annotations(op.attributes["in_shardings"]),
            read_annotations(op.attributes["out_shardings"]),
        )
        for operation, op in zip(program.operations, ops, strict=False)
        if op.name == "sdy.manual_computation"
    )
