"""What the members of the family speak of: an operation as it is partitioned, and what it sends by itself."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jax.extend.mlir import ir

from workbench.mesh import Mesh
from workbench.partition.attributes import Dims, local_shape
from workbench.partition.backend import Backend
from workbench.partition.xla_reshard import way
from workbench.sharding import axis_size


class Tensor(NamedTuple):
    """An operand or a result: its whole shape, the bytes of an element, where it lies when the operation runs (`dims`), and where it lay
    before Shardy moved it for the operation (`stored`)."""

    shape: tuple[int, ...]
    itemsize: float
    dims: Dims
    stored: Dims

    def local(self, mesh: Mesh) -> tuple[int, ...]:
        """The shape of one device's part."""
        return local_shape(self.shape, self.dims, mesh)


class Placed(NamedTuple):
    """An operation's operands and results on a mesh, for one back end."""

    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    mesh: Mesh
    backend: Backend

    def parts(self, axes: Iterable[str]) -> int:
        """Into how many parts these mesh axes cut."""
        return math.prod(axis_size(axis, self.mesh) for axis in axes)


class Sent(NamedTuple):
    """A collective: of operand number `operand`, or of the result where that is `None`; bytes as in `collective.Collective`."""

    kind: str
    axes: tuple[str, ...]
    payload: int
    operand: int | None = 0


class Answer(NamedTuple):
    """What an operation sends; whether that `replaces` what Shardy does to its operands, where XLA takes another way, and whether it
    `makes_whole` its results, of which each device then keeps what it wants. `aborts` says why the compiler stops here, if it
    does; `repeats` are mesh axes over which it sums the same, which makes the result so many times too large; `beside` are the bytes that a
    device makes of what it gathered to compute its part."""

    sends: tuple[Sent, ...] = ()
    replaces: bool = False
    makes_whole: bool = False
    aborts: str = ""
    repeats: tuple[str, ...] = ()
    beside: int = 0


NOTHING = Answer()


class Operator(NamedTuple):
    """A member of the family.

    - `name`, `kinds`: of the member, and the operations it speaks for;
    - `read(operation) -> facts`: what no layout changes, read off the attributes once a trace; `None` if there is nothing to send ever;
    - `sends(facts, placed) -> answer`: the collectives; `None` where it is not known, which the report then says.
    """

    name: str
    kinds: tuple[str, ...]
    read: Callable[[ir.Operation], Any]
    sends: Callable[[Any, Placed], Answer | None]


class Own(NamedTuple):
    """An operation of the program that may communicate by itself."""

    operator: Operator
    facts: Any


def moved(placed: Placed, tensor: Tensor, target: Dims, operand: int | None = 0) -> tuple[Sent, ...]:
    """What brings a value from where it lay to where XLA wants it."""
    steps = way(tensor.shape, tensor.stored, target, placed.mesh).collectives
    return tuple(Sent(step.kind, step.axes, math.ceil(step.payload * tensor.itemsize), operand) for step in steps)


def gathered(placed: Placed, tensor: Tensor, dims: Iterable[int], operand: int | None = 0) -> tuple[Sent, ...]:
    """Replicating some dimensions."""
    whole = set(dims)
    return moved(placed, tensor, tuple(() if dim in whole else axes for dim, axes in enumerate(tensor.stored)), operand)


def sized(shape: Iterable[int], itemsize: float) -> int:
    """Bytes."""
    return math.ceil(math.prod(shape) * itemsize)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(value.type).shape)


def numbers(op: ir.Operation, name: str, default: int = 1, length: int = 0) -> tuple[int, ...]:
    """An attribute that lists whole numbers; `length` times `default` where it is left out."""
    return tuple(ir.DenseI64ArrayAttr(op.attributes[name])) if name in op.attributes else (default,) * length


def paddings(op: ir.Operation, name: str, length: int) -> tuple[tuple[int, int], ...]:
    """An attribute of (low, high) pairs."""
    if name not in op.attributes:
        return ((0, 0),) * length
    flat = [int(each) for each in ir.DenseIntElementsAttr(op.attributes[name])]
    if len(flat) == 1:  # printed once where all are equal
        flat *= 2 * length
    return tuple(zip(flat[::2], flat[1::2], strict=True))
