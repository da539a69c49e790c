"""Inserts the all-reduces of variadic reductions (an argmax reduces pairs) that Shardy leaves out from JAX 0.11 on.

Shardy recognizes only reductions of one value by a sum, maximum or the like. XLA's partitioner reduces on each device
and gathers all candidates. The all-reduces that Shardy of JAX 0.10 inserted represent that here.
"""

from jax.extend.mlir import ir

from workbench.propagation.module.infer_dim_names import rule_of
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.shardy_attributes import Dims, ShardingReader, axes_text, sharding_text
from workbench.propagation.structure.program_structure import Structure

_ALL_REDUCE = "sdy.all_reduce"


def is_variadic_reduce(op: ir.Operation | None) -> bool:
    """Return whether an operation reduces several values at once, such as an argmax; XLA gathers all candidates."""
    return op is not None and op.name == "stablehlo.reduce" and len(op.results) > 1


def has_variadic_reduces(structure: Structure) -> bool:
    return any(op.kind == "stablehlo.reduce" and len(op.results) > 1 for op in structure.ops)


def reduce_variadic(main: ir.Operation) -> None:
    """Insert an all-reduce after each result of a variadic reduction over sharded dimensions, unless there is one."""
    reader = ShardingReader(main)
    for op in [op_in_main for op_in_main in operations_below(main) if is_variadic_reduce(op_in_main)]:
        is_explicit = any(use.owner.operation.name == _ALL_REDUCE for result in op.results for use in result.uses)
        if not is_explicit and (axes := _summed_axes(op, reader)):
            for result in op.results:
                dims = reader.dims_of(result) or ((),) * ir.RankedTensorType(result.type).rank
                _insert_all_reduce(op, result, axes, dims)


def _summed_axes(op: ir.Operation, reader: ShardingReader) -> tuple[str, ...]:
    """The axes of the reduced dimensions of the first operand; Shardy shards the other operands alike."""
    rule = rule_of(op)
    if rule is None:
        return ()
    dims_and_factors = zip(reader.dims_of(op.operands[0]), rule.operands[0], strict=False)
    return tuple(axis for axes, factors in dims_and_factors if set(factors) & set(rule.reduction) for axis in axes)


def _insert_all_reduce(op: ir.Operation, result: ir.Value, axes: tuple[str, ...], dims: Dims) -> None:
    attributes = {
        "reduction_axes": ir.Attribute.parse(f"#sdy<axis_ref_list{{{axes_text(axes)}}}>"),
        "out_sharding": ir.Attribute.parse(f"#sdy.sharding{sharding_text(dims)}"),
    }
    all_reduce = ir.Operation.create(_ALL_REDUCE, [result.type], [result], attributes, loc=op.location, ip=ir.InsertionPoint(op))
    all_reduce.move_after(op)
    result.replace_all_uses_except(all_reduce.results[0], all_reduce)
