"""Arithmetic of the products in compiled HLO: a multiply-add is 2.

A TPU compiler writes every product as a convolution, batch dimensions as spatial ones whose dilated windows meet one true element each;
so only positions where a window meets an element count (as XLA's own `HloCostAnalysis` has it).
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from workbench.engine.hlo import Computation, Instruction
from workbench.engine.hlo_shapes import Array, array_of

_CONTRACTED = re.compile(r'lhs_contracting_dim(?:ension)?s"?[=:][{\[]([\d,"]*)[}\]]')
_DIM_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"window=\{([^}]*)\}")
_BATCH_GROUPS = re.compile(r"batch_group_count=(\d+)")
_GEMM = re.compile(r'custom_call_target="(?:__cublas\$|__onednn\$matmul|__triton_gemm)')


class Window(NamedTuple):
    """One spatial dimension of a convolution, in the words of XLA's `window={...}`."""

    given: int
    kernel: int
    result: int
    stride: int = 1
    pad_low: int = 0
    lhs_dilate: int = 1
    rhs_dilate: int = 1


def flops_of(computation: Computation, instructions: Iterable[Instruction]) -> int:
    """Of the products among the instructions, which all stand in one computation."""
    return sum(_flops(computation, each) for each in instructions)


def is_product(instruction: Instruction) -> bool:
    opcode = instruction.opcode
    return opcode in ("dot", "convolution") or (opcode == "custom-call" and _GEMM.search(instruction.attributes) is not None)


def _flops(computation: Computation, instruction: Instruction) -> int:
    if not is_product(instruction) or any(name not in computation for name in instruction.operands[:2]):
        return 0
    operands = [array_of(computation[name].shape) for name in instruction.operands[:2]]
    if instruction.opcode == "convolution":
        return _convolution_flops(instruction, operands)
    contracted = _CONTRACTED.search(instruction.attributes)
    dims = [int(each) for each in re.findall(r"\d+", contracted[1])] if contracted else [len(operands[0].dims) - 1]
    return 2 * array_of(instruction.shape).size * prod(operands[0].dims[dim] for dim in dims)


def _convolution_flops(instruction: Instruction, operands: Sequence[Array]) -> int:
    labels = _DIM_LABELS.search(instruction.attributes)
    if labels is None:
        return 0
    given, kernel = operands
    result = array_of(instruction.shape)
    windows = _windows(instruction, labels, given, kernel, result)
    batch_groups = _BATCH_GROUPS.search(instruction.attributes)
    batch = given.dims[labels[1].index("b")] // (int(batch_groups[1]) if batch_groups else 1)
    channels = kernel.dims[labels[2].index("i")] * kernel.dims[labels[2].index("o")]
    return 2 * batch * channels * prod(map(_meetings, windows))


def _windows(instruction: Instruction, labels: re.Match[str], given: Array, kernel: Array, result: Array) -> list[Window]:
    text = _WINDOW.search(instruction.attributes)
    fields = dict(each.split("=") for each in text[1].split()) if text else {}

    def of(name: str, dimension: int, default: int) -> int:
        return int(fields[name].split("x")[dimension].split("_")[0]) if name in fields else default

    return [
        Window(
            given.dims[labels[1].index(str(i))],
            kernel.dims[labels[2].index(str(i))],
            result.dims[labels[3].index(str(i))],
            stride=of("stride", i, 1),
            pad_low=of("pad", i, 0),
            lhs_dilate=of("lhs_dilate", i, 1),
            rhs_dilate=of("rhs_dilate", i, 1),
        )
        for i in range(len(given.dims) - 2)
    ]


@lru_cache(maxsize=4096)
def _meetings(window: Window) -> int:
    """How often, over all results, an element of the kernel meets one of the input.

    >>> _meetings(Window(given=8, kernel=3, result=8, pad_low=1))
    22
    """
    starts = np.arange(window.result, dtype=np.int64) * window.stride - window.pad_low
    last = (window.given - 1) * window.lhs_dilate
    met = 0
    for tap in range(window.kernel):
        places = starts + tap * window.rhs_dilate
        met += int(((places >= 0) & (places <= last) & (places % window.lhs_dilate == 0)).sum())
    return met
