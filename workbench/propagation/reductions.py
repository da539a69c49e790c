"""Sums over devices: the collectives a backend makes of them, deferred reductions, and values that may stay partial
sums.
"""

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
from workbench.propagation.module.mlir_context import main_function, producer, shape_of
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
        self._reduced: dict[tuple[ir.Operation, tuple[str, ...]], bool] = {}  # additions, see `_adds_reduced`
        self._first_reductions: dict[tuple[ir.Operation, tuple[str, ...]], ir.Operation] = {}  # that an addition reads

    def is_added_before_reduction(self, op: ir.Operation, reshard: InsertedCollective) -> bool:
        """Return whether a sum is added to another before that is reduced, and needs no reduction of its own."""
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
        while addition is not None and self._adds_reduced(addition, reshard.axes) and (later := find_sole_addition(addition)) is not None:
            addition = later
        return addition is not None and self._first_reductions.setdefault((addition, reshard.axes), op) != op

    def _adds_reduced(self, addition: ir.Operation, axes: tuple[str, ...]) -> bool:
        """Return whether both addends are all-reduced over these axes, so that their sum is, too: three sums are reduced once."""
        pending = [addition]
        while pending:
            makers = [_skip_moves(value) for value in pending[-1].operands]
            unknown = [each for each in makers if each is not None and each.name == _ADDITION and (each, axes) not in self._reduced]
            if not unknown:
                self._reduced[pending.pop(), axes] = all(each is not None and self._is_reduced(each, axes) for each in makers)
            pending += unknown
        return self._reduced[addition, axes]

    def _is_reduced(self, maker: ir.Operation, axes: tuple[str, ...]) -> bool:
        if maker.name == "sdy.all_reduce":
            return axis_names(str(maker.attributes["reduction_axes"])) == axes
        return self._reduced.get((maker, axes), False)

    def _is_scattered_onto(self, addition: ir.Operation) -> bool:
        """Return whether one addend is, or became, an adding scatter; iterative, as lookups may chain."""
        pending = [addition]
        while pending:
            added = [_find_added(value) for value in pending[-1].operands]
            unknown = [item for item in added if item is not None and item.name == _ADDITION and item not in self._scattered]
            if unknown:
                pending += unknown
            else:
                self._scattered[pending.pop()] = sum(map(self._adds, added)) == 1
        return self._scattered[addition]

    def _adds(self, made: ir.Operation | None) -> bool:
        if made is not None and made.name == _ADDITION:
            return self._is_scattered_onto(made) if made not in self._scattered else self._scattered[made]
        return made is not None and adds_updates(made)

    def split_reduction(self, op: ir.Operation, reshard: InsertedCollective) -> list[InsertedCollective]:
        """The collectives that a backend makes of one all-reduce or reduce-scatter."""
        if reshard.kind != "all-reduce":
            return [reshard]
        if self._backend.reduce_scatters_dots and (scatter_axes := self._slice_axes(op, reshard.axes)):
            parts = math.prod(axis_size(axis, self._mesh) for axis in scatter_axes)
            rest = tuple(axis for axis in reshard.axes if axis not in scatter_axes)
            scattered = replace(reshard, kind="reduce-scatter", axes=scatter_axes, local_bytes=reshard.local_bytes // parts)
            return [scattered, replace(reshard, axes=rest, payload=reshard.payload // parts, local_bytes=reshard.local_bytes // parts)]
        return [replace(reshard, axes=axes) for axes in self._group_axes(op, reshard.axes)]

    def _slice_axes(self, op: ir.Operation, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes, some but not all of `axes`, along which each device keeps its slice of a dot's sum."""
        source, users = producer(op.operands[0]), [use.owner.operation for use in op.results[0].uses]
        if source is None or source.name != "stablehlo.dot_general" or len(users) != 1 or users[0].name != "sdy.all_slice":
            return ()
        slicing_axes = tuple(axis for axis in axes if axis in axis_names(str(users[0].attributes["slicing_axes"])))
        return slicing_axes if len(slicing_axes) < len(axes) else ()

    def _group_axes(self, op: ir.Operation, axes: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The axes of an all-reduce, grouped by summed dimension: XLA's partitioner makes one all-reduce per dimension."""
        source = producer(op.operands[0])
        if self._backend.folds_window_sums or source is None or len(axes) < 2 or (rule := rule_of(source)) is None:
            return [axes]
        window_axes = _window_sum_axes(source, self._answer.dims_of(source.operands[0]), self._mesh)
        if self._backend.folds_reductions:
            rest = tuple(axis for axis in axes if axis not in window_axes)
            return [rest, window_axes] if rest and window_axes and set(window_axes) < set(axes) else [axes]
        groups: dict[tuple[str, ...], None] = {}
        for operand, mapping in zip(source.operands, rule.operands, strict=True):
            for dim, factors in zip(self._answer.dims_of(operand), mapping, strict=True):
                summed = tuple(axis for axis in dim if axis in axes)
                if summed and set(factors) & set(rule.reduction):
                    groups[summed] = None
        if window_axes:
            groups = dict.fromkeys((window_axes, *(group for group in groups if not set(group) & set(window_axes))))
        return list(groups) if sorted(axis for group in groups for axis in group) == sorted(axes) else [axes]

    def value_sent(self, op: ir.Operation) -> ir.Value:
        """The value that an all-reduce sends: where only a further sum reads a sum, a backend may reduce what both leave."""
        value, source = op.results[0], producer(op.operands[0])
        if not self._backend.simplifies_first or source is None or not _is_sum(source):
            return value
        while (user := _only_user(op)) is not None and (_is_sum(user) or _is_padding(user)):
            op = user
            value = op.results[0] if _is_sum(op) else value
        return value

    def is_reduced_after_loop(self, op: ir.Operation) -> bool:
        """Whether a sum in a loop is reduced once, behind it; one of which each device keeps a part is scattered in each turn."""
        return self._backend.sums_behind_loops and op.name == "sdy.all_reduce" and is_running_sum(op)


def _window_sum_axes(op: ir.Operation, image: Dims, mesh: Mesh) -> tuple[str, ...]:
    """The axes that split a convolution's windows, and the channels of a grouped one: XLA sums over all at once."""
    if op.name != "stablehlo.convolution":
        return ()
    is_grouped = any(ir.IntegerAttr(op.attributes[f"{name}_group_count"]).value > 1 for name in ("feature", "batch"))
    words = zip(dimension_numbers(op)[0], image, strict=True)
    split_axes = [axis for word, axes in words if word.isdigit() or (is_grouped and word == "f") for axis in axes]
    return tuple(sorted(split_axes, key=lambda axis: mesh.names.index(base_axis(axis))))


def _skip_moves(value: ir.Value) -> ir.Operation | None:
    """The operation that makes a value before it is moved, if nothing else reads it."""
    while len(list(value.uses)) == 1 and (maker := producer(value)) is not None:
        if maker.name not in _MOVES:
            return maker
        value = maker.operands[0]
    return None


def _find_added(value: ir.Value) -> ir.Operation | None:
    """The operation that makes a value before it is reduced, if the value has no other reader."""
    maker = producer(value)
    while maker is not None and maker.name in _SUMS:
        value = maker.operands[0]
        maker = producer(value)
    return None if maker is None or len(list(value.uses)) > 1 else maker


# Values that are only added to others, and sums that a loop only accumulates.

_MOVES = ("stablehlo.transpose", "stablehlo.reshape", "sdy.all_slice")
_TRANSPARENT = ("stablehlo.transpose", "stablehlo.reshape", "stablehlo.convert")


def find_sole_addition(op: ir.Operation, moves: tuple[str, ...] = _MOVES) -> ir.Operation | None:
    """The addition that is the only reader of an operation's result, perhaps through reshapes and moves."""
    while (user := _only_user(op)) is not None and user.name in moves:
        op = user
    return user if user is not None and user.name == "stablehlo.add" else None


def is_running_sum(op: ir.Operation) -> bool:
    """Return whether a loop only accumulates an operation's result, or slices of it, in carried values without other readers."""
    readers = list(_readers_of_parts(op))
    return bool(readers) and all(reader.name == _ADDITION and _is_loop_sum(reader) for reader in readers)


def _readers_of_parts(op: ir.Operation) -> Iterator[ir.Operation]:
    """The readers of a value or of its slices, perhaps moved or cast."""
    for use in op.results[0].uses:
        reader = use.owner.operation
        if reader.name in (*_TRANSPARENT, "stablehlo.slice") or _is_reshape(reader):
            yield from _readers_of_parts(reader)
        else:
            yield reader


def _is_reshape(op: ir.Operation) -> bool:
    """Return whether an operation only adds up over dimensions of size 1."""
    return _is_sum(op) and math.prod(shape_of(op.operands[0])) == math.prod(shape_of(op.results[0]))


def _is_sum(op: ir.Operation) -> bool:
    if op.name != "stablehlo.reduce" or len(op.results) > 1:
        return False
    return [item.operation.name for item in op.regions[0].blocks[0].operations] == [_ADDITION, "stablehlo.return"]


def _is_loop_sum(addition: ir.Operation) -> bool:
    """Return whether a loop carries a sum over, and adds it to what it carried only here."""
    carried = [item for value in addition.operands if (item := _find_loop_argument(value)) is not None]
    last = addition
    while (user := _only_user(last)) is not None and user.name in _TRANSPARENT:
        last = user
    if len(carried) != 1 or user is None or user.name != "stablehlo.return":
        return False
    return user.operands[carried[0].arg_number] == last.results[0]


def _is_padding(op: ir.Operation) -> bool:
    """Return whether an operation is a reshape that only adds or removes dimensions of size 1."""
    if op.name != "stablehlo.reshape":
        return False
    before, after = ([size for size in shape_of(value) if size != 1] for value in (op.operands[0], op.results[0]))
    return before == after


def _find_loop_argument(value: ir.Value) -> ir.BlockArgument | None:
    """The argument of a loop's body that a value is, perhaps reshaped or cast, if it has no other reader."""
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


# A value may stay a partial sum (Shardy's `unreduced`) only if its operation sums over a dimension sharded over that axis.
#
# Otherwise each device has the whole value, and the later reduction would count it once per device: Shardy accepts such a plan,
# and XLA computes wrong numbers (measured). So Shardy's result is checked, and such a plan is refused with an explanation.

_ADDITIVE = frozenset(
    f"stablehlo.{name}"
    for name in ("add", "subtract", "negate", "convert", "reshape", "transpose", "broadcast_in_dim", "slice", "concatenate", "reverse")
)
"""Operations whose result is a partial sum if their operands are."""

_UnreducedConstraints = dict[int, tuple[str, Sharding]]  # operation number -> pattern and sharding of its constraint


def verify_partial_sums(module: ir.Operation, plan: Plan, answer: PropagationAnswer) -> None:
    """Raise `LayoutError` for a value that the layout leaves unreduced but that is not a partial sum over that axis."""
    if not (unreduced_by_op := _find_unreduced(plan)):
        return
    for op in operations_below(main_function(module)):
        number = op.attributes[ID].value if ID in op.attributes else -1
        if number in unreduced_by_op:
            for axis in unreduced_by_op[number][1].unreduced:
                if plan.mesh[axis] > 1 and (error := _partial_sum_error(op, axis, plan, *unreduced_by_op[number], number, answer)):
                    raise error


def _find_unreduced(plan: Plan) -> _UnreducedConstraints:
    """The last constraint given for each operation, if it leaves a sum unreduced."""
    constraints = plan.layout.constraints
    if not any(sharding.unreduced for _, sharding in constraints):
        return {}
    constraint_of = {i: (at, sharding) for at, sharding in constraints for i in operations_at(plan.program, at, len(sharding.dims))}
    return {i: constraint for i, constraint in constraint_of.items() if constraint[1].unreduced}


def _partial_sum_error(
    op: ir.Operation, axis: str, plan: Plan, at: str, stated: Sharding, number: int, answer: PropagationAnswer
) -> LayoutError | None:
    operation = plan.program.operations[number]
    where = f"`{operation.path}`" + (f" ({operation.source})" if operation.source else "")
    ways_out = [f"leave `unreduced:{axis}` out of `@{at}`"]
    if not _is_sum_over(op, axis, answer):
        summed = tuple(dict.fromkeys(_summed_dim_names(op, plan)))
        split = f"split {' or '.join(f'`{name}`' for name in summed)}, which it sums over, on `{axis}`" if summed else ""
        return LayoutError(
            f"{where} is not a partial sum over mesh axis `{axis}`: every device along it computes the whole value, "
            f"and adding those up would count it {plan.mesh[axis]} times.",
            [*([split] if split else [f"constrain a product or a sum whose summed dimension is split over `{axis}`"]), *ways_out],
        )
    if axis not in _unreduced_axes(op.results[0]):
        closed = Sharding(tuple(axes or () for axes in stated.dims), replicated=stated.replicated, unreduced=stated.unreduced)
        return LayoutError(
            f"{where} would be added up over mesh axis `{axis}` at once: `@{at}={stated}` leaves dimensions to propagation, which asks for "
            "the whole value there.",
            [f"give the sharding of all its dimensions, such as `@{at}={closed}`", *ways_out],
        )
    return None


def _is_sum_over(op: ir.Operation, axis: str, answer: PropagationAnswer) -> bool:
    """Return whether an operation sums over a dimension sharded over `axis`, or adds up only partial sums over it."""
    if (rule := rule_of(op)) is not None:
        for operand, mapping in zip(op.operands, rule.operands, strict=False):
            for axes, factors in zip(answer.dims_of(operand), mapping, strict=False):
                if set(factors) & set(rule.reduction) and axis in map(base_axis, axes):
                    return True
    return op.name in _ADDITIVE and all(axis in _unreduced_axes(operand_value) for operand_value in op.operands)


def _unreduced_axes(value: ir.Value) -> tuple[str, ...]:
    """The axes over which a value is a partial sum; a value only declared so (`replicated_to_unreduced`) is whole."""
    owner = producer(value)
    if owner is None or owner.name == "sdy.replicated_to_unreduced":
        return ()
    if "out_sharding" in owner.attributes:
        return read_annotation(owner.attributes["out_sharding"]).unreduced
    if "sdy.sharding" in owner.attributes:
        return read_annotations(owner.attributes["sdy.sharding"])[ir.OpResult(value).result_number].unreduced
    return ()


def _summed_dim_names(op: ir.Operation, plan: Plan) -> Iterator[str]:
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
