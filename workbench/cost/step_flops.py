"""Count the FLOP of a step, from its dots and by the 6 N D convention."""

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
from workbench.propagation.structure.program_structure import Op, Structure, invariant_slots
from workbench.propagation.structure.stored_values import VIEWING
from workbench.reports.step_time import DotCost, Flops

DOT, CONVERT = "stablehlo.dot_general", "stablehlo.convert"
_TOKENS = 2  # minimum rank of a batch of token ids: batch and sequence


@dataclass(frozen=True, slots=True)
class DotFlops:
    """FLOP of a step in dots of one dtype: needed, including recomputation, and on one device."""

    model: int
    unique: int
    per_device: int


def count_dot_flops(partitioned: Propagated, mesh: Mesh) -> dict[str, DotFlops]:
    """Return the FLOP by operand dtype, including loop trip counts."""
    structure = partitioned.structure
    by_dtype: dict[str, list[int]] = {}
    for index, local in partitioned.local_flops.items():
        op = structure.ops[index]
        times = structure.regions[op.region].runs_per_step
        sums = by_dtype.setdefault(structure.values[op.operands[0]].dtype, [0, 0, 0])
        needed = _flops_of_all(op, mesh) * times
        sums[0] += 0 if op.is_recomputed else needed
        sums[1] += needed
        sums[2] += local * times
    return {dtype: DotFlops(*sums) for dtype, sums in by_dtype.items()}


def _flops_of_all(op: Op, mesh: Mesh) -> int:
    """Return a dot's FLOP over all devices; in a `shard_map` devices along differing axes compute different parts."""
    return op.work.flops * prod(mesh[axis] for axis in op.varies_along)


def flops_of(program: Program, structure: Structure, dot_flops: Mapping[str, DotFlops], devices: int) -> Flops:
    model, unique, local = (sum(getattr(dot, name) for dot in dot_flops.values()) for name in ("model", "unique", "per_device"))
    return Flops(unique, local, devices, model, six_nd(program, structure))


def list_dots(program: Program, mesh: Mesh, partitioned: Propagated) -> tuple[DotCost, ...]:
    """List the dots of a step, grouped, largest on one device first."""
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
    return tuple(sorted((replace(dot, count=count) for dot, count in counts.items()), key=lambda dot: -dot.per_device * dot.count))


def _summed_dims(op: Op, partitioned: Propagated) -> Iterator[tuple[str, ...]]:
    """Yield the axes of each contracted dimension in either operand, which may differ before a collective."""
    work = op.work
    for operand, summed in ((work.contracted_of, work.contracted), (1, work.contracted_right)):
        dims = partitioned.dims[op.operands[operand]]
        yield from (dims[dim] for dim in summed if dims is not None)


def _padding_of(shape: tuple[int, ...], dims: Dims, mesh: Mesh) -> float:
    """Return the ratio of one device's shard to an equal part.

    >>> _padding_of((30, 16), (("data",), ()), Mesh("data:8"))
    1.0666666666666667
    """
    parts = prod(axis_size(axis, mesh) for dim in dims for axis in dim)
    return prod(local_shape(shape, dims, mesh)) * parts / max(prod(shape), 1)


def count_tokens(program: Program) -> int:
    """Return the tokens of a step: the elements of the largest integer input of rank 2 or more; 0 without one."""
    ids = (tensor for tensor in program.arguments if tensor.role is Role.INPUT and "int" in tensor.dtype and len(tensor.shape) >= _TOKENS)
    return max((tensor.elements for tensor in ids), default=0)


def six_nd(program: Program, structure: Structure) -> int:
    """Return 6 N D for a training step, 2 N D forward (Kaplan et al. 2020, section 2.1), with N active parameters; a frozen
    parameter of a training step counts as 4, for it has no gradient.

    Attention's own dots are excluded, embeddings included. 0 for a program without token ids. A parameter of which each
    row of a dot reads a part, such as experts, counts by that part (`active_shares`).
    """
    tokens = count_tokens(program)
    if not tokens or not program.parameters:
        return 0
    trained = {argument for _, argument in program.carried if program.arguments[argument].role is Role.PARAMETER}
    shares = active_shares(program, structure, tokens)
    active = {
        number: tensor.elements * shares.get(number, 1.0)
        for number, tensor in enumerate(program.arguments)
        if tensor.role is Role.PARAMETER
    }
    passes = 4 if trained else 2
    return (passes * round(sum(active.values())) + 2 * round(sum(active[number] for number in trained))) * tokens


def active_shares(program: Program, structure: Structure, tokens: int) -> dict[int, float]:
    """Return the fraction of rows that use each weight of a stacked parameter (experts), by argument.

    With k of E experts chosen this is k / E times the experts' capacity factor. Only dots of the forward pass that read
    the parameter directly, or through casts and slices, are counted.
    """
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
    """Return the product of a dot's batch dimensions."""
    sizes = [prod(structure.values[value].shape) for value in (*dot.operands, *dot.results)]
    half = dot.work.flops // 2
    return prod(sizes) // half**2 if half else 1


def _find_argument(structure: Structure, value: int) -> int | None:
    """Return the program argument behind a value, through casts, reshapes, slices and loops, or `None`."""
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
    for loop, body in structure.body_of.items():
        arguments = [value for value in structure.regions[body].values if structure.values[value].maker < 0]
        if argument in arguments:
            slot = arguments.index(argument)
            return structure.ops[loop].operands[slot] if slot in invariant_slots(structure, loop) else None
    return None


def utilisation(dot_flops: Mapping[str, DotFlops], chip: Chip, devices: int, seconds: float) -> tuple[float, float]:
    """Return MFU and HFU: the time of the needed, and of all computed, FLOP at peak over `seconds`."""
    if not seconds:
        return 0.0, 0.0
    model = sum(flops.model / chip.peak(dtype) for dtype, flops in dot_flops.items()) / devices
    local = sum(flops.per_device / chip.peak(dtype) for dtype, flops in dot_flops.items())
    return model / seconds, local / seconds
