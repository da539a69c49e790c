"""FLOP of the dots in compiled HLO: a multiply-add is 2.

A TPU compiler writes every product as a convolution, batch dimensions as spatial ones whose dilated windows meet one true element each;
so only positions where a window meets an element count (as XLA's own `HloCostAnalysis` has it).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from workbench.spmd.hlo_module import Computation, HloInstruction
from workbench.spmd.hlo_shapes import Array

_COMPLEX = ("c64", "c128")
_GEMMS = ("__cublas$", "__onednn$matmul", "__triton_gemm")  # how the targets of custom calls that multiply begin


class ConvWindow(NamedTuple):
    """One spatial dimension of a convolution, in the words of XLA's `window={...}`."""

    given: int
    kernel: int
    result: int
    stride: int = 1
    pad_low: int = 0
    lhs_dilate: int = 1
    rhs_dilate: int = 1


def flops_of(computation: Computation, instructions: Iterable[HloInstruction]) -> int:
    """FLOP of the dots among the instructions, which are all in one computation."""
    return sum(_dot_flops(computation, each) * (4 if each.arrays[0].element in _COMPLEX else 1) for each in instructions if is_dot(each))


def is_dot(instruction: HloInstruction) -> bool:
    opcode = instruction.opcode
    return opcode in ("dot", "convolution") or (opcode == "custom-call" and instruction.fields.custom_call_target.startswith(_GEMMS))


def _dot_flops(computation: Computation, instruction: HloInstruction) -> int:
    operands = [computation[name].arrays[0] for name in instruction.operands[:2]]
    if instruction.opcode == "convolution":
        return _convolution_flops(instruction, operands)
    contracted = prod(operands[0].dims[dim] for dim in _contracting_dims(instruction, operands[0]))
    return 2 * instruction.arrays[0].size * contracted


def _contracting_dims(instruction: HloInstruction, left: Array) -> Sequence[int]:
    """Dimensions of the left operand that are summed over; of a library call those its config names, else the last."""
    if instruction.opcode == "dot":
        return instruction.fields.dot_dimension_numbers.lhs_contracting_dimensions
    config = instruction.backend_config
    numbers = config.get("gemm_backend_config", config).get("dot_dimension_numbers", {})
    return [int(each) for each in numbers.get("lhs_contracting_dimensions", (len(left.dims) - 1,))]


def _convolution_flops(instruction: HloInstruction, operands: Sequence[Array]) -> int:
    given, kernel = operands
    fields, numbers = instruction.fields, instruction.fields.convolution_dimension_numbers
    batch = given.dims[numbers.input_batch_dimension] // (fields.batch_group_count or 1)
    channels = kernel.dims[numbers.kernel_input_feature_dimension] * kernel.dims[numbers.kernel_output_feature_dimension]
    return 2 * batch * channels * prod(map(_count_window_hits, _windows(instruction, given, kernel)))


def _windows(instruction: HloInstruction, given: Array, kernel: Array) -> list[ConvWindow]:
    numbers, result = instruction.fields.convolution_dimension_numbers, instruction.arrays[0]
    dimensions = (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions, numbers.output_spatial_dimensions)
    return [
        ConvWindow(
            given.dims[one],
            kernel.dims[other],
            result.dims[third],
            each.stride,
            each.padding_low,
            lhs_dilate=each.base_dilation,
            rhs_dilate=each.window_dilation,
        )
        for one, other, third, each in zip(*dimensions, instruction.fields.window.dimensions, strict=True)
    ]


@lru_cache(maxsize=4096)
def _count_window_hits(window: ConvWindow) -> int:
    """How often, over all results, an element of the kernel meets one of the input.

    >>> _count_window_hits(ConvWindow(given=8, kernel=3, result=8, pad_low=1))
    22
    """
    starts = np.arange(window.result, dtype=np.int64) * window.stride - window.pad_low
    last = (window.given - 1) * window.lhs_dilate
    met = 0
    for tap in range(window.kernel):
        places = starts + tap * window.rhs_dilate
        met += int(((places >= 0) & (places <= last) & (places % window.lhs_dilate == 0)).sum())
    return met
