"""Differences of XLA's backends, and of runtimes without XLA, that change the collectives of the same shardings."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.hardware.hardware import Hardware
from workbench.propagation.module.mlir_context import producer, shape_of
from workbench.propagation.module.operation_kinds import DOTS, ELEMENTWISE
from workbench.propagation.structure.operation_work import is_complex, is_exact
from workbench.propagation.structure.stored_values import DYNAMIC_SLICE

_RESHAPED = frozenset({"stablehlo.reshape", "stablehlo.slice", "sdy.all_slice"})
_TAKING_PARTS = frozenset({DYNAMIC_SLICE, "stablehlo.gather"})
_SENT_ON = frozenset({"sdy.all_gather", "sdy.all_to_all", "sdy.collective_permute", "stablehlo.all_gather"})
_GATHERED = _RESHAPED | _TAKING_PARTS | _SENT_ON
_MOVED = _RESHAPED | ELEMENTWISE - {"stablehlo.convert"}
_RESHAPING = _RESHAPED | {"stablehlo.optimization_barrier", DYNAMIC_SLICE}
TWO_BYTE_FLOATS = ("bfloat16", "float16")  # floats of two bytes


class Backend(NamedTuple):
    """The behaviour of one backend.

    - `folds_reductions`: a sum over several dimensions is one all-reduce over all their axes; XLA:CPU makes one for each dimension.
    - `folds_window_sums`: a sum over a convolution's windows is folded with that over the batch, too; XLA:TPU does not.
    - `folds_gathers`: a value that is gathered along several dimensions is gathered once, over all their axes; XLA's partitioner makes one
      all-gather for each dimension, the last one first.
    - `adds_before_reducing`: two reduced values that are only added are added first and reduced together (`all_reduce_reassociate.cc`).
    - `merges_addend_into_scatter`: the other operand of an addition to a scatter becomes the base of the scatter, and is all-reduced first
      (`algebraic_simplifier.cc`); if it is reduce-scattered, it is added first.
    - `simplifies_first`: the program is simplified before it is partitioned: if only another sum reads a sum, the result of the second one
      is reduced, and tests for negative indices are removed (`algebraic_simplifier.cc`). XLA:CPU partitions first.
    - `sums_behind_loops`: a sum that a loop only accumulates is reduced once, after the loop (`while_loop_all_reduce_code_motion.cc`).
    - `merges_equal_values`: equal casts or reshapes of a value are one value, which is gathered once.
    - `reduce_scatters_dots`: if each device keeps a slice of a dot's sum over several axes, the sum is reduce-scattered along the axes of
      the slice and then all-reduced along the others; otherwise the whole sum is all-reduced.
    - `narrows_dot_operands`: a value that is read only by dots and convolutions of default precision is rounded to bfloat16 before it is
      gathered, as they round it.
    - `regathers_for_widening_dots`: a dot of two-byte floats with a four-byte result gathers its own copy of its operands.
    - `widens_two_byte_floats`: values of two-byte floats are computed, sent and kept in four bytes, because XLA:CPU has no two-byte
      arithmetic.
    - `gathers_in_each_turn`: an all-gather of a loop-invariant value stays in the loop, because it enlarges the value
      (`while_loop_invariant_code_motion.cc`); all backends move operations out of the loop that do not enlarge their operand.
    - `multiplies_complex_as_real`: a complex dot is three real dots with separate sums: 1.5 times the bytes.
    - `transforms_by_dots`: an FFT is a dot with a matrix, whose sums are all-reduced if a transformed dimension is sharded; otherwise the
      operand is gathered along that dimension.
    - `copies_transposed_operands`: an operand that a dot or convolution reads in another order than it is stored in is first copied.
    - `copies_to_host_late`: outside loops, values for host memory stay on the device until they are fetched back: XLA:TPU starts all such
      copies at the end of the forward pass, even if memory is short.
    - `splits_every_batch`: FFTs, top-k and grouped convolutions run on each device's part of the batch; otherwise every device computes
      the whole batch (`operation_work.unsplit_dims`).
    - `expands_solves`: a triangular solve becomes products before it is partitioned, so that its right-hand sides are split
      (`triangular_solve_expander.cc`); the other backends split its batch alone.
    - `gather_reuse_distance`: the largest number of operations between two dots that share a gathered value; beyond it, the value is
      gathered again. `None`: no limit. In XLA:TPU it is a hundred operations of the partitioned program, which has a few more than the
      traced one (`schedule_aware_collective_cse.cc`).
    """

    folds_reductions: bool = False
    folds_window_sums: bool = False
    folds_gathers: bool = False
    adds_before_reducing: bool = False
    merges_addend_into_scatter: bool = False
    simplifies_first: bool = False
    sums_behind_loops: bool = False
    merges_equal_values: bool = False
    reduce_scatters_dots: bool = False
    narrows_dot_operands: bool = False
    regathers_for_widening_dots: bool = False
    widens_two_byte_floats: bool = False
    gathers_in_each_turn: bool = False
    multiplies_complex_as_real: bool = False
    transforms_by_dots: bool = False
    copies_transposed_operands: bool = False
    copies_to_host_late: bool = False
    splits_every_batch: bool = False
    expands_solves: bool = False
    gather_reuse_distance: int | None = None


NO_HARDWARE = Backend(copies_transposed_operands=True)
CPU = Backend(regathers_for_widening_dots=True, widens_two_byte_floats=True, copies_transposed_operands=True)
GPU = Backend(
    simplifies_first=True,
    folds_reductions=True,
    folds_window_sums=True,
    adds_before_reducing=True,
    reduce_scatters_dots=True,
    regathers_for_widening_dots=True,
)
EAGER = GPU._replace(simplifies_first=False, adds_before_reducing=False, gather_reuse_distance=88)
"""Autograd gathers again in the backward pass (Korthikanti et al. 2022, section 4.2.2), and no compiler pass reorders
sums.
"""
TPU = Backend(
    folds_reductions=True,
    folds_gathers=True,
    adds_before_reducing=True,
    merges_addend_into_scatter=True,
    simplifies_first=True,
    sums_behind_loops=True,
    merges_equal_values=True,
    reduce_scatters_dots=True,
    narrows_dot_operands=True,
    gathers_in_each_turn=True,
    multiplies_complex_as_real=True,
    transforms_by_dots=True,
    copies_to_host_late=True,
    splits_every_batch=True,
    expands_solves=True,
    gather_reuse_distance=88,
)


def backend_of(hardware: Hardware | None) -> Backend:
    """The backend that compiles for this hardware; without hardware, as XLA:CPU but in the program's own types."""
    if hardware and not hardware.runtime.fuses:
        return EAGER if hardware.runtime.gathers_again else EAGER._replace(gather_reuse_distance=None)
    platform = hardware.chip.platform if hardware else ""
    return {"tpu": TPU, "cuda": GPU, "cpu": CPU}.get(platform, NO_HARDWARE)


