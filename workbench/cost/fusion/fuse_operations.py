"""Grouping operations into kernels, as XLA fuses them to first order. Done once for a program and back end; no layout changes it.

Operations are taken in program order. What only repeats, counts or takes a part is free: its readers compute it themselves. So is what is
computed of much less than it is (a one-hot of its indices, a mask of two ranges); and on a TPU every elementwise result that fuses into
whatever reads it, products too, however often it is computed again. Every other operation joins the last of the kernels it reads from, if
that can hold it: an elementwise operation a kernel or a product of its own size (an epilogue), a reduction what makes its operand or reads
the same, an update of a slice what computes the slice. Every kernel so reads only from itself and from earlier ones, and no cycle can
arise. Then a kernel of elementwise operations alone, all read by one other kernel, is computed there.

Not on a TPU, a convolution is a call of a library (cuDNN; Eigen on a CPU): it reads its operands from memory and writes its result there.
A bias and a rectifier that cuDNN can add to one (XLA's `CudnnFusedConvRewriter`) stand apart in training, behind a normalisation.

On a TPU, besides: of a product of which only a slice is read, that alone is multiplied; a slice that is one of several is read from memory,
so what is computed of it is no epilogue; and what a loop takes of an array, and repeats, is a kernel of its own if several read it.
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
_FUSING = _LOOPED | FREE | DOTS | {_REDUCE, _UPDATE}  # what computes its operands itself if they are free
_FAR = int(tuned("farthest_join"))  # farther, an operation does not join a dot: it would wait, and hold all it reads till then
_EXPANDING = int(tuned("expanding"))


class _Source(NamedTuple):
    """A stored value that is read where a value is: itself, or one it is computed from. `kernel` makes it; -1 if none does."""

    kernel: int
    value: int


def kernels_of(structure: Structure, dtypes: Sequence[str] = (), *, recomputes: bool = False) -> Kernels:
    """Group the operations of a program into kernels; `recomputes` where every reader recomputes an elementwise result, as on a TPU.

    `dtypes` are those in which values are stored, their own if none are given.
    """
    return KernelGrouping(structure, dtypes or [value.dtype for value in structure.values], recomputes=recomputes).kernels()


class KernelGrouping:
    def __init__(self, structure: Structure, dtypes: Sequence[str], *, recomputes: bool) -> None:
        self._structure, self._recomputes = structure, recomputes
        self._ops = simplify_operations(structure) if recomputes else structure.ops
        self._sizes = [math.prod(value.shape) for value in structure.values]
        self._itemsizes = [itemsize(dtype) for dtype in dtypes]
        self._bytes = [size * each for size, each in zip(self._sizes, self._itemsizes, strict=True)]
        self._kernels: list[KernelDraft] = []
        self._of = [-1] * len(structure.ops)
        self._sources: list[tuple[_Source, ...]] = [
            () if index in structure.kernel_constants else (_Source(-1, index),) for index in range(len(structure.values))
        ]
        # Operations that make an element of a free value of what is stored. A kernel does each once, by however many ways it is reached:
        # of the rounds of random bits each reads the one before it twice.
        self._chains: list[frozenset[int]] = [frozenset()] * len(structure.values)
        self._last_reader: dict[int, int] = {}
        self._marked: dict[tuple[int, str], int] = {}
        # A hand-written kernel with products in it, a flash attention, does its elementwise work beside them.
        self._multiplying = {(op.region, op.custom_kernel) for op in self._ops if op.custom_kernel and op.kind in DOTS}
        self._computing: set[int] = set()  # kernels that do more than round to the precision a value has, which is no work
        self._absorbed: dict[int, int] = {}  # a dot's kernel: the later one that it is merged into
        self._written: dict[tuple[int, int], None] = {}
        self._last_reads: dict[int, int] = {}  # by what is no kernel: a position
        self._buffers: dict[int, int] = {}  # of a part, and of an update: the value whose memory it is in
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
            if op.kind == _UPDATE and slot == 0:
                continue  # updated in place
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
        if op.kind == _UPDATE and (updated := self._sources[op.operands[0]]):
            self._buffers[op.results[0]] = self._buffer(updated[0].value)

    def _add_work(self, kernel: KernelDraft, operand: int) -> None:
        """Work of the kernel to compute a free value, unless it was counted already."""
        if new := self._chains[operand] - kernel.done:
            kernel.work.append((operand, self._count_steps(new)))
            kernel.done |= new

    def _buffer(self, value: int) -> int:
        return self._buffers.get(value, value)

    def _extend_life(self, value: int, reader: Op) -> None:
        """The value lives until the reader has run, or the loop the reader is in, if the value was made outside it."""
        buffer = self._buffer(value)
        region, at = self._structure.values[buffer].region, reader
        while at.region != region and at.region > 0:
            at = self._ops[self._structure.regions[at.region].parent]
        self._last_reads[buffer] = max(self._last_reads.get(buffer, -1), at.position)

    def _note_read(self, source: _Source, reader: int, extent: int | None = None) -> None:
        """`extent`: the value that is as large as what is read of the source, where that is not all."""
        if reader >= 0:
            note_read(self._kernels[reader].reads, source.value, source.value if extent is None else extent, source.value)
        if source.kernel >= 0 and source.kernel != reader:
            self._kernels[source.kernel].readers.add(reader)
            self._written[source.kernel, self._written_value(source.value)] = None

    def _is_free(self, index: int, op: Op) -> bool:
        if op.custom_kernel or op.kind not in FREE | ELEMENTWISE:
            return False
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
        # Read by each of its users, instead of once, written, and then read by each.
        is_worth_it = self._uses[op.results[0]] * (read - 1) <= read + 1
        return is_worth_it and self._dot_before(op) is None and self._count_steps(self._chain_to(index)) <= MOST_STEPS

    def _dot_before(self, op: Op) -> int | None:
        """The dot whose epilogue an elementwise operation is, of several the first operand's: nothing else reads its result."""
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
        """The kernel of the dot whose result a slice is taken from: a TPU multiplies the slice alone, if nothing reads the rest."""
        if not self._recomputes or op.kind != _SLICE or op.custom_kernel:
            return None
        sources = self._sources[op.operands[0]]
        if len(sources) != 1 or sources[0].kernel < 0 or self._uses[op.operands[0]] != 1 or self._is_part(sources[0].value):
            return None
        kernel = self._kernels[sources[0].kernel]
        return sources[0].kernel if kernel.is_dot and kernel.region == op.region and not kernel.readers else None

    def _is_part(self, value: int) -> bool:
        """Whether a value is a slice of a value in memory."""
        born = self._structure.values[value].maker
        return born >= 0 and self._ops[born].kind in _TAKING and self._of[born] < 0

    def _all_sources(self, op: Op) -> list[_Source]:
        return list(dict.fromkeys(source for operand in op.operands for source in self._sources[operand]))

    def _chain_to(self, index: int) -> frozenset[int]:
        """Elementwise operations that compute one element of its result: itself, and those of free operands of its size."""
        op = self._ops[index]
        size = self._sizes[op.results[0]]
        return frozenset((index,)).union(*(self._chains[operand] for operand in op.operands if self._sizes[operand] == size))

    def _count_steps(self, chain: Iterable[int]) -> int:
        return sum(steps_of(self._ops[index]) for index in chain)

    def _make_free(self, index: int, slot: int, result: int) -> None:
        """The sources read where a free operation's result is: its operands', or for a slice the part taken; none for an iota."""
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
        """The hand-written kernel this operation is marked as a part of."""
        key = op.region, op.custom_kernel
        if key not in self._marked:
            self._marked[key] = len(self._kernels)
            self._kernels.append(KernelDraft(op.region, set(), op.position, is_plain=False))
        return self._marked[key]

    def _choose_kernel(self, index: int, op: Op) -> int:  # noqa: ARG002 -- an eager runtime asks where it was called
        if not op.results:  # a callback of `jax.debug`
            return self._add_lone_kernel(op)
        if op.kind == _CONVOLUTION and not self._recomputes:
            self._kernels.append(KernelDraft(op.region, set(), op.position, is_dot=True, is_plain=False, is_library=True))
            return len(self._kernels) - 1
        operands = op.operands[1:2] if op.kind == _UPDATE else op.operands
        size = self._sizes[op.operands[1] if op.kind == _UPDATE else op.operands[0] if op.kind == _REDUCE else op.results[0]]
        is_looped = op.kind in _LOOPED or op.kind in (_REDUCE, _UPDATE)
        if (cut := self._dot_sliced_by(op)) is not None:
            self._kernels[cut].sizes.add(size)
            return cut
        if self._recomputes and op.kind in ELEMENTWISE and (dot := self._dot_before(op)) is not None:
            return self._join_epilogue(op, dot)
        if is_looped and (found := self._find_joinable(op, size, operands)) is not None:
            self._kernels[found].is_plain &= op.kind in _LOOPED
            self._kernels[found].sizes.add(self._sizes[op.results[0]])
            return found
        sizes = {size, self._sizes[op.results[0]]} if is_looped or op.kind in DOTS else set()
        self._kernels.append(KernelDraft(op.region, sizes, op.position, op.kind in DOTS, op.kind in _LOOPED or op.kind in FREE))
        return len(self._kernels) - 1

    def _join_epilogue(self, op: Op, dot: int) -> int:
        """The dot's kernel; where the operation also reads later ones, a new one that the dot moves to, for no one waits for it."""
        if all(source.kernel <= dot for source in self._all_sources(op)):
            return dot
        self._absorbed[dot] = len(self._kernels)
        self._kernels.append(KernelDraft(op.region, set(self._kernels[dot].sizes), op.position, is_dot=True, is_plain=False))
        return len(self._kernels) - 1

    def _find_joinable(self, op: Op, size: int, operands: tuple[int, ...]) -> int | None:
        """The kernel this operation joins: the last it reads from, or a later one that reads the same."""
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
        """Each kernel's own number, or that of the one kernel that reads all it makes."""
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
            if reader not in hand_written or number not in self._computing:  # no compiler fuses anything into a hand-written kernel
                into[number] = reader
        return into

    def _written_value(self, value: int) -> int:
        """The value written when a value is made: for an update in place the part that changes; for a value that is sliced, the whole."""
        while (born := self._structure.values[value].maker) >= 0 and self._ops[born].kind in _TAKING and self._of[born] < 0:
            value = self._sources[self._ops[born].operands[0]][0].value
        return self._ops[born].operands[1] if born >= 0 and self._ops[born].kind == _UPDATE else value

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
        """By draft, the dots that are merged into a kernel behind a loop. They run before the loop all the same: their result waits for
        that kernel, not their operands."""
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
    """Values read by something that cannot compute them itself, or by a loop that does not hold them; and what they are views of."""
    found: set[int] = set()
    for op in reversed(ops):
        if op.kind in VIEWING and any(result in found for result in op.results):
            found.update(op.operands[:1] if op.kind not in PASSING else op.operands)
        for operand in op.operands:
            if op.kind not in _FUSING or structure.values[operand].region != op.region:
                found.add(operand)
    return found
