"""Cycles of the kernels of a program that XLA:TPU has scheduled, as its own estimate gives them once code is generated.

A kernel goes over its arrays a window at a time; each window has a start-up, and each vector register (4 KB: 8 x 128 lanes of four bytes)
uses ports: for what is read, rounded to two bytes on the way out, summed up. Arithmetic on an element hardly counts, for several units work
in parallel. A dot keeps the matrix units busy as long as its padded tiles take, and its elementwise part runs beside it, unless its own
result is rounded: that is another pass. Windows are as large as on-chip memory allows.

The form was read off 4,500 kernels of the third-party programs for fitting; the numbers are in `kernel_rates.toml`, by chip.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from math import ceil, isfinite, prod
from pathlib import Path

from workbench.cost.tuned_constants import tuned
from workbench.hardware.hardware import Chip
from workbench.spmd.hlo_flops import flops_of, is_dot
from workbench.spmd.hlo_module import (
    MOVES,
    SLICES,
    Computation,
    HloInstruction,
    HloModule,
    InstructionVisit,
    body_of,
    instructions_within,
    parameter_of,
    root_of,
    updated_bytes,
)
from workbench.spmd.hlo_shapes import DEVICE_MEMORY, Array

SHIPPED = Path(__file__).with_name("kernel_rates.toml")
REGISTER = 4096  # bytes
_SUBLANES = 8
_NEAREST = "tpu:v5e"
_ELEMENTS = 1024  # of a register, four bytes each
_PASS = tuned("register_pass")
_REACHED = tuned("reached_bandwidth")
_HALVES, _BYTES = ("bf16", "f16"), ("pred", "s8", "u8")
_ARITHMETIC = (
    *("abs", "add", "and", "clamp", "compare", "convert", "maximum", "minimum", "multiply", "negate", "not", "or", "select", "shift-left"),
    *("shift-right-arithmetic", "shift-right-logical", "sign", "subtract", "xor"),
)
_PLACING = ("concatenate", "dynamic-update-slice", "pad", "reshape", "reverse", "transpose")
_UNESTIMATED = ("gather", "scatter", "sort", "reduce-window", "select-and-scatter", "custom-call")
_NAMES = ("parameter", "bitcast", "get-tuple-element", "tuple", "dynamic-update-slice", "fusion", "reduce")  # no space to go over


@dataclass(frozen=True, slots=True)
class KernelRates:
    """Cycles of one chip, by XLA:TPU's estimate, by what they are for.

    - `window`: to start a window; `product_window`: to start one with a dot;
    - per register: `read`, `written` (where that is more than what is read), `rounded` to two bytes, `summed`, and `operation`;
    - `product_operation`: per operation beside a dot, where that takes longer; `product_rounded`: per register of a dot's result that is
      rounded; `units`: matrix units, of `side` x `side`;
    - `moved`: of a window that only changes its layout, `moved_main`: of a register, where that is in main memory; `filled`: of a register
      that is filled with one number;
    - `window_registers`: as many of operands and results are in a window at most;
    - `memory_bytes`: of main memory in a cycle; `unhidden`: the share of the shorter of work and such traffic that the other does not hide;
    - `source`: what the numbers were fitted on, and with which compiler.
    """

    window: float
    product_window: float
    read: float
    written: float
    rounded: float
    summed: float
    operation: float
    product_operation: float
    product_rounded: float
    moved: float
    moved_main: float
    filled: float
    units: int
    side: int
    window_registers: int
    memory_bytes: float
    unhidden: float
    source: str = ""


@cache
def known_rates() -> Mapping[str, KernelRates]:
    """The known rates, by a chip's `target`."""
    made = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    return {target: KernelRates(**rates) for target, rates in made["rates"].items()}


def rates_for(chip: Chip, clock: float) -> KernelRates:
    """The rates of a chip with `clock` cycles a second. For one that nothing was fitted on: its own matrix units, bandwidth and launch, and
    TPU v5e's ports, scaled by how fast the two pass over elements (`hardware.toml`)."""
    known = known_rates()
    if chip.target in known:
        return known[chip.target]
    near = known[_NEAREST]
    side = chip.matmul_tile[0] if chip.matmul_tile else near.side
    units = max(round(chip.peak("bfloat16") / (2 * side * side * clock)), 1)
    share = clock / chip.sweep * _ELEMENTS / _PASS if isfinite(chip.sweep) else 1.0
    ports = {name: getattr(near, name) * share for name in ("read", "written", "rounded", "summed", "product_rounded")}
    chip_rates = {"window": chip.launch * clock, "memory_bytes": _REACHED * chip.memory_bandwidth / clock}
    return KernelRates(**{**asdict(near), **ports, **chip_rates, "units": units, "side": side, "source": ""})


