"""Floating-point operations of a step, counted from its dots and by the convention of 6 N D."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.core.program import Program
from workbench.core.sharding import base_axis
from workbench.core.tensor import Role
from workbench.hardware.hardware import Chip
from workbench.propagation import Propagated
from workbench.reports.step_time import DotCost, Flops

_TOKENS = 2  # a batch of token ids has two dimensions at least: batch and sequence


@dataclass(frozen=True, slots=True)
class DotFlops:
    """FLOP of a step in the dots of one dtype: what the program needs, that with recomputation, and what one device does."""

    model: int
    unique: int
    per_device: int


def count_dot_flops(partitioned: Propagated) -> dict[str, DotFlops]:
    """By the dtype of their operands, loops multiplied out."""
    structure = partitioned.structure
    found: dict[str, list[int]] = {}
    for index, local in partitioned.local_flops.items():
        op = structure.ops[index]
        times = structure.regions[op.region].runs_per_step
        sums = found.setdefault(structure.values[op.operands[0]].dtype, [0, 0, 0])
        sums[0] += 0 if op.is_recomputed else op.work.flops * times
        sums[1] += op.work.flops * times
        sums[2] += local * times
    return {dtype: DotFlops(*sums) for dtype, sums in found.items()}


def flops_of(program: Program, dot_flops: Mapping[str, DotFlops], devices: int) -> Flops:
    """The FLOP counts of a report."""
    model, unique, local = (sum(getattr(each, name) for each in dot_flops.values()) for name in ("model", "unique", "per_device"))
    return Flops(unique, local, devices, model, six_nd(program))


def list_dots(program: Program, partitioned: Propagated) -> tuple[DotCost, ...]:
    """Each dot of a step, alike ones together, the largest on one device first."""
    structure = partitioned.structure
    counts: Counter[tuple[str, str, int, int, tuple[str, ...]]] = Counter()
    for index, local in partitioned.local_flops.items():
        op, operation = structure.ops[index], program.operations[index]
        axes = dict.fromkeys(base_axis(axis) for value in op.operands for dim in partitioned.dims[value] or () for axis in dim)
        counts[operation.path, operation.source, op.work.flops, local, tuple(axes)] += structure.regions[op.region].runs_per_step
    found = [DotCost(path, source, count, flops, local, axes) for (path, source, flops, local, axes), count in counts.items()]
    return tuple(sorted(found, key=lambda each: -each.per_device * each.count))


def six_nd(program: Program) -> int:
    """6 x parameters x tokens for a training step, 2 x for a forward pass (Kaplan et al. 2020, section 2.1): attention's own dots left out,
    embeddings counted. 0 for a program that reads no batch of token ids.

    Tokens are the elements of the largest integer input of two dimensions or more.
    """
    ids = [each for each in program.arguments if each.role is Role.INPUT and "int" in each.dtype and len(each.shape) >= _TOKENS]
    if not ids or not program.parameters:
        return 0
    tokens = max(each.elements for each in ids)
    is_training = any(program.arguments[argument].role is Role.PARAMETER for _, argument in program.carried)
    return (6 if is_training else 2) * program.parameters * tokens


def utilisation(dot_flops: Mapping[str, DotFlops], chip: Chip, devices: int, seconds: float) -> tuple[float, float]:
    """MFU and HFU: the time all devices would need at their peak for what the program needs, and for what they compute, over `seconds`."""
    if not seconds:
        return 0.0, 0.0
    model = sum(each.model / chip.peak(dtype) for dtype, each in dot_flops.items()) / devices
    local = sum(each.per_device / chip.peak(dtype) for dtype, each in dot_flops.items())
    return model / seconds, local / seconds
