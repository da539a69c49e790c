"""The dots of a program by the names of their dimensions, from which a recipe finds what a dimension is for.

x [batch, seq, d_model]   w1 [d_model, d_ff]       contracted: d_model    made: d_ff
h [batch, seq, d_ff]      w2 [d_ff, d_model]       contracted: d_ff       made: d_model
"""

from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.core.tensor import Role, Tensor
from workbench.propagation import structure_of

UNNAMED = "_"


class TracedDot(NamedTuple):
    """One matrix product or convolution of the program as traced.

    - `operation_id` is the operation's id, `path` its named scope;
    - `left`, `right` and `dims` are the names of the operands' and the result's dimensions, `contracted` those that are summed over.
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
        """The dimensions that both operands have and the sum runs over: not those of a convolution's window."""
        return tuple(dim for dim in self.contracted if dim in self.left and dim in self.right and dim != UNNAMED)

    @property
    def is_forward(self) -> bool:
        return not self.path.startswith("grad/")

    def weight(self, batch: str | None) -> tuple[str, ...]:
        """The dimensions of the operand that is the same for all examples; none if both or neither are."""
        lonely = [each for each in (self.left, self.right) if batch not in each]
        return lonely[0] if len(lonely) == 1 else ()

    def activation(self, batch: str | None) -> tuple[str, ...]:
        """The dimensions of the operand that the weight is multiplied with; none where there is no weight."""
        weight = self.weight(batch)
        return () if not weight else self.left if self.right == weight else self.right


def value_dims(program: Program, value: int) -> tuple[str, ...]:
    """The names of a value's dimensions; `_` where they are not known."""
    record = structure_of(program).values[value]
    if record.maker >= 0:
        operation = program.operations[record.maker]
        return operation.dims if record.result == 0 and len(operation.dims) == len(record.shape) else (UNNAMED,) * len(record.shape)
    return program.arguments[record.result].dims if record.region == 0 else (UNNAMED,) * len(record.shape)


@cache_with_program(15)
def find_dots(program: Program) -> tuple[TracedDot, ...]:
    """All dots and convolutions with operands of known names, in order."""
    structure = structure_of(program)
    found = []
    for place, (operation, op) in enumerate(zip(program.operations, structure.ops, strict=True)):
        if op.work.flops:
            left, right = value_dims(program, op.operands[0]), value_dims(program, op.operands[1])
            of = (left, right)[op.work.contracted_of]
            contracted = tuple(of[i] for i in op.work.contracted)
            found.append(TracedDot(place, operation.path, left, right, operation.dims, contracted, operation.kind == "convolution"))
    return tuple(found)


def weight_arguments(program: Program, batch: str | None) -> list[Tensor]:
    """The parameters, and inputs without examples: what may be a weight."""
    return [each for each in program.arguments if each.role is Role.PARAMETER or (each.role is Role.INPUT and batch not in each.dims)]


def find_weight_dots(program: Program, batch: str | None) -> tuple[TracedDot, ...]:
    """The forward dots of an activation and a weight."""
    return tuple(each for each in find_dots(program) if each.is_forward and each.weight(batch))


@cache_with_program(90)
def with_floats(program: Program) -> frozenset[int]:
    """The ids of the operations that depend on floating-point arguments; random numbers and positions come only from integers."""
    structure, found = structure_of(program), set[int]()
    floats = {number for number, value in enumerate(structure.values) if value.maker < 0 and "float" in value.dtype}
    for place, op in enumerate(structure.ops):
        if not floats.isdisjoint(op.operands):
            found.add(place)
            floats.update(op.results)
    return frozenset(found)
