"""FLOP of the dots in compiled HLO; a multiply-add counts as 2.

TPU compilers write every product as a convolution, with batch dimensions as spatial ones whose dilated windows each
meet one true element; therefore only positions where a window meets an element count (like XLA's `HloCostAnalysis`).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from workbench.spmd.hlo_module import Computation, HloInstruction
from workbench.spmd.hlo_shapes import Array

_COMPLEX = ("c64", "c128")
_GEMMS = ("__cublas$", "__onednn$matmul", "__triton_gemm")  # prefixes of custom call targets that multiply


class ConvWindow(NamedTuple):
    """One spatial dimension of a convolution, named as in XLA's `window={...}`."""

    given: int
    kernel: int
    result: int
    stride: int = 1
    pad_low: int = 0
    lhs_dilate: int = 1
    rhs_dilate: int = 1


def flops_of(computation: Computation, instructions: Iterable[HloInstruction]) -> int:
    """FLOP of the dots among instructions of one computation."""
    return sum(
        _dot_flops(computation, instruction) * (4 if instruction.arrays[0].element in _COMPLEX else 1)
        for instruction in instructions
        if is_dot(instruction)
    )


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
    """Return the contracted dimensions of the left operand; of a library call those in its config, else the last."""
    if instruction.opcode == "dot":
        return instruction.fields.dot_dimension_numbers.lhs_contracting_dimensions
    config = instruction.backend_config
    numbers = config.get("gemm_backend_config", config).get("dot_dimension_numbers", {})
    return [int(dim) for dim in numbers.get("lhs_contracting_dimensions", (len(left.dims) - 1,))]


def _convolution_flops(instruction: HloInstruction, operands: Sequence[Array]) -> int:
    image, kernel = operands
    fields, numbers = instruction.fields, instruction.fields.convolution_dimension_numbers
    batch = image.dims[numbers.input_batch_dimension] // (fields.batch_group_count or 1)
    channels = kernel.dims[numbers.kernel_input_feature_dimension] * kernel.dims[numbers.kernel_output_feature_dimension]
    return 2 * batch * channels * prod(map(_count_window_hits, _windows(instruction, image, kernel)))


def _windows(instruction: HloInstruction, given: Array, kernel: Array) -> list[ConvWindow]:
    numbers, result = instruction.fields.convolution_dimension_numbers, instruction.arrays[0]
    dimensions = (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions, numbers.output_spatial_dimensions)
    return [
        ConvWindow(
            given.dims[input_dim],
            kernel.dims[kernel_dim],
            result.dims[output_dim],
            window.stride,
            window.padding_low,
            lhs_dilate=window.base_dilation,
            rhs_dilate=window.window_dilation,
        )
        for input_dim, kernel_dim, output_dim, window in zip(*dimensions, instruction.fields.window.dimensions, strict=True)
    ]


@lru_cache(maxsize=4096)
def _count_window_hits(window: ConvWindow) -> int:
    """Count the pairs of a kernel element and an input element that meet, over all results.

    >>> _count_window_hits(ConvWindow(given=8, kernel=3, result=8, pad_low=1))
    22
    """
    starts = np.arange(window.result, dtype=np.int64) * window.stride - window.pad_low
    last = (window.given - 1) * window.lhs_dilate
    hits = 0
    for tap in range(window.kernel):
        places = starts + tap * window.rhs_dilate
        hits += int(((places >= 0) & (places <= last) & (places % window.lhs_dilate == 0)).sum())
    return hits
