"""Sums over devices: which collectives a back end makes of one, which of them are put off because results are only added up, and which
values may stay partial sums."""

import math
from collections.abc import Iterator
from dataclasses import replace

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.path_patterns import operations_at
from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.errors import LayoutError
from workbench.plan.plan import Plan
from workbench.propagation.module.infer_dim_names import rule_of
from workbench.propagation.module.mlir_context import main_function, producer
from workbench.propagation.module.operation_kinds import adds_updates, operations_below
from workbench.propagation.module.prepare_module import ID
from workbench.propagation.module.shardy_attributes import Dims, axis_names, read_annotation, read_annotations
from workbench.propagation.propagated_module import PropagationAnswer
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.operation_work import dimension_numbers
from workbench.propagation.xla_backends import Backend

_SUMS, _ADDITION = ("sdy.all_reduce", "sdy.reduce_scatter"), "stablehlo.add"


class Reductions:
    """The all-reduces and reduce-scatters of one answer, in order of appearance."""

    def __init__(self, mesh: Mesh, backend: Backend, answer: PropagationAnswer) -> None:
        self._mesh, self._backend, self._answer = mesh, backend, answer
        self._scattered: dict[ir.Operation, bool] = {}  # additions, see `_is_scattered_onto`
        self._first_reductions: dict[tuple[ir.Operation, tuple[str, ...]], ir.Operation] = {}  # that an addition reads

    def is_added_first(self, op: ir.Operation, reshard: InsertedCollective) -> bool:
        """Whether a sum is added to another before that is reduced, and needs no reduction of its own."""
        if not self._backend.adds_before_reducing or reshard.kind not in ("all-reduce", "reduce-scatter"):
            return False
        addition = find_sole_addition(op)
        if addition is not None and self._backend.merges_addend_into_scatter and reshard.kind == "reduce-scatter":
            while (later := find_sole_addition(addition)) is not None:
                addition = later
        elif addition is not None and self._backend.merges_addend_into_scatter and self._is_scattered_onto(addition):
            addition = find_sole_addition(addition) if self._adds(_find_added(op.results[0])) else None
            if addition is not None and self._is_scattered_onto(addition):
                return False
        return addition is not None and self._first_reductions.setdefault((addition, reshard.axes), op) != op

    def _is_scattered_onto(self, addition: ir.Operation) -> bool:
        """Whether one of the two that are added is a scatter that adds, or became one in this way; a stack, not recursion: a table may be
        looked up a thousand times."""
        pending = [addition]
        while pending:
            added = [_find_added(value) for value in pending[-1].operands]
            unknown = [each for each in added if each is not None and each.name == _ADDITION and each not in self._scattered]
            if unknown:
                pending += unknown
            else:
                self._scattered[pending.pop()] = sum(map(self._adds, added)) == 1
        return self._scattered[addition]

    def _adds(self, made: ir.Operation | None) -> bool:
        """Whether an operation is a scatter that adds, or an addition that becomes one."""
        if made is not None and made.name == _ADDITION:
            return self._is_scattered_onto(made) if made not in self._scattered else self._scattered[made]
        return made is not None and adds_updates(made)

    def split_reduction(self, op: ir.Operation, reshard: InsertedCollective) -> list[InsertedCollective]:
        """What a back end makes of one all-reduce or reduce-scatter: one collective or several."""
        if reshard.kind != "all-reduce":
            return [reshard]
        if self._backend.reduce_scatters_dots and (kept := self._slice_axes(op, reshard.axes)):
            parts = math.prod(axis_size(axis, self._mesh) for axis in kept)
            rest = tuple(axis for axis in reshard.axes if axis not in kept)
            scattered = replace(reshard, kind="reduce-scatter", axes=kept, local_bytes=reshard.local_bytes // parts)
            return [scattered, replace(reshard, axes=rest, payload=reshard.payload // parts, local_bytes=reshard.local_bytes // parts)]
        return [replace(reshard, axes=axes) for axes in self._group_axes(op, reshard.axes)]

    def _slice_axes(self, op: ir.Operation, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes, some but not all of `axes`, along which each device keeps its slice of a dot's sum."""
        source, users = producer(op.operands[0]), [use.owner.operation for use in op.results[0].uses]
        if source is None or source.name != "stablehlo.dot_general" or len(users) != 1 or users[0].name != "sdy.all_slice":
            return ()
        kept = tuple(axis for axis in axes if axis in axis_names(str(users[0].attributes["slicing_axes"])))
        return kept if len(kept) < len(axes) else ()

    def _group_axes(self, op: ir.Operation, axes: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The axes of an all-reduce, grouped by summed dimension: XLA's partitioner makes one all-reduce for each dimension."""
        source = producer(op.operands[0])
        if self._backend.folds_reductions or source is None or len(axes) < 2 or (rule := rule_of(source)) is None:
            return [axes]
        groups: dict[tuple[str, ...], None] = {}
        for operand, mapping in zip(source.operands, rule.operands, strict=True):
            for dim, factors in zip(self._answer.dims_of(operand), mapping, strict=True):
                summed = tuple(axis for axis in dim if axis in axes)
                if summed and set(factors) & set(rule.reduction):
                    groups[summed] = None
        if together := _window_sum_axes(source, self._answer.dims_of(source.operands[0]), self._mesh):
            groups = dict.fromkeys((together, *(group for group in groups if not set(group) & set(together))))
        return list(groups) if sorted(axis for group in groups for axis in group) == sorted(axes) else [axes]

    def is_reduced_behind_loop(self, op: ir.Operation) -> bool:
        """Whether a sum in a loop is reduced once, behind it."""
        return self._backend.sums_behind_loops and op.name in _SUMS and is_added_up(op)


def _window_sum_axes(op: ir.Operation, image: Dims, mesh: Mesh) -> tuple[str, ...]:
    """The axes that split a convolution's windows, or also its channels, if they are convolved separately: XLA sums those at once."""
    if op.name != "stablehlo.convolution":
        return ()
    is_grouped = any(ir.IntegerAttr(op.attributes[f"{name}_group_count"]).value > 1 for name in ("feature", "batch"))
    words = zip(dimension_numbers(op)[0], image, strict=True)
    found = [axis for word, axes in words if word.isdigit() or (is_grouped and word == "f") for axis in axes]
    return tuple(sorted(found, key=lambda axis: mesh.names.index(base_axis(axis))))


def _find_added(value: ir.Value) -> ir.Operation | None:
    """The operation that makes a value before it is reduced, if nothing else reads that."""
    made = producer(value)
    while made is not None and made.name in _SUMS:
        value = made.operands[0]
        made = producer(value)
    return None if made is None or len(list(value.uses)) > 1 else made


# Values that are only added to others, and sums that a loop only accumulates.

_MOVES = ("stablehlo.transpose", "stablehlo.reshape", "sdy.all_slice")
_TRANSPARENT = (*_MOVES, "stablehlo.convert")


def find_sole_addition(op: ir.Operation, moves: tuple[str, ...] = _MOVES) -> ir.Operation | None:
    """The addition that alone reads an operation's result, perhaps reshaped or moved on the way."""
    while (user := _only_user(op)) is not None and user.name in moves:
        op = user
    return user if user is not None and user.name == "stablehlo.add" else None


def is_added_up(op: ir.Operation) -> bool:
    """Whether the result of an operation in a loop is only added to a value that the loop carries, and that is read by nothing else."""
    addition = find_sole_addition(op, _TRANSPARENT)
    carried = [each for value in addition.operands if (each := _find_loop_argument(value)) is not None] if addition is not None else []
    if addition is None or len(carried) != 1:
        return False
    last = addition
    while (user := _only_user(last)) is not None and user.name in _TRANSPARENT:
        last = user
    return user is not None and user.name == "stablehlo.return" and user.operands[carried[0].arg_number] == last.results[0]


def _find_loop_argument(value: ir.Value) -> ir.BlockArgument | None:
    """The argument of a loop's body that a value is, perhaps reshaped or cast, if nothing else reads it."""
    while len(list(value.uses)) == 1:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return ir.BlockArgument(value) if owner.owner.operation.name == "stablehlo.while" else None
        if owner.operation.name not in _TRANSPARENT:
            return None
        value = owner.operation.operands[0]
    return None


def _only_user(op: ir.Operation) -> ir.Operation | None:
    uses = list(op.results[0].uses)
    return uses[0].owner.operation if len(uses) == 1 else None


# Whether a value may stay a partial sum (Shardy's `unreduced`): only where its operation sums over a dimension sharded over that axis.
#
# Anywhere else each device has the whole value, and the reduction that follows would count it once per device: Shardy accepts such a plan,
# and XLA runs it to wrong numbers (measured). So Shardy's result is checked, and such a plan refused with an explanation.

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
            f"{where} is not a partial sum over mesh axis `{axis}`: every device along it computes the whole value, "
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