# The type in which a backend sends a value, which determines the number of bytes.

_NARROW_FLOAT = re.compile(r"[x<](bf16|f16|f8E\w+)>$")
"""Matches array types of floats without arithmetic in XLA:CPU, which sends two-byte ones as four bytes, one-byte ones
as two.
"""


def adjust_sent_bytes(backend: Backend, op: ir.Operation, kind: str, local: int, payload: int) -> tuple[int, int]:
    """Bytes of the result and bytes sent, in the type in which the backend sends the result of `op`."""
    if _is_narrowed(backend, op, kind):
        return local // 2, payload // 2
    maker = producer(op.operands[0])
    if maker is not None and kind in ("all-reduce", "reduce-scatter") and adds_real_products(backend, maker):
        if is_complex(_before_widening(maker.operands[0])):
            return local, payload * 3 // (2 if is_complex(maker.results[0]) else 1)
        whole, kept = shape_of(maker.operands[0])[-1], shape_of(maker.results[0])[-1]  # of real numbers, all of them before half is kept
        return local, payload * whole // kept
    factor = widening_factor(backend, op.operands[0])
    return local * factor, payload * factor


def widening_factor(backend: Backend, value: ir.Value) -> int:
    """The ratio of the bytes sent for a value to its own bytes."""
    return 2 if backend.widens_two_byte_floats and _NARROW_FLOAT.search(str(value.type)) else 1


def _before_widening(value: ir.Value) -> ir.Value:
    """The real numbers that a complex value was made of, if all of it was."""
    maker = producer(value)
    return maker.operands[0] if maker is not None and maker.name == "stablehlo.convert" else value


def adds_real_products(backend: Backend, maker: ir.Operation) -> bool:
    """Whether an operation is several real products on this backend: they are all-reduced, added, and only then cut."""
    if not backend.multiplies_complex_as_real:
        return False
    return maker.name == "stablehlo.fft" or (maker.name in DOTS and is_complex(maker.results[0]))


def _is_narrowed(backend: Backend, op: ir.Operation, kind: str) -> bool:
    """Whether a value is rounded to two bytes before it is gathered or exchanged."""
    if kind not in ("all-gather", "all-to-all") or not backend.narrows_dot_operands or not str(op.operands[0].type).endswith("xf32>"):
        return False
    readers = list(_readers(op.results[0], _GATHERED))
    return bool(readers) and all(map(_rounds, readers))


def _readers(value: ir.Value, passing: Collection[str]) -> Iterator[ir.Operation]:
    """Yield the readers of a value; a reader that selects rows or a layer of a stack, or reshapes it, is replaced by its own readers.

    XLA:TPU moves a reshape behind elementwise operations that read nothing else, and gathers their result (`reshape_mover.cc`).
    """
    for use in value.uses:
        reader = use.owner.operation
        if reader.name == "sdy.manual_computation":
            yield from _readers(reader.regions[0].blocks[0].arguments[use.operand_number], passing)
        elif reader.name not in passing or (reader.name in ELEMENTWISE and set(reader.operands) != {value}):
            yield reader
        else:
            beyond = passing if reader.name in _SENT_ON else _RESHAPING if passing is _RESHAPING or reader.name in _TAKING_PARTS else _MOVED
            yield from _readers(reader.results[use.operand_number if len(reader.results) > 1 else 0], beyond)


def _rounds(reader: ir.Operation) -> bool:
    if reader.name == "stablehlo.convert":
        source = producer(reader.operands[0])
        return source is not None and source.name in _RESHAPING and str(reader.results[0].type).endswith("xbf16>")
    return reader.name in DOTS and not is_exact(reader)
