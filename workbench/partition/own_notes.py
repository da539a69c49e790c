"""While Shardy's answer is read: what each operation sends by itself, as collectives among the others."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend.mlir import ir

from workbench.mesh import Mesh
from workbench.partition.attributes import Dims
from workbench.partition.backend import HALVES, Backend
from workbench.partition.context import producer
from workbench.partition.own_communication import Answer, Placed, Sent, Tensor
from workbench.partition.own_communication.convolution import CONVOLUTION
from workbench.partition.own_communication.convolution_sums import reductions
from workbench.partition.own_communication.reshaping import RESHAPING
from workbench.partition.prepare import ID
from workbench.partition.reshards import Reshard
from workbench.partition.shared_borders import SharedBorders
from workbench.partition.structure import Op, Structure
from workbench.tensor import itemsize

_IN_PLACE = frozenset(  # their results have the dimensions of their operands
    f"stablehlo.{name}" for name in ("slice", "pad", "concatenate", "dynamic_slice", "dynamic_update_slice", "reverse", "reduce_window")
)


@dataclass(slots=True)
class OwnNotes:
    """By operation of the program:

    - `counted`: its own communication is among the collectives, all of it;
    - `whole`: it is replicated;
    - `repeated`: a convolution that XLA sums over devices that hold the same, by these axes (see `convolution_sums`);
    - `aborts`: the compiler stops there, and why;
    - `beside`: bytes that a device makes of what it gathered to compute its part;
    - `shared`: operations that read the same value through the same windows.
    """

    structure: Structure
    mesh: Mesh
    backend: Backend
    dims_of: Callable[[ir.Value], Dims]  # of a value of the partitioned module
    made_by: Callable[[ir.Value], int | None]  # the operation of the program behind it
    region_of: Callable[[ir.Value, int], int]
    counted: set[int] = field(default_factory=set)
    repeated: dict[int, tuple[str, ...]] = field(default_factory=dict)
    aborts: dict[int, str] = field(default_factory=dict)
    beside: dict[int, int] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)
    shared: SharedBorders = field(default_factory=SharedBorders)
    _dropped: set[ir.Operation] = field(default_factory=set)
    _known: set[tuple[Any, ...]] = field(default_factory=set)

    def concerns(self, record: Op, lies: Sequence[Dims | None]) -> bool:
        """Whether anything is cut that matters, by a glance at where values lie: most slices are along dimensions that are whole."""
        if record.own is not None and record.own.operator is RESHAPING:
            inside = lies[record.operands[0]]
            return inside is not None and any(inside[dim] for dim in record.own.facts)
        if record.kind not in _IN_PLACE:
            return True
        placed = (lies[value] or () for value in (*record.operands, *record.results))
        return any(dims[dim] for dims in placed for dim in record.shifted if dim < len(dims))

    def note(self, op: ir.Operation, index: int, region: int) -> list[Reshard]:
        """What operation `index` sends. Shardy's collectives around it are dropped where XLA has others."""
        record = self.structure.ops[index]
        placed = self._placed(op, index)
        if record.own is None or not any(any(each.dims) or any(each.stored) for each in (*placed.operands, *placed.results)):
            return []
        answer = record.own.operator.sends(record.own.facts, placed)
        if answer is None:
            return []
        self.counted.add(index)
        if answer.aborts:
            self.aborts[index] = answer.aborts
        if answer.repeats:
            self.repeated[index] = answer.repeats
        if answer.beside:
            self.beside[index] = answer.beside
        self._drop(op, index, answer)
        if not answer.makes_whole and self.shared.are_there(op, index, region, record.own, placed):
            return []
        return [
            self._reshard(op, index, region, sent)
            for number, sent in enumerate(answer.sends)
            if not (self.backend.merges_alike and self._is_known(op, region, number, sent))
        ]

    def reduced_apart(self, op: ir.Operation, axes: tuple[str, ...]) -> list[tuple[str, ...]]:
        """The all-reduces of what an operation makes, by axes, if that is a matter of its own; empty else."""
        if ID not in op.attributes:  # itself a collective: the rest of a sum that was left to do
            return []
        index = ir.IntegerAttr(op.attributes[ID]).value
        own = self.structure.ops[index].own
        if own is None or own.operator is not CONVOLUTION:
            return []
        apart, replicas = reductions(own.facts, self._placed(op, index), axes)
        if replicas:
            self.repeated[index] = replicas
        return apart

    def kept(self, waiting: Iterable[ir.Operation]) -> list[ir.Operation]:
        """Those of Shardy's operations that stand for something XLA does."""
        return [op for op in waiting if op not in self._dropped] if self._dropped else list(waiting)

    def _placed(self, op: ir.Operation, index: int) -> Placed:
        record = self.structure.ops[index]
        operands = tuple(self._operand(value, number) for value, number in zip(op.operands, record.operands, strict=True))
        results = ((number, self.dims_of(value)) for number, value in zip(record.results, op.results, strict=True))
        found = tuple(self._tensor(number, dims, dims) for number, dims in results)
        return Placed(operands, found, self.mesh, self.backend)

    def _operand(self, value: ir.Value, number: int) -> Tensor:
        source = value
        while (owner := producer(source)) is not None and ID not in owner.attributes:
            source = owner.operands[0]
        return self._tensor(number, self.dims_of(value), self.dims_of(source))

    def _tensor(self, number: int, dims: Dims, stored: Dims) -> Tensor:
        value = self.structure.values[number]
        wide = self.backend.widens_halves and value.dtype in HALVES
        return Tensor(value.shape, 4 if wide else itemsize(value.dtype), dims, stored)

    def _is_known(self, op: ir.Operation, region: int, number: int, sent: Sent) -> bool:
        """Whether another operation sent the same of the same value before."""
        key = (op.operands[sent.operand or 0], region, number, *sent)
        is_known = sent.operand is not None and key in self._known
        self._known.add(key)
        return is_known

    def _drop(self, op: ir.Operation, index: int, answer: Answer) -> None:
        if answer.replaces:
            for value in op.operands:
                self._dropped.update(_before(value))
        if answer.makes_whole:
            self.whole.add(index)
            self._dropped.update(_behind(op))

    def _reshard(self, op: ir.Operation, index: int, region: int, sent: Sent) -> Reshard:
        position, height = self.structure.ops[index].position, self.structure.heights[index]
        source: int | None = index
        if sent.operand is not None:
            value = op.operands[sent.operand]
            region = self.region_of(value, region)  # that of a value that no turn of a loop changes is taken out of the loop
            source = self.made_by(value)
        return Reshard(
            sent.kind, sent.axes, sent.payload, sent.payload, index, region, source, False, position, position, (height,), own=True
        )


def _before(value: ir.Value) -> Iterator[ir.Operation]:
    """The collectives that bring a value to the one operation that reads it."""
    owner = producer(value)
    while owner is not None and ID not in owner.attributes and len(list(owner.results[0].uses)) == 1:
        yield owner
        owner = producer(owner.operands[0])


def _behind(op: ir.Operation) -> Iterator[ir.Operation]:
    """The collectives that move what an operation makes."""
    pending = [use.owner.operation for result in op.results for use in result.uses]
    while pending:
        user = pending.pop()
        if user.name.startswith("sdy.") and ID not in user.attributes and len(user.results):
            yield user
            pending += [use.owner.operation for use in user.results[0].uses]
