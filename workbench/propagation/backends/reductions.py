"""The collectives that a back end makes of one sum over devices: one or several, or none where sums are added first."""

import math
from dataclasses import replace

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.sharding import axis_size, base_axis
from workbench.propagation.backends.deferred_sums import find_sole_addition, is_added_up
from workbench.propagation.backends.xla_backends import Backend
from workbench.propagation.module.mlir_context import producer
from workbench.propagation.module.operation_kinds import adds_updates
from workbench.propagation.module.sharding_rules import rule_of
from workbench.propagation.module.shardy_attributes import Dims, axis_names
from workbench.propagation.propagated_module import PropagationAnswer
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.propagation.structure.operation_work import dimension_numbers

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
        if addition is not None and self._backend.merges_addend_into_scatter and self._is_scattered_onto(addition):
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
