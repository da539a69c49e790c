"""Floating-point operations of a step, counted from its dots and by the convention of 6 N D."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import axis_size, base_axis
from workbench.core.tensor import Role
from workbench.hardware.hardware import Chip
from workbench.propagation import Propagated, local_shape
from workbench.propagation.module.shardy_attributes import Dims
from workbench.propagation.structure.program_structure import Op, Structure, unchanged_slots
from workbench.propagation.structure.stored_values import VIEWING
from workbench.reports.step_time import DotCost, Flops

DOT, CONVERT = "stablehlo.dot_general", "stablehlo.convert"
_TOKENS = 2  # a batch of token ids has two dimensions at least: batch and sequence


@dataclass(frozen=True, slots=True)
class DotFlops:
    """FLOP of a step in the dots of one dtype: what the program needs, that with recomputation, and what one device does."""

    model: int
    unique: int
    per_device: int


def count_dot_flops(partitioned: Propagated, mesh: Mesh) -> dict[str, DotFlops]:
    """By the dtype of their operands, loops multiplied out."""
    structure = partitioned.structure
    found: dict[str, list[int]] = {}
    for index, local in partitioned.local_flops.items():
        op = structure.ops[index]
        times = structure.regions[op.region].runs_per_step
        sums = found.setdefault(structure.values[op.operands[0]].dtype, [0, 0, 0])
        needed = _flops_of_all(op, mesh) * times
        sums[0] += 0 if op.is_recomputed else needed
        sums[1] += needed
        sums[2] += local * times
    return {dtype: DotFlops(*sums) for dtype, sums in found.items()}


def _flops_of_all(op: Op, mesh: Mesh) -> int:
    """FLOP of a dot as the program needs it: in a `shard_map` its shapes are of one device, and devices along the axes along which its
    operands differ compute different parts."""
    return op.work.flops * prod(mesh[axis] for axis in op.varies_along)


def flops_of(program: Program, structure: Structure, dot_flops: Mapping[str, DotFlops], devices: int) -> Flops:
    """The FLOP counts of a report."""
    model, unique, local = (sum(getattr(each, name) for each in dot_flops.values()) for name in ("model", "unique", "per_device"))
    return Flops(unique, local, devices, model, six_nd(program, structure))


def list_dots(program: Program, mesh: Mesh, partitioned: Propagated) -> tuple[DotCost, ...]:
    """Each dot of a step, alike ones together, the largest on one device first."""
    structure = partitioned.structure
    counts: Counter[DotCost] = Counter()
    for index, local in partitioned.local_flops.items():
        op, operation = structure.ops[index], program.operations[index]
        shape = structure.values[op.results[0]].shape
        dims = partitioned.dims[op.results[0]] or ((),) * len(shape)
        shares = dims
        if local * prod(shape) < op.work.flops * prod(local_shape(shape, dims, mesh)):
            shares = (*dims, *_summed_dims(op, partitioned))
        axes = tuple(dict.fromkeys(base_axis(axis) for dim in shares for axis in dim))
        axes = (*axes, *(axis for axis in op.varies_along if axis not in axes))
        cost = DotCost(operation.path, operation.source, 1, _flops_of_all(op, mesh), local, axes, _padding_of(shape, dims, mesh))
        counts[cost] += structure.regions[op.region].runs_per_step
    return tuple(sorted((replace(each, count=count) for each, count in counts.items()), key=lambda each: -each.per_device * each.count))


def _summed_dims(op: Op, partitioned: Propagated) -> Iterator[tuple[str, ...]]:
    """The axes of each dimension that a dot sums over, by either operand: one may lie otherwise until it is sent."""
    work = op.work
    for operand, summed in ((work.contracted_of, work.contracted), (1, work.contracted_right)):
        dims = partitioned.dims[op.operands[operand]]
        yield from (dims[each] for each in summed if dims is not None)


def _padding_of(shape: tuple[int, ...], dims: Dims, mesh: Mesh) -> float:
    """How much larger than an equal part the shard of one device is.

    >>> _padding_of((30, 16), (("data",), ()), Mesh("data:8"))
    1.0666666666666667
    """
    parts = prod(axis_size(axis, mesh) for dim in dims for axis in dim)
    return prod(local_shape(shape, dims, mesh)) * parts / max(prod(shape), 1)


def count_tokens(program: Program) -> int:
    """Tokens of a step: the elements of the largest integer input of two dimensions or more; 0 where there is none."""
    ids = (each for each in program.arguments if each.role is Role.INPUT and "int" in each.dtype and len(each.shape) >= _TOKENS)
    return max((each.elements for each in ids), default=0)


def six_nd(program: Program, structure: Structure) -> int:
    """6 x active parameters x tokens for a training step, 2 x for a forward pass (Kaplan et al. 2020, section 2.1): attention's own dots
    left out, embeddings counted. 0 for a program that reads no batch of token ids.

    A parameter of which each row of a dot reads a part, as a token reads its experts, counts by that part (`active_shares`).
    """
    tokens = count_tokens(program)
    if not tokens or not program.parameters:
        return 0
    is_training = any(program.arguments[argument].role is Role.PARAMETER for _, argument in program.carried)
    idle = sum(program.arguments[number].elements * (1 - share) for number, share in active_shares(program, structure, tokens).items())
    return (6 if is_training else 2) * round(program.parameters - idle) * tokens


def active_shares(program: Program, structure: Structure, tokens: int) -> dict[int, float]:
    """Of parameters that are a stack of weights, each with rows of its own in a dot (experts), by number of the argument: the rows of a
    weight over all tokens. That is k of E where k of E experts are chosen, times the capacity that an expert has for its share: what the
    program computes. Counted are dots of the forward pass that read the parameter as it is, but for casts and slices."""
    rows: dict[int, float] = {}
    for number, op in enumerate(structure.ops):
        if op.kind != DOT or op.is_recomputed or program.operations[number].path.startswith("grad/") or _count_stacked(structure, op) == 1:
            continue
        for operand in op.operands:
            argument = _find_argument(structure, operand)
            if argument is not None and program.arguments[argument].role is Role.PARAMETER:
                done = op.work.flops * structure.regions[op.region].runs_per_step
                rows[argument] = rows.get(argument, 0.0) + done / (2 * program.arguments[argument].elements)
    return {argument: min(count / tokens, 1.0) for argument, count in rows.items()}


def _count_stacked(structure: Structure, dot: Op) -> int:
    """How many products a dot is: the size of its batch dimensions."""
    sizes = [prod(structure.values[each].shape) for each in (*dot.operands, *dot.results)]
    half = dot.work.flops // 2
    return prod(sizes) // half**2 if half else 1


def _find_argument(structure: Structure, value: int) -> int | None:
    """The argument of the program that a value is, but for casts, reshapes and slices; through loops that hand it on."""
    while True:
        maker = structure.values[value].maker
        if maker >= 0:
            if structure.ops[maker].kind not in VIEWING | {CONVERT}:
                return None
            value = structure.ops[maker].operands[0]
        elif value in structure.arguments:
            return structure.arguments.index(value)
        else:
            outside = _find_outside(structure, value)
            if outside is None:
                return None
            value = outside


def _find_outside(structure: Structure, argument: int) -> int | None:
    """What an argument of a loop's body stands for, if the loop hands it on as it is."""
    for loop, body in structure.body_of.items():
        arguments = [each for each in structure.regions[body].values if structure.values[each].maker < 0]
        if argument in arguments:
            slot = arguments.index(argument)
            return structure.ops[loop].operands[slot] if slot in unchanged_slots(structure, loop) else None
    return None


def utilisation(dot_flops: Mapping[str, DotFlops], chip: Chip, devices: int, seconds: float) -> tuple[float, float]:
    """MFU and HFU: the time all devices would need at their peak for what the program needs, and for what they compute, over `seconds`."""
    if not seconds:
        return 0.0, 0.0
    model = sum(each.model / chip.peak(dtype) for dtype, each in dot_flops.items()) / devices
    local = sum(each.per_device / chip.peak(dtype) for dtype, each in dot_flops.items())
    return model / seconds, local / seconds