@dataclass(frozen=True, slots=True)
class Registers:
    """What a kernel works on, in registers: `read` and `written`, of which `rounded` to two bytes; `summed` up; `operations` one by one;
    `main`: bytes of main memory; `move`: `copy` or `broadcast` for a kernel that does nothing else."""

    read: float
    written: float
    rounded: float
    summed: float
    operations: float
    main: float
    dots: tuple["Dot", ...]
    move: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """One dot: `passes` over `rows` x `columns` results, each summing `depth` elements; `rounded`: registers of two-byte results;
    `is_spatial`: a convolution, more than a dot in the form of one."""

    rows: int
    columns: int
    depth: float
    passes: int
    rounded: float
    is_spatial: bool = False

    def cycles(self, rates: KernelRates) -> float:
        """Cycles on all matrix units. The side that wastes less is streamed; of a convolution the rows."""
        side = rates.side
        streams = _round_up(self.rows, _SUBLANES) * _round_up(self.columns, side)
        if not self.is_spatial:
            streams = min(streams, _round_up(self.columns, _SUBLANES) * _round_up(self.rows, side))
        return self.passes * streams * _round_up(self.depth, side) / (rates.units * side * side)


def estimated_cycles(module: HloModule, visits: Iterable[InstructionVisit], rates: KernelRates) -> float:
    """Cycles of all these kernels per step, without those XLA:TPU gives no estimate of: copies that run beside others, gathers, sorts."""
    timed = (each for each in visits if module.printed_opcode(each.instruction) not in MOVES and not is_unestimated(module, each))
    return sum(kernel_cycles(work_of(module, each), rates) * each.runs for each in timed)


def kernel_cycles(work: Registers, rates: KernelRates) -> float:
    """Cycles of one execution."""
    windows = max(ceil((work.read + work.written) / rates.window_registers), 1)
    ports = work.read * rates.read + work.rounded * rates.rounded + work.summed * rates.summed
    vector = max(ports, work.written * rates.written) + work.operations * rates.operation
    main = work.main / rates.memory_bytes
    if work.move == "copy":
        return max(rates.window, work.written * rates.moved_main) if work.main else windows * rates.moved
    if work.move == "broadcast" and not work.main:
        return work.written * rates.filled
    if not work.dots:
        return windows * rates.window + _overlap_cycles(vector, main, rates)
    matrix = sum(each.cycles(rates) + each.rounded * rates.product_rounded for each in work.dots)
    start = rates.product_window + (rates.window if any(each.rounded for each in work.dots) else 0)
    return windows * start + _overlap_cycles(max(matrix, work.operations * rates.product_operation), main, rates)


def _overlap_cycles(work: float, traffic: float, rates: KernelRates) -> float:
    """Cycles of work and of traffic of main memory, which hide each other in part."""
    return max(work, traffic) + rates.unhidden * min(work, traffic)


def is_unestimated(module: HloModule, visit: InstructionVisit) -> bool:
    """Whether XLA:TPU gives no estimate of such a kernel: gathers, scatters and sorts and, where they stand alone, kernels that put slices
    in their places or keep their operand's layout."""
    instruction = visit.instruction
    if instruction.opcode in _PLACING:
        return True
    if instruction.opcode in ("copy", "slice"):
        given, made = visit.computation[instruction.operands[0]].arrays[0], instruction.arrays[0]
        is_moved = instruction.opcode == "slice" or given.space != made.space
        return is_moved and made.padded_bytes > REGISTER and (given.order, given.tiles) == (made.order, made.tiles)
    inner = [each.opcode for _, each in instructions_within(module, instruction)] or [instruction.opcode]
    return any(opcode in _UNESTIMATED for opcode in inner)


def work_of(module: HloModule, visit: InstructionVisit) -> Registers:
    """What a kernel of the program works on."""
    instruction, computation = visit.instruction, visit.computation
    body = body_of(module, instruction)
    inner = list(instructions_within(module, instruction)) or [(computation, instruction)]
    space = max((_element_count(home, each) for home, each in inner), default=0) / 1024
    reads = list(_list_reads(module, visit, body))
    writes = list(_list_writes(instruction, body))
    tiles = max(space, *(size / REGISTER * _relative_width(array) for array, size in writes), 0.0)
    return Registers(
        read=sum(min(size / REGISTER, tiles) for _, size in reads),
        written=sum(size for _, size in writes) / REGISTER,
        rounded=sum(2 * size for array, size in writes if array.element in _HALVES) / REGISTER,
        summed=max((_element_count(home, each) for home, each in inner if each.opcode == "reduce"), default=0) / 1024,
        operations=sum(each.arrays[0].size for _, each in inner if each.opcode in _ARITHMETIC) / 1024,
        main=sum(size for array, size in (*reads, *writes) if array.space == DEVICE_MEMORY),
        dots=tuple(_read_dot(home, each) for home, each in inner if is_dot(each)),
        move=instruction.opcode if instruction.opcode in ("copy", "broadcast") else "",
    )


