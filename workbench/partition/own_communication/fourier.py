"""Fourier transforms. XLA:CPU and XLA:GPU replicate what is cut along a transformed dimension, and before jaxlib 0.12 whatever is cut
(`DefaultAction`; openxla/xla, `spmd_partitioner.cc`).

XLA:TPU turns a transform into matrix products before it partitions: a cut batch dimension sends nothing then; what a cut transform
sends depends on how the compiler factors its length, and is not told.
"""

from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.partition.compiler_version import CUTS_BATCHES_OF_TRANSFORMS
from workbench.partition.own_communication.placed import NOTHING, Answer, Operator, Placed, numbers
from workbench.partition.own_communication.windows import whole


class Transform(NamedTuple):
    """How many of the last dimensions are transformed."""

    dims: int


def read(op: ir.Operation) -> Transform:
    return Transform(len(numbers(op, "fft_length")))


def sends(facts: Transform, placed: Placed) -> Answer | None:
    operand = placed.operands[0]
    if not any(operand.stored):
        return NOTHING
    is_cut = any(operand.stored[-facts.dims :])
    if placed.backend.expands_early:
        return None if is_cut else NOTHING
    return whole(placed, 0) if is_cut or not CUTS_BATCHES_OF_TRANSFORMS else NOTHING


FOURIER = Operator("Fourier transform", ("stablehlo.fft",), read, sends)
