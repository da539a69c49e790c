"""When the values of a program are alive, as far as no layout changes it: computed once for a program and back end."""

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
from workbench.propagation.structure.program_structure import Structure, TracedValue, unchanged_slots
from workbench.propagation.structure.stored_values import VIEWING, find_stacked

_NARROW = 4  # columns: a matrix this narrow is read in the order it is stored in
_ON_WHOLE_ARRAYS = ("stablehlo.fft", "stablehlo.reduce_window", "stablehlo.custom_call")
Integers = NDArray[np.int64]
ROLES = tuple(Role)


class Cast(NamedTuple):
    """Stacked weights that loops slice and cast to a narrower type: XLA casts the whole stack before the first of them."""

    operation: int  # the cast
    stack: int
    share: float  # its bytes of the stack's
    first: int
    last: int  # the end of the last loop that reads it
    last_of_all: int  # and of the last loop


class Spans(NamedTuple):
    """Stored values of a region: value, first and last position, role; one array each."""

    values: Integers
    first: Integers
    last: Integers
    roles: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """Lifetimes and what else never changes with the layout."""

    regions: tuple[Spans, ...]
    extents: tuple[tuple[int, int], ...]  # first and last position of each region
    born: Integers  # the operation that makes each value, -1 for an argument
    gathering: tuple[int, ...]  # operations XLA runs on whole arrays
    reduces_in_place: bool  # an all-reduce's result takes the memory of its operand
    accesses: Sequence[Sequence[tuple[int, int]]]  # of each value, see `on_chip_memory.accesses`
    loop_ends: Mapping[tuple[int, int], int]  # by region and position of a loop: the last position of its body
    casts: tuple["Cast", ...]
    transposed: tuple[tuple[int, int, int], ...] = ()  # (operation, value, from where on): the value copied for it in another order
    stacked: Mapping[int, int] = field(default_factory=dict)  # stacks that loops write: what makes the parts (`find_stacked`)


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
    """Computed once a program. `held`: values that stay until a position, read or not (`offloading.held_until_fetched`);
    `recomputes`: the back end fuses elementwise operations into whatever reads them; `copies_transposed`: it
    copies what is read in another order than it is stored in; `fuses`: it fuses at all (else each kernel's results are stored)."""
    kept = kernels.last_reads if recomputes or not fuses else None
    extents = _measure_extents(structure)
    last_use = {i: value.last_use for i, value in enumerate(structure.values) if _is_stored(value)} if kept is None else dict(kept)
    returned = [value if kept is None else _resolve_view(structure, value) for value in structure.returned]
    carried = {each for result, _ in program.carried for each in (returned[result], _resolve_view(structure, returned[result]))}
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
    """The value whose memory a value is a view of."""
    while (born := structure.values[value].maker) >= 0 and structure.ops[born].kind in VIEWING and len(structure.ops[born].results) == 1:
        value = structure.ops[born].operands[0]
    return value


def _is_reversed_weight(structure: Structure, value: TracedValue) -> bool:
    """Whether a value is an argument of main reversed, as the gradient of a convolution's input reads its weights: XLA:CPU copies those at
    the start of the step."""
    op = structure.ops[value.maker]
    return op.kind == "stablehlo.reverse" and structure.values[op.operands[0]].maker < 0 and op.region == 0


def _is_argument(structure: Structure, value: int, region: int) -> bool:
    return structure.values[value].maker < 0 and structure.values[value].region == region


def _find_transposed_copies(program: Program, structure: Structure, extents: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Values that are copied into another order: what the gradient of a convolution's weights reads, for its windows move along the first
    dimension too, which is a batch in no other; and the left operand of a dot that sums over more than its first dimension, as the gradient
    of a matrix does, unless it is narrow. A matrix is transposed as it is read, what has more dimensions is not; gradients are made in both
    orders."""
    for index, op in enumerate(structure.ops):
        value = structure.values[op.operands[0]] if op.operands else None
        if value and op.kind == "stablehlo.dot_general" and 0 in op.work.contracted and len(value.shape) > 2 and value.shape[-1] > _NARROW:
            is_gradient = value.maker >= 0 and value.region == op.region and program.operations[value.maker].path.startswith("grad/")
            yield index, op.operands[0], structure.ops[value.maker].position if is_gradient else op.position
        if op.kind == "stablehlo.convolution" and 0 in op.crossing_dims:
            start = extents[op.region][0]
            yield from ((index, each, start if _is_argument(structure, each, op.region) else op.position) for each in op.operands[:2])


def _is_stored(value: TracedValue) -> bool:
    return value.stored and value.alias is None


def _role(program: Program, born: int, shape: tuple[int, ...], parameters: set[tuple[int, ...]], *, is_output: bool) -> Role:
    path = program.operations[born].path
    if is_output:
        return Role.OUTPUT
    # What has a parameter's shape in the backward pass or the optimiser is a gradient or made of one.
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
    """Results of a loop that reuse the buffer they started in: what the body passes on unchanged, and what no one reads afterwards.

    `last_use` of what they take over is moved to theirs.
    """
    found = set()
    for loop in structure.body_of:
        op = structure.ops[loop]
        unchanged = unchanged_slots(structure, loop)
        for slot, result in enumerate(op.results):
            start = structure.values[op.operands[slot]]
            dies_here = start.maker >= 0 and last_use.get(op.operands[slot]) == op.position and start.region == op.region
            if slot in unchanged:
                found.add(result)
            elif dies_here:
                last_use[op.operands[slot]] = max(op.position, last_use.get(result, -1))
                found.add(result)
    return found


def _made_in_branches(structure: Structure) -> set[int]:
    """What the branches of a condition make and return, through views: it is made where the condition's results are, one branch's as well
    as another's."""
    found: set[int] = set()
    ends = {op.region: op for op in structure.ops if op.kind == "stablehlo.return"}
    for number, region in enumerate(structure.regions):
        if region.parent < 0 or structure.ops[region.parent].kind not in BRANCHING or number not in ends:
            continue
        made = {_resolve_view(structure, value) for value in ends[number].operands}
        found |= {value for value in made if structure.values[value].region == number}
    return found


def _find_casts(structure: Structure, extents: Sequence[tuple[int, int]]) -> Iterator[Cast]:
    """Casts of slices of arguments that loops of main read."""
    bodies = {body: structure.ops[loop].position for loop, body in structure.body_of.items() if structure.ops[loop].region == 0}
    slices = {op.results[0]: op for op in structure.ops if op.region in bodies and op.kind == "stablehlo.dynamic_slice"}
    found: dict[tuple[int, str], Cast] = {}
    for index, op in enumerate(structure.ops):
        if op.kind == "stablehlo.reshape" and op.operands[0] in slices:
            slices[op.results[0]] = slices[op.operands[0]]
        if op.kind != "stablehlo.convert" or op.operands[0] not in slices:
            continue
        stack, narrow = _resolve_view(structure, slices[op.operands[0]].operands[0]), structure.values[op.results[0]].dtype
        share = itemsize(narrow) / itemsize(structure.values[stack].dtype)
        if stack in structure.arguments and share < 1:
            first, last = bodies[op.region], extents[op.region][1]
            known = found.get((stack, narrow))
            of_all = max(extents[body][1] for body in bodies)
            found[stack, narrow] = Cast(
                index, stack, share, min(first, known.first) if known else first, max(last, known.last) if known else last, of_all
            )
    yield from found.values()
