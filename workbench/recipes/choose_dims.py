"""The purpose of a program's dimensions: by name where the name is a common one, else by how the program uses them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.core.tensor import Tensor
from workbench.propagation import structure_of
from workbench.recipes.dim_roles import dim_roles, residual_dims, scanned_dims
from workbench.recipes.naming_conventions import DIMS, DimUse, is_named, strip_affixes
from workbench.recipes.traced_dots import UNNAMED, find_dots, find_weight_dots, weight_arguments


@cache_with_program(1)
def batch_dim(program: Program) -> str | None:
    """The dimension of the examples: by name, else the one that leads the inputs and that no weight has. A dimension that a loop takes
    apart, or that a convolution runs along, is none of examples."""
    inputs = [program.arguments[i] for i in program.inputs if program.arguments[i].dims]
    named = [dim for each in inputs for dim in each.dims if is_named(dim, DimUse.BATCH)]
    if named:
        return named[0]
    excluded = {dim for i in program.state for dim in program.arguments[i].dims} | scanned_dims(program) | _crossed_dims(program)
    inner = {dim for each in inputs for dim in each.dims[1:] if dim != each.dims[0]}
    led = [(next((dim for dim in each.dims if dim not in excluded), None), each) for each in inputs]
    leads = Counter(dim for dim, _ in led if dim is not None)
    sizes = Counter(program.dims[dim] for dim, _ in led if dim is not None)
    largest = {dim: max(each.elements for other, each in led if other == dim) for dim in leads}
    return max(leads, key=lambda dim: (dim not in inner, leads[dim], sizes[program.dims[dim]], largest[dim]), default=None)


@cache_with_program(1)
def sequence_dims(program: Program) -> tuple[str, ...]:
    """The dimensions of the tokens, an encoder's and a decoder's, say: those of inputs with such a name; else those of inputs that
    attention scores have twice, for queries and for keys; else the one that products with weights leave as it is."""
    batch = batch_dim(program)
    inputs = dict.fromkeys(dim for i in program.inputs for dim in program.arguments[i].dims if dim != batch)
    named = tuple(dim for dim in inputs if is_named(dim, DimUse.SEQUENCE))
    twice = {dim for each in find_dots(program) for dim in each.dims if each.dims.count(dim) > 1}
    return named or tuple(dim for dim in inputs if dim in twice) or _untouched_dims(program, batch, inputs)


def _untouched_dims(program: Program, batch: str | None, inputs: Iterable[str]) -> tuple[str, ...]:
    """The dimension of inputs, if there is one, that activations have before and after products with weights, and that no weight has."""
    dots = [each for each in find_weight_dots(program, batch) if not each.is_convolution]
    kept = {dim for each in dots for dim in each.dims if dim in each.activation(batch) and dim not in each.weight(batch)}
    found = tuple(dim for dim in inputs if dim in kept)
    return found if len(found) == 1 and found[0] not in _crossed_dims(program) else ()


@cache_with_program(1)
def find_token_mixes(program: Program) -> tuple[int, ...]:
    """The ids of the forward dots that mix tokens, softmax(q k) v: of two activations, with a sum over tokens whose result still has
    tokens."""
    batch, tokens = batch_dim(program), set(sequence_dims(program))
    return tuple(
        each.operation_id
        for each in find_dots(program)
        if each.is_forward and batch in each.left and batch in each.right and tokens & set(each.shared) and tokens & set(each.dims)
    )


@cache_with_program(1)
def expert_dims(program: Program) -> tuple[str, ...]:
    """The dimensions of experts: both operands of a dot and its result have them, because each expert's weights are applied to its own
    tokens."""
    batch = batch_dim(program)
    used = dict.fromkeys(
        dim
        for each in find_weight_dots(program, batch)
        for dim in each.weight(batch)
        if not each.is_convolution
        and dim in each.activation(batch)
        and dim in each.dims
        and dim != UNNAMED
        and not is_named(dim, DimUse.HEADS)
    )
    named = tuple(dim for dim in used if is_named(dim, DimUse.EXPERTS))
    return named or tuple(used)


@cache_with_program(1)
def space_dims(program: Program) -> tuple[str, ...]:
    """The dimensions of inputs that convolutions run along, or that are named for space, the largest first."""
    batch, along = batch_dim(program), _crossed_dims(program)
    inputs = {dim: size for i in program.inputs for dim, size in zip(*_sizes(program.arguments[i]), strict=True) if dim != batch}
    found = [dim for dim in inputs if dim in along or (is_named(dim, DimUse.SPACE) and not is_named(dim, DimUse.SEQUENCE))]
    return tuple(sorted(found, key=lambda dim: -inputs[dim]))


@cache_with_program(1)
def _crossed_dims(program: Program) -> frozenset[str]:
    """The dimensions that convolutions run along."""
    structure = structure_of(program)
    return frozenset(
        program.operations[each.operation_id].dims[at]
        for each in find_dots(program)
        for at in structure.ops[each.operation_id].crossing_dims
    )


def _sizes(tensor: Tensor) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return tensor.dims, tensor.shape


@cache_with_program(1)
def width_dims(program: Program) -> tuple[str, ...]:
    """The widths of residual streams (`d_model`); then other results of a dot with a weight that others sum over, and not hidden units, the
    most used first."""
    hidden, batch = set(hidden_dims(program)), batch_dim(program)
    read = Counter(dim for each in find_weight_dots(program, batch) for dim in set(each.shared))
    made = {dim for each in find_weight_dots(program, batch) for dim in each.weight(batch) if dim in each.dims}
    counted = (dim for dim, _ in read.most_common() if dim in made and dim not in hidden)
    return tuple(dict.fromkeys((*residual_dims(program, batch), *counted)))


@cache_with_program(1)
def hidden_dims(program: Program) -> tuple[str, ...]:
    """The dimensions that tensor parallelism splits: heads, hidden units, vocabulary; at most one of them in a tensor.

    By name, and by use (`dim_roles`) where the name says nothing. The width of the residual stream is none of them, whatever its name.
    """
    chosen: list[str] = []
    for dim in _candidate_dims(program):
        beside = {other for each in program.arguments if dim in each.dims for other in each.dims if other != dim}
        if dim not in chosen and not beside & set(chosen):
            chosen.append(dim)
    return tuple(chosen)


def _candidate_dims(program: Program) -> Iterator[str]:
    batch = batch_dim(program)
    dims = dict.fromkeys(dim for each in weight_arguments(program, batch) for dim in each.dims)
    roles, width = dim_roles(program, batch), residual_dims(program, batch)
    inside = [dim for use in (DimUse.HEADS, DimUse.HIDDEN) for dim in sorted(dims, key=lambda dim: _rank(dim, use)) if is_named(dim, use)]
    yield from (dim for dim in inside if dim not in width)
    yield from (dim for dim, role in roles.items() if role.is_split)
    yield from vocabulary_dims(program)


def _rank(dim: str, use: DimUse) -> int:
    """Specific names first: `hidden_size` is the width in some libraries, and ranks below `intermediate_size`."""
    return (
        -1
        if strip_affixes(dim) == "intermediate"
        else DIMS[use].index(strip_affixes(dim))
        if strip_affixes(dim) in DIMS[use]
        else len(DIMS[use])
    )


@cache_with_program(1)
def vocabulary_dims(program: Program) -> tuple[str, ...]:
    """The dimensions of the words in weights, by name or by use."""
    batch = batch_dim(program)
    roles, dims = dim_roles(program, batch), dict.fromkeys(dim for each in weight_arguments(program, batch) for dim in each.dims)
    return tuple(dim for dim in dims if is_named(dim, DimUse.VOCABULARY) or (dim in roles and roles[dim].use is DimUse.VOCABULARY))


def stacked_dims(program: Program) -> frozenset[str]:
    """The dimensions along which the weights of scanned layers are stacked: weights have them, no dot has, and they are no words."""
    return undotted_dims(program) - {*vocabulary_dims(program)}


@cache_with_program(1)
def undotted_dims(program: Program) -> frozenset[str]:
    """The dimensions that weights have and no dot: layers of a stack, words of a table that is only looked up."""
    used = {dim for each in find_dots(program) for side in (each.left, each.right, each.dims) for dim in side}
    state_dims = {dim for i in program.state for dim in program.arguments[i].dims if len(program.arguments[i].dims) > 1}
    return frozenset(state_dims - used)
