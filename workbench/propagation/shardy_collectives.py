"""The collectives Shardy inserts, and the bytes they send."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend.mlir import ir

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import axis_size, base_axis
from workbench.propagation.module.shardy_attributes import Dims, axis_names
from workbench.propagation.structure.program_structure import Structure
from workbench.reports.collective import Collective, sent_bytes

KINDS = {  # Shardy's operation: the report's name for it, and the attribute that lists the axes
    "sdy.all_reduce": ("all-reduce", "reduction_axes"),
    "sdy.reduce_scatter": ("reduce-scatter", "reduce_scatter_axes"),
    "sdy.all_gather": ("all-gather", "gathering_axes"),
    "sdy.all_to_all": ("all-to-all", "params"),
    "sdy.collective_permute": ("collective-permute", ""),
}


@dataclass(slots=True)
class InsertedCollective:
    """A collective Shardy inserted, executed before operation `before`, and the lifetime of its buffers."""

    kind: str
    axes: tuple[str, ...]
    local_bytes: int  # of the result
    payload: int
    before: int
    region: int
    source: int | None  # operation id of the producer, None for an argument
    frees_source: bool
    first_use: int  # the position from which its result lives
    last_use: int  # the position up to which it lives
    user_heights: tuple[int, ...]  # see `Structure.heights`
    sent_by_operation: bool = False  # operation `before` sends it by itself (see `halos`)
    times: int | None = None  # executions per step, where they are not those of the region
    result: int = 0  # which of the producer's results it moves, or which argument of main

    @property
    def sender(self) -> int:
        """The operation it is reported at: the maker of the value; for arguments and halos, operation `before`."""
        return self.before if self.sent_by_operation or self.source is None else self.source


def axes_of(op: ir.Operation, before: Dims, after: Dims) -> tuple[str, ...]:
    """The mesh axes a collective runs over; for a permute, those whose position changes."""
    attribute = KINDS[op.name][1]
    if attribute:
        return axis_names(str(op.attributes[attribute]))
    moved = [axis for old, new in zip(before, after, strict=True) if old != new for axis in (*old, *new)]
    return tuple(dict.fromkeys(moved))


def collectives(
    program: Program, mesh: Mesh, structure: Structure, reshards: Sequence[InsertedCollective], seconds: Sequence[float] = ()
) -> tuple[Collective, ...]:
    """The collectives of a report, equal ones counted together; `seconds` of each reshard, if hardware is known."""
    counts: dict[tuple[Any, ...], int] = {}
    durations: dict[tuple[Any, ...], float] = {}
    for number, reshard in enumerate(reshards):
        operation = program.operations[reshard.sender]
        key = (reshard.kind, reshard.axes, reshard.payload, operation.path, operation.source)
        times = structure.regions[reshard.region].runs_per_step if reshard.times is None else reshard.times
        counts[key] = counts.get(key, 0) + times
        durations[key] = seconds[number] if seconds else 0.0
    device_counts = {axes: math.prod(axis_size(axis, mesh) for axis in axes) for _, axes, *_ in counts}
    rows = [
        Collective(
            kind,
            tuple(dict.fromkeys(map(base_axis, axes))),
            payload,
            sent_bytes(kind, payload, device_counts[axes]),
            count,
            path,
            source,
            durations[kind, axes, payload, path, source],
        )
        for (kind, axes, payload, path, source), count in counts.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.total_payload, row.path, row.kind)))