def _read_dot(home: Computation, dot: HloInstruction) -> Dot:
    left, kernel = (home[name].arrays[0] for name in dot.operands[:2])
    result = dot.arrays[0]
    depth = flops_of(home, [dot]) / 2 / max(result.size, 1)
    if dot.opcode != "convolution":
        return Dot(result.size // max(result.dims[-1], 1), result.dims[-1], depth, 1, _rounded_registers(result))
    numbers = dot.fields.convolution_dimension_numbers
    columns = result.dims[numbers.output_feature_dimension]
    taps = _taps(dot, left, result)
    passes = _count_passes(taps, kernel.dims[numbers.kernel_input_feature_dimension])
    return Dot(result.size // max(columns, 1), columns, depth / passes, passes, _rounded_registers(result), is_spatial=bool(taps))


def _taps(dot: HloInstruction, left: Array, result: Array) -> list[tuple[int, int]]:
    """Size and stride of the window along each spatial dimension. XLA:TPU also writes batch dimensions, summed dimensions, and the gradient
    of a kernel, whose windows are longer than its result, as such."""
    window = [each for each in dot.fields.window.dimensions if each.size > 1 and each.base_dilation == 1 and each.window_dilation == 1]
    numbers = dot.fields.convolution_dimension_numbers
    sizes = zip(dot.fields.window.dimensions, numbers.input_spatial_dimensions, numbers.output_spatial_dimensions, strict=True)
    whole = [each for each, one, other in sizes if each.size in (left.dims[one], result.dims[other]) and each.stride == 1]
    return [(each.size, each.stride) for each in window if each not in whole]


def _count_passes(taps: list[tuple[int, int]], channels: int) -> int:
    """The number of dots made one after the other. The longest of the kernel's dimensions is summed over at once; channels that do not fill
    a side, with the window along its first dimension."""
    if not taps:
        return 1
    sizes = [size for size, _ in taps]
    if channels >= max(sizes):
        return prod(sizes[1:])
    if all(stride < size for size, stride in taps):
        return prod(ceil(size / stride) for size, stride in taps)
    return channels * prod(sizes) // max(sizes)


def _rounded_registers(result: Array) -> float:
    return 2 * result.padded_bytes / REGISTER if result.element in _HALVES else 0.0


def _element_count(home: Computation, each: HloInstruction) -> int:
    """The number of elements that an instruction goes over."""
    if each.opcode == "reduce":
        return home[each.operands[0]].arrays[0].size
    return 0 if each.opcode in _NAMES else max((array.size for array in each.arrays), default=0)


def _relative_width(array: Array) -> int:
    """How many times as many elements a register holds as of four-byte ones."""
    return 2 if array.element in _HALVES else 4 if array.element in _BYTES else 1


def _list_reads(module: HloModule, visit: InstructionVisit, body: Computation | None) -> Iterator[tuple[Array, float]]:
    """The arrays that a kernel reads, and bytes of each with padding; of one that is only sliced the slices count."""
    for position, name in enumerate(visit.instruction.operands):
        for array in visit.computation[name].arrays:
            share = _read_elements(module, body, position, array) / max(array.size, 1) if body else 1.0
            yield array, min(share, 1.0) * array.padded_bytes


def _read_elements(module: HloModule, body: Computation, position: int, array: Array) -> int:
    parameter = parameter_of(body, position)
    users = list(_find_users(module, body, parameter)) if parameter else []
    if users and all(each.opcode in SLICES for each in users):
        return sum(each.arrays[0].size for each in users)
    return 0 if users and all(each.opcode == "dynamic-update-slice" for each in users) else array.size


def _find_users(module: HloModule, body: Computation, value: HloInstruction) -> Iterator[HloInstruction]:
    """The instructions that read a value, through bitcasts and fusions within the fusion."""
    for each in body.values():
        if value.name not in each.operands:
            continue
        if each.opcode == "bitcast":
            yield from _find_users(module, body, each)
        elif (inner := body_of(module, each)) is not None:
            parameters = (parameter_of(inner, number) for number, name in enumerate(each.operands) if name == value.name)
            yield from (user for parameter in parameters if parameter for user in _find_users(module, inner, parameter))
        else:
            yield each


def _list_writes(instruction: HloInstruction, body: Computation | None) -> Iterator[tuple[Array, float]]:
    """The arrays that a kernel writes, and bytes of each with padding; of one that is updated in place the slice counts."""
    root = root_of(body) if body else None
    made = [body[name] for name in root.operands] if body and root and root.opcode == "tuple" else [root]
    for number, array in enumerate(instruction.arrays):
        source = made[number] if number < len(made) else None
        yield array, array.padded_bytes * (_written_share(body, source, array) if body and source else 1.0)


def _written_share(body: Computation, source: HloInstruction, array: Array) -> float:
    """The share of an array that is written."""
    written = updated_bytes(body, source)
    return 1.0 if written is None else written / max(array.bytes, 1)


def _round_up(size: float, tile: int) -> int:
    return ceil(size / tile) * tile
