"""Whether a value may stay a partial sum (Shardy's `unreduced`): only where its operation sums over a dimension sharded over that axis.

Anywhere else each device has the whole value, and the reduction that follows would count it once per device: Shardy accepts such a plan,
and XLA runs it to wrong numbers (measured). So Shardy's result is checked, and such a plan refused with an explanation.
"""

from collections.abc import Iterator

from jax.extend.mlir import ir

from workbench.core.selectors import operations_at
from workbench.core.sharding import Sharding, base_axis
from workbench.errors import LayoutError
from workbench.plan.plan import Plan
from workbench.propagation.module.mlir_context import main_function, producer
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.prepare_module import ID
from workbench.propagation.module.sharding_rules import rule_of
from workbench.propagation.module.shardy_attributes import read_annotation, read_annotations
from workbench.propagation.propagated_module import PropagationAnswer

_ADDITIVE = frozenset(
    f"stablehlo.{name}"
    for name in ("add", "subtract", "negate", "convert", "reshape", "transpose", "broadcast_in_dim", "slice", "concatenate", "reverse")
)
"""What makes partial sums of partial sums."""

_UnreducedConstraints = dict[int, tuple[str, Sharding]]  # by the number of an operation: what the layout says of it


def verify_partial_sums(module: ir.Operation, plan: Plan, answer: PropagationAnswer) -> None:
    """Raises `LayoutError` for a value that the layout leaves unreduced and that is no partial sum over that axis."""
    if not (unreduced_by_op := _find_unreduced(plan)):
        return
    for op in operations_below(main_function(module)):
        number = op.attributes[ID].value if ID in op.attributes else -1
        if number in unreduced_by_op:
            for axis in unreduced_by_op[number][1].unreduced:
                if plan.mesh[axis] > 1 and (error := _partial_sum_error(op, axis, plan, *unreduced_by_op[number], number, answer)):
                    raise error


def _find_unreduced(plan: Plan) -> _UnreducedConstraints:
    """The constraint that applies to each operation, the last one given, where it leaves a sum unreduced."""
    constraints = plan.layout.constraints
    if not any(sharding.unreduced for _, sharding in constraints):
        return {}
    found = {i: (at, sharding) for at, sharding in constraints for i in operations_at(plan.program, at, len(sharding.dims))}
    return {i: each for i, each in found.items() if each[1].unreduced}


def _partial_sum_error(
    op: ir.Operation, axis: str, plan: Plan, at: str, stated: Sharding, number: int, answer: PropagationAnswer
) -> LayoutError | None:
    operation = plan.program.operations[number]
    where = f"`{operation.path}`" + (f" ({operation.source})" if operation.source else "")
    rest = [f"leave `unreduced:{axis}` out of `@{at}`"]
    if not _is_sum(op, axis, answer):
        summed = tuple(dict.fromkeys(_summed_dim_names(op, plan)))
        split = f"split {' or '.join(f'`{name}`' for name in summed)}, which it sums over, on `{axis}`" if summed else ""
        return LayoutError(
            f"{where} is no partial sum over mesh axis `{axis}`: every device along it computes the whole value, "
            f"and adding those up would count it {plan.mesh[axis]} times.",
            [*([split] if split else [f"constrain a product or a sum whose summed dimension is split over `{axis}`"]), *rest],
        )
    if axis not in _unreduced_axes(op.results[0]):
        closed = Sharding(tuple(axes or () for axes in stated.dims), replicated=stated.replicated, unreduced=stated.unreduced)
        return LayoutError(
            f"{where} would be added up over mesh axis `{axis}` at once: `@{at}={stated}` leaves dimensions to propagation, which asks for "
            "the whole value there.",
            [f"give the sharding of all its dimensions, such as `@{at}={closed}`", *rest],
        )
    return None


def _is_sum(op: ir.Operation, axis: str, answer: PropagationAnswer) -> bool:
    """Whether it sums over a dimension sharded over `axis`, or adds up only partial sums over it."""
    if (rule := rule_of(op)) is not None:
        for operand, mapping in zip(op.operands, rule.operands, strict=False):
            for axes, factors in zip(answer.dims_of(operand), mapping, strict=False):
                if set(factors) & set(rule.reduction) and axis in map(base_axis, axes):
                    return True
    return op.name in _ADDITIVE and all(axis in _unreduced_axes(each) for each in op.operands)


def _unreduced_axes(value: ir.Value) -> tuple[str, ...]:
    """The axes over which a value is still to be summed; a value that is only declared so (`replicated_to_unreduced`) is whole."""
    owner = producer(value)
    if owner is None or owner.name == "sdy.replicated_to_unreduced":
        return ()
    if "out_sharding" in owner.attributes:
        return read_annotation(owner.attributes["out_sharding"]).unreduced
    if "sdy.sharding" in owner.attributes:
        return read_annotations(owner.attributes["sdy.sharding"])[ir.OpResult(value).result_number].unreduced
    return ()


def _summed_dim_names(op: ir.Operation, plan: Plan) -> Iterator[str]:
    """The names of the dimensions an operation sums over, as far as its operands' makers have any."""
    rule = rule_of(op)
    for operand, mapping in zip(op.operands, rule.operands if rule else (), strict=False):
        for name, factors in zip(_dim_names(operand, plan), mapping, strict=False):
            if rule and set(factors) & set(rule.reduction) and name not in ("", "_"):
                yield name


def _dim_names(value: ir.Value, plan: Plan) -> tuple[str, ...]:
    owner = producer(value)
    while owner is not None and ID not in owner.attributes and len(owner.operands) == 1:
        value = owner.operands[0]
        owner = producer(value)
    if owner is not None:
        return plan.program.operations[owner.attributes[ID].value].dims if ID in owner.attributes else ()
    is_argument = value.owner.owner.operation.name == "func.func"
    return plan.program.arguments[ir.BlockArgument(value).arg_number].dims if is_argument else ()
