"""The padding of a report: each dimension of each value whose size is not divisible by its number of shards."""

import math
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from workbench.core.program import Operation
from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.core.tensor import itemsize
from workbench.plan.plan import Plan
from workbench.propagation.module.shardy_attributes import Dims, local_shape
from workbench.propagation.propagated_plan import Propagated
from workbench.propagation.structure.program_structure import find_rotations
from workbench.reports.padding import Padding

_NO_VALUES = ("constant", "data_flow_edge", "return")


class _PaddedValue(NamedTuple):
    """Identical values, and the FLOP on one device for one of them."""

    operation: Operation
    dims: Dims
    flops: int


def padding_list(plan: Plan, partitioned: Propagated) -> tuple[Padding, ...]:
    """Padding by wasted bytes, the most first, including that of scalars and masks."""
    uneven = _find_uneven(plan, partitioned)
    if not uneven:
        return ()
    structure = partitioned.structure
    rotations = find_rotations(structure)
    counts: Counter[_PaddedValue] = Counter()
    for number, (operation, op) in enumerate(zip(plan.program.operations, structure.ops, strict=True)):
        dims = partitioned.dims[op.results[0]] if op.results and operation.kind not in _NO_VALUES else None
        if dims is not None and (operation.shape, id(dims)) in uneven and number not in rotations:
            counts[_PaddedValue(operation, dims, partitioned.local_flops.get(number, 0))] += structure.regions[op.region].runs_per_step
    paddings = [padding for padded_value, count in counts.items() for padding in _list_paddings(padded_value, count, plan)]
    merged: dict[Padding, int] = {}
    for item in paddings:
        key = replace(item, count=1)
        merged[key] = merged.get(key, 0) + item.count
    counted = (replace(item, count=count) for item, count in merged.items())
    return tuple(sorted(counted, key=lambda row: (-row.wasted_bytes * row.count, row.path, row.dim)))


def _find_uneven(plan: Plan, partitioned: Propagated) -> set[tuple[tuple[int, ...], int]]:
    """The padded `(shape, id(sharding))`; ids avoid slow hashing, as equal shardings are mostly one object."""
    structure, dims = partitioned.structure, partitioned.dims
    shardings = list(map(dims.__getitem__, structure.first_results))
    by_key = dict(zip(zip(structure.first_result_shapes, map(id, shardings), strict=True), shardings, strict=True))
    return {key for key, item in by_key.items() if item is not None and any(item) and _is_uneven(key[0], item, plan)}


def _is_uneven(shape: tuple[int, ...], dims: Dims, plan: Plan) -> bool:
    return any(size % math.prod(axis_size(axis, plan.mesh) for axis in axes) for size, axes in zip(shape, dims, strict=True))


def _list_paddings(padded_value: _PaddedValue, count: int, plan: Plan) -> list[Padding]:
    operation, mesh = padded_value.operation, plan.mesh
    local = math.prod(local_shape(operation.shape, padded_value.dims, mesh))
    element_bytes = itemsize(operation.dtype)
    paddings = []
    for dim, size, axes in zip(operation.dims, operation.shape, padded_value.dims, strict=True):
        parts = math.prod(axis_size(axis, mesh) for axis in axes)
        if size % parts:
            slots = -(-size // parts) * parts
            wasted = (slots - size) / slots
            padded = Padding(
                operation.path,
                operation.source,
                operation.kind,
                operation.shape,
                operation.dtype,
                Sharding(padded_value.dims),
                dim,
                size,
                tuple(map(base_axis, axes)),
                parts,
                count,
                math.ceil(local * element_bytes),
                round(local * wasted * element_bytes),
                padded_value.flops,
                round(padded_value.flops * wasted),
            )
            paddings.append(padded)
    return paddings
