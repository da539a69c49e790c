"""Group operations into kernels as XLA fuses them, to first order; done once per program and back end, for all layouts.

Operations are taken in program order. Broadcasts, iotas and slices are free: their readers compute them. So are results
computed from much smaller ones (a one-hot of its indices, a mask of two ranges), and on a TPU every elementwise result
that fuses into its readers, including dots, however often it is recomputed. Every other operation joins the last kernel
it reads from, if possible: an elementwise operation joins a kernel or a dot of its size (an epilogue), a reduction the
producer or another reader of its operand, a slice update the producer of the slice. Kernels read only from earlier
kernels, so there are no cycles. Finally a purely elementwise kernel with a single reader is merged into it.

Except on a TPU, a convolution is a library call (cuDNN; Eigen on a CPU): it reads operands from and writes its result
to memory. A bias and ReLU that cuDNN can fuse (XLA's `CudnnFusedConvRewriter`) are separate in training, after a
normalization.

On a TPU in addition: if only a slice of a dot is read, only that is computed; a slice that is one of several is read
from memory, so operations on it are no epilogue; and a repeated slice of a loop input is a separate kernel if it has
several readers.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from workbench.core.tensor import itemsize
from workbench.cost.fusion.kernel_table import MOST_STEPS, KernelDraft, Kernels, KernelTable, note_read, steps_of
from workbench.cost.fusion.loop_edges import hoisted_casts, unfilled_stacks
from workbench.cost.fusion.simplify_operations import repeated_slices, simplify_operations
from workbench.cost.tuned_constants import tuned
from workbench.propagation.module.operation_kinds import CONSTANTS, CONTROL_FLOW, DOTS, ELEMENTWISE
from workbench.propagation.structure.program_structure import Op, Structure
from workbench.propagation.structure.stored_values import DYNAMIC_SLICE, PASSING, VIEWING, resolve_view, uses_of

_SLICE = "stablehlo.slice"
_TAKING = frozenset({_SLICE, DYNAMIC_SLICE})
_REPEATING = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.iota", *CONSTANTS})
FREE = VIEWING | _TAKING | _REPEATING
_ENDS = frozenset({"stablehlo.return", "func.return", "sdy.return"})
_LOOPED = ELEMENTWISE | {"stablehlo.pad", "stablehlo.concatenate"}
_UPDATE, _REDUCE = "stablehlo.dynamic_update_slice", "stablehlo.reduce"
_GATHER, _CONVOLUTION, _MARK = "stablehlo.gather", "stablehlo.convolution", "stablehlo.reduce_precision"
_FUSING = _LOOPED | FREE | DOTS | {_REDUCE, _UPDATE}  # operations that compute their free operands themselves
_FAR = int(tuned("farthest_join"))  # maximum distance to join a dot; a late dot would keep its operands alive
_EXPANDING = int(tuned("expanding"))


class _Source(NamedTuple):
    """A stored value that a value is, or is computed from; `kernel` makes it, -1 if none does."""

    kernel: int
    value: int


def kernels_of(structure: Structure, dtypes: Sequence[str] = (), *, recomputes: bool = False, widens: bool = False) -> Kernels:
    """Group the operations of a program into kernels.

    `recomputes`: readers recompute elementwise results, as on a TPU; `dtypes`: storage types (default: the values'
    own); `widens`: readers convert values of at most eight bits to a wider type.
    """
    types = dtypes or [value.dtype for value in structure.values]
    return KernelGrouping(structure, types, recomputes=recomputes, widens=widens).kernels()


class KernelGrouping:
    def __init__(self, structure: Structure, dtypes: Sequence[str], *, recomputes: bool, widens: bool = False) -> None:
        self._structure, self._recomputes, self._widens = structure, recomputes, widens
        self._ops = simplify_operations(structure) if recomputes else structure.ops
        self._sizes = [math.prod(value.shape) for value in structure.values]
        self._itemsizes = [itemsize(dtype) for dtype in dtypes]
        self._bytes = [count * size for count, size in zip(self._sizes, self._itemsizes, strict=True)]
        self._kernels: list[KernelDraft] = []
        self._of = [-1] * len(structure.ops)
        self._sources: list[tuple[_Source, ...]] = [
            () if index in structure.kernel_constants else (_Source(-1, index),) for index in range(len(structure.values))
        ]
        # Operations that compute an element of a free value from stored values. A kernel runs each once even if reached in several ways:
        # each round of a random bit generator reads the previous one twice.
        self._chains: list[frozenset[int]] = [frozenset()] * len(structure.values)
        self._last_reader: dict[int, int] = {}
        self._marked: dict[tuple[int, str], int] = {}
        # A hand-written kernel with dots (flash attention) overlaps its elementwise work with them.
        self._multiplying = {(op.region, op.custom_kernel) for op in self._ops if op.custom_kernel and op.kind in DOTS}
        self._computing: set[int] = set()  # kernels that do more than round to a value's precision
        self._absorbed: dict[int, int] = {}  # a dot's kernel -> the later kernel it is merged into
        self._written: dict[tuple[int, int], None] = {}
        self._last_reads: dict[int, int] = {}  # value -> last position outside kernels
        self._buffers: dict[int, int] = {}  # slice or update -> value whose memory it shares
        self._uses = uses_of(structure)
        self._bodies, self._repeated = set(structure.body_of.values()), repeated_slices(structure)
        self._read_whole = _read_whole(structure, self._ops)
        self._hoisted = hoisted_casts(structure) if recomputes else frozenset[int]()
        for index in structure.order:
            self._group_operation(index, self._ops[index])
        self._merged = self._merge()

    def _group_operation(self, index: int, op: Op) -> None:
        if op.kind in _ENDS or op.kind in CONTROL_FLOW:
            for operand in op.operands:
                for source in self._sources[operand]:
                    self._note_read(source, -1)
                    self._extend_life(source.value, op)
            return
        if op.results and self._structure.kernel_constants.issuperset(op.results):
            return
        if index not in self._hoisted and self._dot_sliced_by(op) is None and self._is_free(index, op):
            for slot, result in enumerate(op.results):
                self._make_free(index, slot, result)
            return
        kernel = (
            self._marked_kernel(op)
            if op.custom_kernel
            else self._add_lone_kernel(op)
            if index in self._hoisted
            else self._choose_kernel(index, op)
        )
        self._of[index] = kernel
        self._computing.update((kernel,) if op.kind != _MARK else ())
        for slot, operand in enumerate(op.operands):
            if op.updates_in_place and slot == 0:
                continue
            for source in self._sources[operand]:
                if source.kernel != kernel:
                    self._note_read(source, kernel, op.results[0] if op.kind in (_GATHER, DYNAMIC_SLICE) and slot == 0 else source.value)
                self._last_reader[source.value] = kernel
            if (op.region, op.custom_kernel) not in self._multiplying:
                self._add_work(self._kernels[kernel], operand)
        if (op.kind in ELEMENTWISE or op.kind == _REDUCE) and (op.region, op.custom_kernel) not in self._multiplying:
            self._kernels[kernel].work.append((op.operands[0] if op.kind == _REDUCE else op.results[0], steps_of(op)))
        for result in op.results:
            self._sources[result] = (_Source(kernel, result),)
        if op.updates_in_place and (updated := self._sources[op.operands[0]]):
            self._buffers[op.results[0]] = self._buffer(updated[0].value)

    def _add_work(self, kernel: KernelDraft, operand: int) -> None:
        if new := self._chains[operand] - kernel.done:
            kernel.work.append((operand, self._count_steps(new)))
            kernel.done |= new

    def _buffer(self, value: int) -> int:
        return self._buffers.get(value, value)

    def _extend_life(self, value: int, reader: Op) -> None:
        """Extend a value's life to the reader, or to the reader's loop if the value was made outside it."""
        buffer = self._buffer(value)
        region, outer = self._structure.values[buffer].region, reader
        while outer.region != region and outer.region > 0:
            outer = self._ops[self._structure.regions[outer.region].parent]
        self._last_reads[buffer] = max(self._last_reads.get(buffer, -1), outer.position)

    def _note_read(self, source: _Source, reader: int, extent: int | None = None) -> None:
        """Record a read; `extent` is a value of the size of the part that is read, if not all."""
        if reader >= 0:
            note_read(self._kernels[reader].reads, source.value, source.value if extent is None else extent, source.value)
        if source.kernel >= 0 and source.kernel != reader:
            self._kernels[source.kernel].readers.add(reader)
            self._written[source.kernel, self._written_value(source.value)] = None

    def _is_free(self, index: int, op: Op) -> bool:
        if op.custom_kernel or op.kind not in FREE | ELEMENTWISE:
            return False
        if self._widens_operand(op):
            return True
        if self._recomputes and op.region in self._bodies and op.results[0] in self._repeated and self._uses[op.results[0]] > 1:
            return False
        if op.kind in VIEWING:
            return True
        if op.results[0] in self._read_whole:
            return False
        if op.kind in FREE:
            return True
        read = sum(self._bytes[source.value] for source in self._all_sources(op)) / (self._bytes[op.results[0]] or 1)
        if not self._recomputes:
            return read * _EXPANDING <= 1 and self._count_steps(self._chain_to(index)) <= MOST_STEPS
        # Compare reading the sources in each user with reading them once, writing the result, and reading it in each user.
        is_worth_it = self._uses[op.results[0]] * (read - 1) <= read + 1
        return is_worth_it and self._dot_before(op) is None and self._count_steps(self._chain_to(index)) <= MOST_STEPS

    def _widens_operand(self, op: Op) -> bool:
        """Whether a product converts its operand of few bits, a quantized weight or cache, to a wider type as it reads it."""
        if not self._widens or op.kind != "stablehlo.convert":
            return False
        source, result = op.operands[0], op.results[0]
        is_quantized = self._structure.values[source].dtype.startswith(("int", "float8")) and self._itemsizes[source] <= 1
        return is_quantized and self._itemsizes[result] > self._itemsizes[source] and len(self._structure.values[source].shape) > 1

    def _dot_before(self, op: Op) -> int | None:
        """Return the dot of which an elementwise operation is the epilogue: its only reader, of the same size."""
        for operand in op.operands:
            sources = self._sources[operand]
            kernel, value = sources[0] if len(sources) == 1 else _Source(-1, operand)
            if kernel < 0 or not self._kernels[kernel].is_dot or self._kernels[kernel].region != op.region:
                continue
            if self._is_part(value):
                continue
            if self._uses[value] == 1 and self._sizes[value] == self._sizes[op.results[0]] and not self._kernels[kernel].readers:
                return kernel
        return None

    def _dot_sliced_by(self, op: Op) -> int | None:
        """Return the kernel of the dot that is sliced: a TPU computes only the slice if nothing reads the rest."""
        if not self._recomputes or op.kind != _SLICE or op.custom_kernel:
            return None
        sources = self._sources[op.operands[0]]
        if len(sources) != 1 or sources[0].kernel < 0 or self._uses[op.operands[0]] != 1 or self._is_part(sources[0].value):
            return None
        kernel = self._kernels[sources[0].kernel]
        return sources[0].kernel if kernel.is_dot and kernel.region == op.region and not kernel.readers else None

    def _is_part(self, value: int) -> bool:
        maker = self._structure.values[value].maker
        return maker >= 0 and self._ops[maker].kind in _TAKING and self._of[maker] < 0

    def _all_sources(self, op: Op) -> list[_Source]:
        return list(dict.fromkeys(source for operand in op.operands for source in self._sources[operand]))

    def _chain_to(self, index: int) -> frozenset[int]:
        """Return the elementwise operations that compute one element, including free operands of the same size."""
        op = self._ops[index]
        size = self._sizes[op.results[0]]
        return frozenset((index,)).union(*(self._chains[operand] for operand in op.operands if self._sizes[operand] == size))

    def _count_steps(self, chain: Iterable[int]) -> int:
        return sum(steps_of(self._ops[index]) for index in chain)

    def _make_free(self, index: int, slot: int, result: int) -> None:
        """Set the sources of a free operation's result: its operands', the part for a slice, none for an iota."""
        op = self._ops[index]
        if op.kind in ELEMENTWISE:
            self._sources[result] = tuple(self._all_sources(op))
            self._chains[result] = self._chain_to(index)
        elif not op.operands:
            self._sources[result] = ()
        else:
            operand = op.operands[slot if op.kind in PASSING else 0]
            sources = self._sources[operand]
            is_part = op.kind in _TAKING and len(sources) == 1 and self._sizes[sources[0].value] == self._sizes[operand]
            self._sources[result] = (_Source(sources[0].kernel, result),) if is_part else sources
            if is_part:
                self._buffers[result] = self._buffer(sources[0].value)
            self._chains[result] = self._chains[operand] if op.kind not in _REPEATING else frozenset()

    def _add_lone_kernel(self, op: Op) -> int:
        self._kernels.append(KernelDraft(op.region, set(), op.position, is_plain=False))
        return len(self._kernels) - 1

    def _marked_kernel(self, op: Op) -> int:
        key = op.region, op.custom_kernel
        if key not in self._marked:
            self._marked[key] = len(self._kernels)
            self._kernels.append(KernelDraft(op.region, set(), op.position, is_plain=False))
        return self._marked[key]

    def _choose_kernel(self, index: int, op: Op) -> int:  # noqa: ARG002 -- an eager runtime asks where it was called
        if not op.results:  # a `jax.debug` callback
            return self._add_lone_kernel(op)
        if op.kind == _CONVOLUTION and not self._recomputes:
            self._kernels.append(KernelDraft(op.region, set(), op.position, is_dot=True, is_plain=False, is_library=True))
            return len(self._kernels) - 1
        operands = op.operands[1:2] if op.kind == _UPDATE else op.operands
        size = self._sizes[op.operands[1] if op.kind == _UPDATE else op.operands[0] if op.kind == _REDUCE else op.results[0]]
        is_looped = op.kind in _LOOPED or op.kind in (_REDUCE, _UPDATE)
        if (sliced := self._dot_sliced_by(op)) is not None:
            self._kernels[sliced].sizes.add(size)
            return sliced
        if self._recomputes and op.kind in ELEMENTWISE and (dot := self._dot_before(op)) is not None:
            return self._join_epilogue(op, dot)
        if is_looped and (joined := self._find_joinable(op, size, operands)) is not None:
            self._kernels[joined].is_plain &= op.kind in _LOOPED
            self._kernels[joined].sizes.add(self._sizes[op.results[0]])
            return joined
        sizes = {size, self._sizes[op.results[0]]} if is_looped or op.kind in DOTS else set()
        self._kernels.append(KernelDraft(op.region, sizes, op.position, op.kind in DOTS, op.kind in _LOOPED or op.kind in FREE))
        return len(self._kernels) - 1

    def _join_epilogue(self, op: Op, dot: int) -> int:
        """Return the dot's kernel, or a new one to which the dot moves if the operation also reads later kernels."""
        if all(source.kernel <= dot for source in self._all_sources(op)):
            return dot
        self._absorbed[dot] = len(self._kernels)
        self._kernels.append(KernelDraft(op.region, set(self._kernels[dot].sizes), op.position, is_dot=True, is_plain=False))
        return len(self._kernels) - 1

    def _find_joinable(self, op: Op, size: int, operands: tuple[int, ...]) -> int | None:
        """Return the kernel that an operation joins: the last it reads from, or a later reader of the same values."""
        inside = [source for operand in operands for source in self._sources[operand] if source.kernel >= 0]
        last = max((source.kernel for source in inside), default=-1)
        readers = (self._last_reader.get(source.value, -1) for operand in operands for source in self._sources[operand])
        for kernel in dict.fromkeys((last, max(readers, default=-1))):
            if kernel < max(last, 0) or self._kernels[kernel].region != op.region or size not in self._kernels[kernel].sizes:
                continue
            if not self._kernels[kernel].is_plain and abs(op.position - self._kernels[kernel].position) > _FAR:
                continue
            if self._kernels[kernel].is_dot and op.kind not in ELEMENTWISE and not (self._recomputes and op.kind in (_UPDATE, _REDUCE)):
                continue
            if all(source.kernel < kernel or self._sizes[source.value] == size for source in inside):
                return kernel
        return None

    def _merge(self) -> list[int]:
        """Return the final kernel of each draft: itself, or its only reader."""
        into, hand_written = list(range(len(self._kernels))), set(self._marked.values())
        for number in range(len(self._kernels) - 1, -1, -1):
            if number in self._absorbed:
                into[number] = into[self._absorbed[number]]
                continue
            kernel = self._kernels[number]
            readers = {into[reader] if reader >= 0 else -1 for reader in kernel.readers}
            reader = readers.pop() if kernel.is_plain and len(readers) == 1 else -1
            if reader < 0 or self._kernels[reader].is_library or self._kernels[reader].region != kernel.region:
                continue
            if reader not in hand_written or number not in self._computing:  # compilers fuse nothing into a hand-written kernel
                into[number] = reader
        return into

    def _written_value(self, value: int) -> int:
        """Return the stored value: the changed part of an in-place update, the whole of a sliced value."""
        while (maker := self._structure.values[value].maker) >= 0 and self._ops[maker].kind in _TAKING and self._of[maker] < 0:
            value = self._sources[self._ops[maker].operands[0]][0].value
        return self._ops[maker].operands[1] if maker >= 0 and self._ops[maker].updates_in_place else value

    def kernels(self) -> Kernels:
        table = KernelTable(self._structure, self._ops, self._kernels, self._of, self._merged, self._itemsizes)
        ops, moved_dots = self._ops, self._dots_moved_behind_loops(table)
        for draft, kernel, value, _ in table.reads(self._written, self._written_value):
            self._extend_life(value, ops[moved_dots.get(draft, table.last[kernel])])
        for draft, dot in moved_dots.items():
            self._extend_life(ops[dot].results[0], ops[table.last[table.number(draft)]])
        unfilled = unfilled_stacks(self._structure) if self._recomputes else frozenset[int]()
        return table.kernels(self._written, self._written_value, self._last_reads, _count_dot_reads(self._structure, ops), unfilled)

    def _dots_moved_behind_loops(self, table: KernelTable) -> dict[int, int]:
        """Return, by draft, dots merged into a kernel after a loop; they still run before it, so only results wait."""
        ops, loops = self._structure.ops, [self._ops[loop] for loop in self._structure.body_of]
        return {
            self._of[index]: index
            for index, op in enumerate(ops)
            if op.kind in DOTS
            and self._of[index] in self._absorbed
            and any(
                op.position < loop.position < ops[table.last[table.number(self._of[index])]].position
                for loop in loops
                if loop.region == op.region
            )
        }


def _count_dot_reads(structure: Structure, ops: Sequence[Op]) -> Counter[int]:
    return Counter(resolve_view(structure, operand) for op in ops if op.kind in DOTS for operand in set(op.operands[:2]))


def _read_whole(structure: Structure, ops: Sequence[Op]) -> set[int]:
    """Return values that some readers cannot compute or loops do not hold, and the values they are views of."""
    whole: set[int] = set()
    for op in reversed(ops):
        if op.kind in VIEWING and any(result in whole for result in op.results):
            whole.update(op.operands[:1] if op.kind not in PASSING else op.operands)
        for operand in op.operands:
            if op.kind not in _FUSING or structure.values[operand].region != op.region:
                whole.add(operand)
    return whole
