"""How XLA's back ends, and runtimes without it, differ: what each makes of the same shardings, as far as it changes what is sent."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.hardware.hardware import Hardware
from workbench.propagation.module.mlir_context import producer
from workbench.propagation.module.operation_kinds import DOTS
from workbench.propagation.structure.operation_work import is_complex, is_exact

TWO_BYTE_FLOATS = ("bfloat16", "float16")  # floats of two bytes


class Backend(NamedTuple):
    """The behaviour of one back end.

    - `folds_reductions`: a sum over several dimensions is one all-reduce over all their axes; XLA:CPU makes one for each dimension.
    - `folds_gathers`: a value that is gathered along several dimensions is gathered once, over all their axes; XLA's partitioner makes one
      all-gather for each dimension, the last one first.
    - `adds_before_reducing`: two reduced values that are only added are added first and reduced together (`all_reduce_reassociate.cc`).
    - `merges_addend_into_scatter`: what is added to a scatter is what that scatters onto, and all-reduced before it
      (`algebraic_simplifier.cc`); reduce-scattered, it is added first.
    - `sums_behind_loops`: a sum that a loop only adds up is reduced once, behind it (`while_loop_all_reduce_code_motion.cc`).
    - `merges_equal_values`: a value that is cast or reshaped twice in the same way is one value, and gathered once.
    - `reduce_scatters_dots`: a dot's sum over several axes, of which each device keeps a slice along some, is reduce-scattered along those
      and then all-reduced along the rest; else all of it is all-reduced.
    - `narrows_dot_operands`: what only dots and convolutions of default precision read is rounded to bfloat16, as they do, before it is
      gathered.
    - `regathers_for_widening_dots`: a dot of two-byte floats that sums into four-byte ones gathers its operands for itself.
    - `widens_two_byte_floats`: values of two-byte floats are computed, sent and kept as four-byte ones; XLA:CPU has no arithmetic for the
      former.
    - `multiplies_complex_as_real`: a dot of complex numbers is three of real ones, whose sums are sent one by one: half as much again.
    - `copies_transposed_operands`: what a dot or convolution reads in another order than it is stored in is copied into that order first.
    - `copies_to_host_late`: outside loops, what is copied to the host's memory stays on the device until it is fetched back: XLA:TPU starts
      all such copies at the end of the forward pass, also where memory is short.
    - `splits_every_batch`: an FFT, and a convolution of groups, runs on each device's part of the batch; else each device does all of it
      (`operation_work.unsplit_dims`).
    - `gather_reuse_distance`: how many operations one after the other may stand between two dots that read one gathered value for it to
      be gathered once and kept; `None` for any number. XLA:TPU gathers again what it would keep for longer
      (`schedule_aware_collective_cse.cc`: a hundred operations of the partitioned program, which has some more than the traced one).
    """

    folds_reductions: bool = False
    folds_gathers: bool = False
    adds_before_reducing: bool = False
    merges_addend_into_scatter: bool = False
    sums_behind_loops: bool = False
    merges_equal_values: bool = False
    reduce_scatters_dots: bool = False
    narrows_dot_operands: bool = False
    regathers_for_widening_dots: bool = False
    widens_two_byte_floats: bool = False
    multiplies_complex_as_real: bool = False
    copies_transposed_operands: bool = False
    copies_to_host_late: bool = False
    splits_every_batch: bool = False
    gather_reuse_distance: int | None = None


NO_HARDWARE = Backend(copies_transposed_operands=True)
CPU = Backend(regathers_for_widening_dots=True, widens_two_byte_floats=True, copies_transposed_operands=True)
GPU = Backend(folds_reductions=True, adds_before_reducing=True, reduce_scatters_dots=True, regathers_for_widening_dots=True)
EAGER = GPU._replace(adds_before_reducing=False, gather_reuse_distance=88)
"""Autograd gathers again in the backward pass what it gathered in the forward pass (Korthikanti et al. 2022, section 4.2.2), and no pass
rearranges sums."""
TPU = Backend(
    folds_reductions=True,
    folds_gathers=True,
    adds_before_reducing=True,
    merges_addend_into_scatter=True,
    sums_behind_loops=True,
    merges_equal_values=True,
    reduce_scatters_dots=True,
    narrows_dot_operands=True,
    multiplies_complex_as_real=True,
    copies_to_host_late=True,
    splits_every_batch=True,
    gather_reuse_distance=88,
)


def backend_of(hardware: Hardware | None) -> Backend:
    """The back end that compiles for this hardware. Without hardware, the plan is reported as XLA:CPU would run it, in its own types."""
    if hardware and not hardware.runtime.fuses:
        return EAGER if hardware.runtime.gathers_again else EAGER._replace(gather_reuse_distance=None)
    platform = hardware.chip.platform if hardware else ""
    return {"tpu": TPU, "cuda": GPU, "cpu": CPU}.get(platform, NO_HARDWARE)


# The type in which a back end sends a value, and so the number of bytes.

_NARROW_FLOAT = re.compile(r"[x<](bf16|f16|f8E\w+)>$")
"""The type of an array of floats for which XLA:CPU has no arithmetic: it sends one of two bytes as four, and one of a byte as two."""


def adjust_sent_bytes(backend: Backend, op: ir.Operation, kind: str, local: int, payload: int) -> tuple[int, int]:
    """Bytes of the result and bytes sent, in the type that the back end sends what `op` makes."""
    if _is_narrowed(backend, op, kind):
        return local // 2, payload // 2
    if backend.multiplies_complex_as_real and kind in ("all-reduce", "reduce-scatter") and _is_complex_dot(producer(op.operands[0])):
        return local, payload * 3 // 2
    if backend.widens_two_byte_floats and _NARROW_FLOAT.search(str(op.operands[0].type)):
        return local * 2, payload * 2
    return local, payload


def _is_complex_dot(maker: ir.Operation | None) -> bool:
    return maker is not None and maker.name in DOTS and is_complex(maker.results[0])


def _is_narrowed(backend: Backend, op: ir.Operation, kind: str) -> bool:
    return kind == "all-gather" and is_rounded(backend, [use.owner.operation for use in op.results[0].uses], op.operands[0])


def is_rounded(backend: Backend, readers: Sequence[ir.Operation], value: ir.Value) -> bool:
    """Whether a value is rounded to two bytes before it is sent, given all its readers."""
    if not backend.narrows_dot_operands or not str(value.type).endswith("xf32>"):
        return False
    return bool(readers) and all(each.name in DOTS and not is_exact(each) for each in readers)
