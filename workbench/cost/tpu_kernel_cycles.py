"""Predict XLA:TPU's own cycle estimate for the kernels of a scheduled program, without code generation.

A kernel processes its arrays in windows. Each window has a startup, and each vector register (4 KB: 8 x 128 lanes of
four bytes) uses ports for reads, rounding to two bytes on writes, and sums. Arithmetic hardly counts, since several
units work in parallel. A dot occupies the matrix units for its padded tiles, overlapped with its elementwise part,
except that rounding its own result takes another pass. Windows are as large as on-chip memory allows.

The model was derived from 4,500 kernels of the third-party programs used for fitting; constants are in
`kernel_rates.toml`.
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
_ELEMENTS = 1024  # four-byte elements per register
_PASS = tuned("register_pass")
_REACHED = tuned("reached_bandwidth")
_HALVES, _BYTES = ("bf16", "f16"), ("pred", "s8", "u8")
_ARITHMETIC = (
    *("abs", "add", "and", "clamp", "compare", "convert", "maximum", "minimum", "multiply", "negate", "not", "or", "select", "shift-left"),
    *("shift-right-arithmetic", "shift-right-logical", "sign", "subtract", "xor"),
)
_PLACING = ("concatenate", "dynamic-update-slice", "pad", "reshape", "reverse", "transpose")
_UNESTIMATED = ("gather", "scatter", "sort", "reduce-window", "select-and-scatter", "custom-call")
_NAMES = (
    "parameter",
    "bitcast",
    "get-tuple-element",
    "tuple",
    "dynamic-update-slice",
    "fusion",
    "reduce",
)  # do not define the iteration space


@dataclass(frozen=True, slots=True)
class KernelRates:
    """Cycle rates of one chip, by XLA:TPU's estimate.

    - `window`: startup of a window; `product_window`: startup with a dot;
    - per register: `read`, `written` (if larger than reads), `rounded` to two bytes, `summed`, and `operation`;
    - `product_operation`: per operation beside a dot, if longer; `product_rounded`: per rounded register of a dot's
      result; `units`: matrix units of `side` x `side`;
    - `moved`: of a window that only changes layout, `moved_main`: of a register in main memory; `filled`: of a register
      filled with a constant;
    - `window_registers`: maximum registers of operands and results in a window;
    - `memory_bytes`: main memory bytes per cycle; `unhidden`: the share of the shorter of work and such traffic that
      does not overlap;
    - `source`: data and compiler used for fitting.
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
    table = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    return {target: KernelRates(**rates) for target, rates in table["rates"].items()}


def rates_for(chip: Chip, clock: float) -> KernelRates:
    """Return the rates of a chip; without a fit, its own units, bandwidth and launch with TPU v5e's scaled ports."""
    known = known_rates()
    if chip.target in known:
        return known[chip.target]
    nearest = known[_NEAREST]
    side = chip.matmul_tile[0] if chip.matmul_tile else nearest.side
    units = max(round(chip.peak("bfloat16") / (2 * side * side * clock)), 1)
    share = clock / chip.sweep * _ELEMENTS / _PASS if isfinite(chip.sweep) else 1.0
    ports = {name: getattr(nearest, name) * share for name in ("read", "written", "rounded", "summed", "product_rounded")}
    chip_rates = {"window": chip.launch * clock, "memory_bytes": _REACHED * chip.memory_bandwidth / clock}
    return KernelRates(**{**asdict(nearest), **ports, **chip_rates, "units": units, "side": side, "source": ""})


@dataclass(frozen=True, slots=True)
class Registers:
    """The work of a kernel in registers; `main`: bytes of main memory; `move`: `copy` or `broadcast` if nothing else."""

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
    """One dot: `passes` over `rows` x `columns` results of `depth` products; `is_spatial`: a true convolution."""

    rows: int
    columns: int
    depth: float
    passes: int
    rounded: float
    is_spatial: bool = False

    def cycles(self, rates: KernelRates) -> float:
        """Return cycles on all matrix units; streams the side that wastes less, for a convolution the rows."""
        side = rates.side
        streams = _round_up(self.rows, _SUBLANES) * _round_up(self.columns, side)
        if not self.is_spatial:
            streams = min(streams, _round_up(self.columns, _SUBLANES) * _round_up(self.rows, side))
        return self.passes * streams * _round_up(self.depth, side) / (rates.units * side * side)


def estimated_cycles(module: HloModule, visits: Iterable[InstructionVisit], rates: KernelRates) -> float:
    """Return the cycles per step, without unestimated kernels: asynchronous copies, gathers, sorts."""
    timed = (visit for visit in visits if module.printed_opcode(visit.instruction) not in MOVES and not is_unestimated(module, visit))
    return sum(kernel_cycles(work_of(module, visit), rates) * visit.runs for visit in timed)


def kernel_cycles(work: Registers, rates: KernelRates) -> float:
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
    matrix = sum(dot.cycles(rates) + dot.rounded * rates.product_rounded for dot in work.dots)
    start = rates.product_window + (rates.window if any(dot.rounded for dot in work.dots) else 0)
    return windows * start + _overlap_cycles(max(matrix, work.operations * rates.product_operation), main, rates)


def _overlap_cycles(work: float, traffic: float, rates: KernelRates) -> float:
    return max(work, traffic) + rates.unhidden * min(work, traffic)


