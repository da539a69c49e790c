"""The dots of a program by the names of their dimensions, from which a recipe finds what a dimension is for.

x [batch, seq, d_model]   w1 [d_model, d_ff]       contracted: d_model    made: d_ff
h [batch, seq, d_ff]      w2 [d_ff, d_model]       contracted: d_ff       made: d_model
"""

from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.core.tensor import Role, Tensor
from workbench.propagation import structure_of
from workbench.propagation.structure.program_structure import TracedValue

UNNAMED = "_"


class TracedDot(NamedTuple):
    """One matrix product or convolution of the traced program.

    - `operation_id`: the operation's id; `path`: its named scope;
    - `left`, `right`, `dims`: dimension names of the operands and the result; `contracted`: those summed over.
    """

    operation_id: int
    path: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    dims: tuple[str, ...]
    contracted: tuple[str, ...]
    is_convolution: bool

    @property
    def shared(self) -> tuple[str, ...]:
        """The contracted dimensions of both operands, without those of a convolution's window."""
        return tuple(dim for dim in self.contracted if dim in self.left and dim in self.right and dim != UNNAMED)

    @property
    def is_forward(self) -> bool:
        return not self.path.startswith("grad/")

    def weight(self, batch: str | None) -> tuple[str, ...]:
        """The dimensions of the only operand without a batch dimension; empty if there is none."""
        unbatched = [operand for operand in (self.left, self.right) if batch not in operand]
        return unbatched[0] if len(unbatched) == 1 else ()

    def activation(self, batch: str | None) -> tuple[str, ...]:
        """The dimensions of the other operand than the weight; empty without a weight."""
        weight = self.weight(batch)
        return () if not weight else self.left if self.right == weight else self.right


def value_dims(program: Program, value: int) -> tuple[str, ...]:
    """The names of a value's dimensions; `_` if unknown."""
    record = structure_of(program).values[value]
    if record.maker >= 0:
        operation = program.operations[record.maker]
        return operation.dims if record.result == 0 and len(operation.dims) == len(record.shape) else (UNNAMED,) * len(record.shape)
    if record.region == 0:
        return program.arguments[record.result].dims
    return _carried_dims(program, record)


def _carried_dims(program: Program, record: TracedValue) -> tuple[str, ...]:
    """The names of a loop variable: those of its value before the loop."""
    structure = structure_of(program)
    loop = next((number for number, body in structure.body_of.items() if body == record.region), None)
    if loop is None:
        return (UNNAMED,) * len(record.shape)
    return value_dims(program, structure.ops[loop].operands[record.result])


@cache_with_program(15)
def find_dots(program: Program) -> tuple[TracedDot, ...]:
    """All dots and convolutions, in order."""
    structure = structure_of(program)
    dots = []
    for place, (operation, op) in enumerate(zip(program.operations, structure.ops, strict=True)):
        if op.work.flops:
            left, right = value_dims(program, op.operands[0]), value_dims(program, op.operands[1])
            operand = (left, right)[op.work.contracted_of]
            contracted = tuple(operand[i] for i in op.work.contracted)
            dots.append(TracedDot(place, operation.path, left, right, operation.dims, contracted, operation.kind == "convolution"))
    return tuple(dots)


def weight_arguments(program: Program, batch: str | None) -> list[Tensor]:
    """The arguments that may be weights: parameters, and inputs without a batch dimension."""
    return [
        tensor for tensor in program.arguments if tensor.role is Role.PARAMETER or (tensor.role is Role.INPUT and batch not in tensor.dims)
    ]


def find_weight_dots(program: Program, batch: str | None) -> tuple[TracedDot, ...]:
    """The forward dots of an activation and a weight."""
    return tuple(dot for dot in find_dots(program) if dot.is_forward and dot.weight(batch))


@cache_with_program(90)
def float_operations(program: Program) -> frozenset[int]:
    """The ids of operations that depend on floating-point arguments, unlike random numbers and positions."""
    structure, dependent = structure_of(program), set[int]()
    floats = {number for number, value in enumerate(structure.values) if value.maker < 0 and "float" in value.dtype}
    for place, op in enumerate(structure.ops):
        if not floats.isdisjoint(op.operands):
            dependent.add(place)
            floats.update(op.results)
    return frozenset(dependent)
