"""Layout-independent lifetimes of a program's values, computed once per program and back end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.core.program import Program
from workbench.core.tensor import Role, itemsize
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.on_chip_memory import accesses, loop_ends
from workbench.propagation.module.operation_kinds import BRANCHING
from workbench.propagation.structure.program_structure import Structure, TracedValue, invariant_slots
from workbench.propagation.structure.stored_values import VIEWING, find_stacked

_NARROW = 4  # columns; narrower matrices are read in storage order
_ON_WHOLE_ARRAYS = ("stablehlo.fft", "stablehlo.reduce_window", "stablehlo.custom_call")
Integers = NDArray[np.int64]
ROLES = tuple(Role)


class Cast(NamedTuple):
    """Stacked weights that loops slice and cast to a narrower type: XLA casts the whole stack before the first loop."""

    operation: int  # the cast
    stack: int
    share: float  # bytes relative to the stack
    first: int
    last: int  # end of the last loop that reads it
    last_of_all: int  # end of the last loop


class Spans(NamedTuple):
    """Stored values of a region: value, first and last position, and role, as parallel arrays."""

    values: Integers
    first: Integers
    last: Integers
    roles: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """Lifetimes and other facts independent of the layout."""

    regions: tuple[Spans, ...]
    extents: tuple[tuple[int, int], ...]  # first and last position of each region
    born: Integers  # operation that makes each value, -1 for an argument
    gathering: tuple[int, ...]  # operations XLA runs on whole arrays
    reduces_in_place: bool  # an all-reduce reuses its operand's memory
    accesses: Sequence[Sequence[tuple[int, int]]]  # of each value, see `on_chip_memory.accesses`
    loop_ends: Mapping[tuple[int, int], int]  # (region, position) of a loop -> last position of its body
    casts: tuple["Cast", ...]
    transposed: tuple[tuple[int, int, int], ...] = ()  # (operation, value, first position of the transposed copy)
    stacked: Mapping[int, int] = field(default_factory=dict)  # stacks written by loops -> operation that makes the parts (`find_stacked`)


def lifetimes_of(
    program: Program,
    structure: Structure,
    kernels: Kernels,
    held: Mapping[int, int],
    *,
    recomputes: bool,
    copies_transposed: bool,
    fuses: bool = True,
) -> Lifetimes:
    """Compute lifetimes, once per program.

    `held`: values kept until a position (`held_until_fetched`); `recomputes`: the back end fuses elementwise operations
    into each reader; `copies_transposed`: it copies values that are read in another order than stored; `fuses`: it
    fuses at all (else each kernel's results are stored).
    """
    last_reads = kernels.last_reads if recomputes or not fuses else None
    extents = _measure_extents(structure)
    last_use = (
        {i: value.last_use for i, value in enumerate(structure.values) if _is_stored(value)} if last_reads is None else dict(last_reads)
    )
    returned = [_updated(structure, value if last_reads is None else _resolve_view(structure, value)) for value in structure.returned]
    carried = {value_id for result, _ in program.carried for value_id in (returned[result], _resolve_view(structure, returned[result]))}
    outputs = set(returned) - carried
    shapes = {tensor.shape for tensor in program.arguments if tensor.role is Role.PARAMETER and tensor.shape}
    in_place = _loop_buffers_in_place(structure, last_use) | _made_in_branches(structure)
    regions = []
    for number, region in enumerate(structure.regions):
        spans = []
        for index in region.values:
            value = structure.values[index]
            if value.maker < 0 or index not in last_use or value.on_host or index in carried or index in in_place:
                continue
            first = extents[0][0] if copies_transposed and _is_reversed_weight(structure, value) else structure.ops[value.maker].position
            last = extents[number][1] if index in outputs else min(max(last_use[index], first, held.get(index, -1)), extents[number][1])
            role = _role(program, value.maker, value.shape, shapes, is_output=index in outputs)
            spans.append((index, first, last, ROLES.index(role)))
        columns = np.array(spans, dtype=np.int64).reshape(-1, 4)
        regions.append(Spans(*(columns[:, i] for i in range(4))))
    born = np.array([value.maker for value in structure.values], dtype=np.int64)
    gathering = tuple(index for index, op in enumerate(structure.ops) if op.kind in _ON_WHOLE_ARRAYS and not op.placement)
    return Lifetimes(
        tuple(regions),
        tuple(extents),
        born,
        gathering,
        recomputes,
        accesses(structure, kernels),
        dict(loop_ends(structure, extents)),
        tuple(_find_casts(structure, extents)) if recomputes else (),
        tuple(_find_transposed_copies(program, structure, extents)) if copies_transposed else (),
        find_stacked(structure),
    )


def _resolve_view(structure: Structure, value: int) -> int:
    while (maker := structure.values[value].maker) >= 0 and structure.ops[maker].kind in VIEWING and len(structure.ops[maker].results) == 1:
        value = structure.ops[maker].operands[0]
    return value


def _updated(structure: Structure, value: int) -> int:
    """Return the value whose memory in-place updates made this one in."""
    while (maker := structure.values[value].maker) >= 0 and structure.ops[maker].updates_in_place:
        value = structure.ops[maker].operands[0]
    return value


def _is_reversed_weight(structure: Structure, value: TracedValue) -> bool:
    """Return whether it is a reversed argument (a convolution's input gradient), copied at the start by XLA:CPU."""
    op = structure.ops[value.maker]
    return op.kind == "stablehlo.reverse" and structure.values[op.operands[0]].maker < 0 and op.region == 0


def _is_argument(structure: Structure, value: int, region: int) -> bool:
    return structure.values[value].maker < 0 and structure.values[value].region == region


def _find_transposed_copies(program: Program, structure: Structure, extents: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield values that are copied in another order.

    These are the operands of a convolution's weight gradient, whose windows also move along the first dimension, the
    batch in other convolutions; and the left operand of a dot that contracts its first dimension, as a matrix gradient
    does, unless it is a matrix (transposed on reading) or narrow. Gradients are made in both orders.
    """
    for index, op in enumerate(structure.ops):
        value = structure.values[op.operands[0]] if op.operands else None
        if value and op.kind == "stablehlo.dot_general" and 0 in op.work.contracted and len(value.shape) > 2 and value.shape[-1] > _NARROW:
            is_gradient = value.maker >= 0 and value.region == op.region and program.operations[value.maker].path.startswith("grad/")
            yield index, op.operands[0], structure.ops[value.maker].position if is_gradient else op.position
        if op.kind == "stablehlo.convolution" and 0 in op.crossing_dims:
            start = extents[op.region][0]
            yield from (
                (index, operand, start if _is_argument(structure, operand, op.region) else op.position) for operand in op.operands[:2]
            )


def _is_stored(value: TracedValue) -> bool:
    return value.stored and value.alias is None


def _role(program: Program, born: int, shape: tuple[int, ...], parameters: set[tuple[int, ...]], *, is_output: bool) -> Role:
    path = program.operations[born].path
    if is_output:
        return Role.OUTPUT
    # A parameter's shape in the backward pass or optimizer indicates a gradient or a value computed from one.
    return Role.GRADIENT if shape in parameters and path.startswith(("grad/", "optimizer/")) else Role.ACTIVATION


def _measure_extents(structure: Structure) -> list[tuple[int, int]]:
    extents = [(max(op.position for op in structure.ops), 0)] * len(structure.regions)
    for op in structure.ops:
        region = op.region
        while region >= 0:
            first, last = extents[region]
            extents[region] = min(first, op.position), max(last, op.position)
            parent = structure.regions[region].parent
            region = structure.ops[parent].region if parent >= 0 else -1
    return extents


def _loop_buffers_in_place(structure: Structure, last_use: dict[int, int]) -> set[int]:
    """Return loop results that reuse their initial buffer: unchanged or not read later; moves `last_use` accordingly."""
    in_place = set()
    for loop in structure.body_of:
        op = structure.ops[loop]
        unchanged = invariant_slots(structure, loop)
        for slot, result in enumerate(op.results):
            start = structure.values[op.operands[slot]]
            dies_here = start.maker >= 0 and last_use.get(op.operands[slot]) == op.position and start.region == op.region
            if slot in unchanged:
                in_place.add(result)
            elif dies_here:
                last_use[op.operands[slot]] = max(op.position, last_use.get(result, -1))
                in_place.add(result)
    return in_place


def _made_in_branches(structure: Structure) -> set[int]:
    """Return values that branches return, through views; they are made in the condition's result buffers."""
    values: set[int] = set()
    ends = {op.region: op for op in structure.ops if op.kind == "stablehlo.return"}
    for number, region in enumerate(structure.regions):
        if region.parent < 0 or structure.ops[region.parent].kind not in BRANCHING or number not in ends:
            continue
        returned = {_resolve_view(structure, value) for value in ends[number].operands}
        values |= {value for value in returned if structure.values[value].region == number}
    return values


def _find_casts(structure: Structure, extents: Sequence[tuple[int, int]]) -> Iterator[Cast]:
    bodies = {body: structure.ops[loop].position for loop, body in structure.body_of.items() if structure.ops[loop].region == 0}
    slices = {op.results[0]: op for op in structure.ops if op.region in bodies and op.kind == "stablehlo.dynamic_slice"}
    casts: dict[tuple[int, str], Cast] = {}
    for index, op in enumerate(structure.ops):
        if op.kind == "stablehlo.reshape" and op.operands[0] in slices:
            slices[op.results[0]] = slices[op.operands[0]]
        if op.kind != "stablehlo.convert" or op.operands[0] not in slices:
            continue
        stack, narrow = _resolve_view(structure, slices[op.operands[0]].operands[0]), structure.values[op.results[0]].dtype
        share = itemsize(narrow) / itemsize(structure.values[stack].dtype)
        if stack in structure.arguments and share < 1:
            first, last = bodies[op.region], extents[op.region][1]
            earlier = casts.get((stack, narrow))
            of_all = max(extents[body][1] for body in bodies)
            casts[stack, narrow] = Cast(
                index, stack, share, min(first, earlier.first) if earlier else first, max(last, earlier.last) if earlier else last, of_all
            )
    yield from casts.values()