def is_unestimated(module: HloModule, visit: InstructionVisit) -> bool:
    """Return whether XLA:TPU does not estimate it: gather, scatter, sort, and lone slices or layout-keeping copies."""
    instruction = visit.instruction
    if instruction.opcode in _PLACING:
        return True
    if instruction.opcode in ("copy", "slice"):
        operand, result = visit.computation[instruction.operands[0]].arrays[0], instruction.arrays[0]
        is_moved = instruction.opcode == "slice" or operand.space != result.space
        return is_moved and result.padded_bytes > REGISTER and (operand.order, operand.tiles) == (result.order, result.tiles)
    inner = [inner_instruction.opcode for _, inner_instruction in instructions_within(module, instruction)] or [instruction.opcode]
    return any(opcode in _UNESTIMATED for opcode in inner)


def work_of(module: HloModule, visit: InstructionVisit) -> Registers:
    instruction, computation = visit.instruction, visit.computation
    body = body_of(module, instruction)
    inner = list(instructions_within(module, instruction)) or [(computation, instruction)]
    space = max((_element_count(home, part) for home, part in inner), default=0) / 1024
    reads = list(_list_reads(module, visit, body))
    writes = list(_list_writes(instruction, body))
    tiles = max(space, *(size / REGISTER * _relative_width(array) for array, size in writes), 0.0)
    return Registers(
        read=sum(min(size / REGISTER, tiles) for _, size in reads),
        written=sum(size for _, size in writes) / REGISTER,
        rounded=sum(2 * size for array, size in writes if array.element in _HALVES) / REGISTER,
        summed=max((_element_count(home, part) for home, part in inner if part.opcode == "reduce"), default=0) / 1024,
        operations=sum(part.arrays[0].size for _, part in inner if part.opcode in _ARITHMETIC) / 1024,
        main=sum(size for array, size in (*reads, *writes) if array.space == DEVICE_MEMORY),
        dots=tuple(_read_dot(home, part) for home, part in inner if is_dot(part)),
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
    """Return size and stride of true spatial windows; XLA:TPU also encodes batch, contraction and kernel gradients so."""
    window = [dim for dim in dot.fields.window.dimensions if dim.size > 1 and dim.base_dilation == 1 and dim.window_dilation == 1]
    numbers = dot.fields.convolution_dimension_numbers
    sizes = zip(dot.fields.window.dimensions, numbers.input_spatial_dimensions, numbers.output_spatial_dimensions, strict=True)
    encoded = [
        dim for dim, input_dim, output_dim in sizes if dim.size in (left.dims[input_dim], result.dims[output_dim]) and dim.stride == 1
    ]
    return [(dim.size, dim.stride) for dim in window if dim not in encoded]


def _count_passes(taps: list[tuple[int, int]], channels: int) -> int:
    """Return the number of sequential dots; one contracts the longest kernel dimension, or few channels with a window."""
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
    if each.opcode == "reduce":
        return home[each.operands[0]].arrays[0].size
    return 0 if each.opcode in _NAMES else max((array.size for array in each.arrays), default=0)


def _relative_width(array: Array) -> int:
    return 2 if array.element in _HALVES else 4 if array.element in _BYTES else 1


def _list_reads(module: HloModule, visit: InstructionVisit, body: Computation | None) -> Iterator[tuple[Array, float]]:
    """Yield the arrays a kernel reads and their padded bytes; of sliced arrays only the slices."""
    for position, name in enumerate(visit.instruction.operands):
        for array in visit.computation[name].arrays:
            share = _read_elements(module, body, position, array) / max(array.size, 1) if body else 1.0
            yield array, min(share, 1.0) * array.padded_bytes


def _read_elements(module: HloModule, body: Computation, position: int, array: Array) -> int:
    parameter = parameter_of(body, position)
    users = list(_find_users(module, body, parameter)) if parameter else []
    if users and all(user.opcode in SLICES for user in users):
        return sum(user.arrays[0].size for user in users)
    return 0 if users and all(user.opcode == "dynamic-update-slice" for user in users) else array.size


def _find_users(module: HloModule, body: Computation, value: HloInstruction) -> Iterator[HloInstruction]:
    """Yield the instructions that read a value, through bitcasts and nested fusions."""
    for instruction in body.values():
        if value.name not in instruction.operands:
            continue
        if instruction.opcode == "bitcast":
            yield from _find_users(module, body, instruction)
        elif (inner := body_of(module, instruction)) is not None:
            parameters = (parameter_of(inner, number) for number, name in enumerate(instruction.operands) if name == value.name)
            yield from (user for parameter in parameters if parameter for user in _find_users(module, inner, parameter))
        else:
            yield instruction


def _list_writes(instruction: HloInstruction, body: Computation | None) -> Iterator[tuple[Array, float]]:
    """Yield the arrays a kernel writes and their padded bytes; of in-place updates only the slices."""
    root = root_of(body) if body else None
    sources = [body[name] for name in root.operands] if body and root and root.opcode == "tuple" else [root]
    for number, array in enumerate(instruction.arrays):
        source = sources[number] if number < len(sources) else None
        yield array, array.padded_bytes * (_written_share(body, source, array) if body and source else 1.0)


def _written_share(body: Computation, source: HloInstruction, array: Array) -> float:
    written = updated_bytes(body, source)
    return 1.0 if written is None else written / max(array.bytes, 1)


def _round_up(size: float, tile: int) -> int:
    return ceil(size / tile) * tile
