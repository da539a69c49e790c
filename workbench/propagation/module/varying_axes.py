"""Along which manual mesh axes of a `shard_map` a value differs between devices, and along which its collectives send.

What does not differ along an axis is computed by every device along it again. This is what JAX calls varying manual axes (`vma` of a
type; "Efficient transposition of replication-inducing collectives", JAX design notes), which the lowered module does not carry: so it is
derived from the specs of the region and the collectives in it.
"""

import re
from collections.abc import Iterator, Sequence

import numpy as np
from jax.extend.mlir import ir

from workbench.core.sharding import base_axis
from workbench.propagation.module.mlir_context import declared_axes, main_function
from workbench.propagation.module.operation_kinds import axes_made_manual, operations_below
from workbench.propagation.module.shardy_attributes import read_annotations

Axes = frozenset[str]

_MARK, _SENDS = "wb_varies", "wb_sends"
_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")
_NONE: Axes = frozenset()
SENDS = {
    "stablehlo.all_reduce": "all-reduce",
    "stablehlo.all_gather": "all-gather",
    "stablehlo.reduce_scatter": "reduce-scatter",
    "stablehlo.all_to_all": "all-to-all",
    "stablehlo.collective_permute": "collective-permute",
}
"""The collectives of a `shard_map`, with the report's names for them."""
_SUMS = frozenset({"stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.collective_broadcast"})  # equal on the devices of a group
_GROUPS = ("replica_groups", "source_target_pairs")
_NAME = re.compile(r'"([^":]+)"')


def mark_varying_axes(module: ir.Operation) -> None:
    """Write into each product in a `shard_map`, in place, the axes along which its operands differ, in the order of the mesh, and into each
    collective those along which it sends."""
    main = main_function(module)
    if any(op.name == "sdy.manual_computation" for op in operations_below(main)):
        _Walk(declared_axes(module)).read_block(main.regions[0].blocks[0], _NONE)


def marked_axes(op: ir.Operation) -> tuple[str, ...]:
    """What `mark_varying_axes` wrote into a product."""
    return _read_mark(op, _MARK)


def sending_axes(op: ir.Operation) -> tuple[str, ...]:
    """What `mark_varying_axes` wrote into a collective."""
    return _read_mark(op, _SENDS)


def _read_mark(op: ir.Operation, mark: str) -> tuple[str, ...]:
    return tuple(ir.StringAttr(op.attributes[mark]).value.split(",")) if mark in op.attributes else ()


class _Walk:
    def __init__(self, mesh: dict[str, int]) -> None:
        self._mesh = mesh
        self._values: dict[ir.Value, Axes] = {}

    def read_block(self, block: ir.Block, manual: Axes) -> list[Axes]:
        """Record all operations of a block; returns the axes of the values it returns."""
        operands: list[Axes] = []
        for item in block.operations:
            op = item.operation
            operands = [self._values.get(value, _NONE) for value in op.operands]
            if manual and op.name in _PRODUCTS:
                self._mark(op, _MARK, _NONE.union(*operands))
            elif op.name in SENDS:
                self._mark(op, _SENDS, self._axes_of_groups(op))
            for value, axes in zip(op.results, self._results(op, operands, manual), strict=False):
                self._values[value] = axes
        return operands

    def _mark(self, op: ir.Operation, mark: str, axes: Axes) -> None:
        if axes:
            op.attributes[mark] = ir.StringAttr.get(",".join(name for name in self._mesh if name in axes))

    def _results(self, op: ir.Operation, operands: list[Axes], manual: Axes) -> Sequence[Axes]:
        union = _NONE.union(*operands)
        if op.name == "sdy.manual_computation":
            return self._read_region(op, operands, manual)
        if op.name == "stablehlo.while":
            return self._read_loop(op, operands, manual)
        if op.name in ("stablehlo.case", "stablehlo.if"):
            branches = [self.read_block(region.blocks[0], manual) for region in op.regions]
            return [union.union(*branch_axes) for branch_axes in zip(*branches, strict=True)]
        if op.name in ("stablehlo.partition_id", "stablehlo.replica_id"):
            return [manual]
        if op.name in _SUMS:
            return [axes - self._axes_of_groups(op) for axes in operands]
        if op.name in SENDS:
            union |= self._axes_of_groups(op)
        return [union] * len(op.results)

    def _read_region(self, op: ir.Operation, operands: list[Axes], manual: Axes) -> Sequence[Axes]:
        inside = manual | {*axes_made_manual(op)}
        block = op.regions[0].blocks[0]
        for value, outer, named in zip(block.arguments, operands, _axes_of_shardings(op.attributes["in_shardings"]), strict=True):
            self._values[value] = outer | (named & inside)
        return [axes & manual for axes in self.read_block(block, inside)]

    def _read_loop(self, op: ir.Operation, operands: list[Axes], manual: Axes) -> Sequence[Axes]:
        """A carried value differs along all axes along which it differs in any iteration."""
        body, carried = op.regions[1].blocks[0], operands
        while True:
            for block in (op.regions[0].blocks[0], body):
                self._values.update(zip(block.arguments, carried, strict=True))
            self.read_block(op.regions[0].blocks[0], manual)
            after = [before | axes for before, axes in zip(carried, self.read_block(body, manual), strict=True)]
            if after == carried:
                return carried
            carried = after

    def _axes_of_groups(self, op: ir.Operation) -> Axes:
        """The mesh axes along which the devices of one group, or of a pair, differ."""
        attribute = next(op.attributes[name] for name in _GROUPS if name in op.attributes)
        if not isinstance(attribute, ir.DenseIntElementsAttr):  # from JAX 0.11.1 on: the axes by name
            return frozenset(_NAME.findall(str(attribute))) & {*self._mesh}
        groups = np.array(attribute)
        coordinates = np.unravel_index(groups, tuple(self._mesh.values()))
        return frozenset(name for name, coordinate in zip(self._mesh, coordinates, strict=True) if (coordinate != coordinate[:, :1]).any())


def _axes_of_shardings(attribute: ir.Attribute) -> Iterator[Axes]:
    """The axes that each sharding of a list uses; a sub-axis counts as its axis."""
    for sharding in read_annotations(attribute):
        yield frozenset(map(base_axis, sharding.axes))
