"""Determines the purpose of a program's dimensions: by a common name, else by how the program uses them."""

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
    """The batch dimension: by name, else the leading one of inputs that no weight, loop or convolution uses."""
    inputs = [program.arguments[i] for i in program.inputs if program.arguments[i].dims]
    named = [dim for tensor in inputs for dim in tensor.dims if is_named(dim, DimUse.BATCH)]
    if named:
        return named[0]
    excluded = {dim for i in program.state for dim in program.arguments[i].dims} | scanned_dims(program) | _crossed_dims(program)
    inner = {dim for tensor in inputs for dim in tensor.dims[1:] if dim != tensor.dims[0]}
    led = [(next((dim for dim in tensor.dims if dim not in excluded), None), tensor) for tensor in inputs]
    leads = Counter(dim for dim, _ in led if dim is not None)
    sizes = Counter(program.dims[dim] for dim, _ in led if dim is not None)
    largest = {dim: max(tensor.elements for other, tensor in led if other == dim) for dim in leads}
    return max(leads, key=lambda dim: (dim not in inner, leads[dim], sizes[program.dims[dim]], largest[dim]), default=None)


@cache_with_program(1)
def sequence_dims(program: Program) -> tuple[str, ...]:
    """The token dimensions: by name, else those twice in attention scores, else those that weight products keep."""
    batch = batch_dim(program)
    inputs = dict.fromkeys(dim for i in program.inputs for dim in program.arguments[i].dims if dim != batch)
    named = tuple(dim for dim in inputs if is_named(dim, DimUse.SEQUENCE))
    twice = {dim for dot in find_dots(program) for dim in dot.dims if dot.dims.count(dim) > 1}
    return named or tuple(dim for dim in inputs if dim in twice) or _untouched_dims(program, batch, inputs)


def _untouched_dims(program: Program, batch: str | None, inputs: Iterable[str]) -> tuple[str, ...]:
    """The only input dimension, if any, that activations keep through weight products and that no weight has."""
    dots = [dot for dot in find_weight_dots(program, batch) if not dot.is_convolution]
    unchanged = {dim for dot in dots for dim in dot.dims if dim in dot.activation(batch) and dim not in dot.weight(batch)}
    candidates = tuple(dim for dim in inputs if dim in unchanged)
    return candidates if len(candidates) == 1 and candidates[0] not in _crossed_dims(program) else ()


@cache_with_program(1)
def find_token_mixes(program: Program) -> tuple[int, ...]:
    """The ids of forward dots that mix tokens, softmax(q k) v: of two activations, over tokens, for tokens."""
    batch, tokens = batch_dim(program), set(sequence_dims(program))
    return tuple(
        dot.operation_id
        for dot in find_dots(program)
        if dot.is_forward and batch in dot.left and batch in dot.right and tokens & set(dot.shared) and tokens & set(dot.dims)
    )


@cache_with_program(1)
def expert_dims(program: Program) -> tuple[str, ...]:
    """The expert dimensions, in both operands of a dot and its result: each expert's weights and its own tokens."""
    batch = batch_dim(program)
    used = dict.fromkeys(
        dim
        for dot in find_weight_dots(program, batch)
        for dim in dot.weight(batch)
        if not dot.is_convolution
        and dim in dot.activation(batch)
        and dim in dot.dims
        and dim != UNNAMED
        and not is_named(dim, DimUse.HEADS)
    )
    named = tuple(dim for dim in used if is_named(dim, DimUse.EXPERTS))
    return named or tuple(used)


@cache_with_program(1)
def space_dims(program: Program) -> tuple[str, ...]:
    """The input dimensions that convolutions run along, or with spatial names, the largest first."""
    batch, along = batch_dim(program), _crossed_dims(program)
    inputs = {dim: size for i in program.inputs for dim, size in zip(*_sizes(program.arguments[i]), strict=True) if dim != batch}
    spatial = [dim for dim in inputs if dim in along or (is_named(dim, DimUse.SPACE) and not is_named(dim, DimUse.SEQUENCE))]
    return tuple(sorted(spatial, key=lambda dim: -inputs[dim]))


@cache_with_program(1)
def _crossed_dims(program: Program) -> frozenset[str]:
    structure = structure_of(program)
    return frozenset(
        program.operations[dot.operation_id].dims[dim]
        for dot in find_dots(program)
        for dim in structure.ops[dot.operation_id].crossing_dims
    )


def _sizes(tensor: Tensor) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return tensor.dims, tensor.shape


@cache_with_program(1)
def width_dims(program: Program) -> tuple[str, ...]:
    """The widths of residual streams (`d_model`), then other contracted outputs except hidden units, by use."""
    hidden, batch = set(hidden_dims(program)), batch_dim(program)
    read = Counter(dim for dot in find_weight_dots(program, batch) for dim in set(dot.shared))
    outputs = {dim for dot in find_weight_dots(program, batch) for dim in dot.weight(batch) if dim in dot.dims}
    counted = (dim for dim, _ in read.most_common() if dim in outputs and dim not in hidden)
    return tuple(dict.fromkeys((*residual_dims(program, batch), *counted)))


@cache_with_program(1)
def hidden_dims(program: Program) -> tuple[str, ...]:
    """The dimensions that tensor parallelism splits, at most one per tensor, by name or use (`dim_roles`)."""
    chosen: list[str] = []
    for dim in _candidate_dims(program):
        beside = {other for tensor in program.arguments if dim in tensor.dims for other in tensor.dims if other != dim}
        if dim not in chosen and not beside & set(chosen):
            chosen.append(dim)
    return tuple(chosen)


def _candidate_dims(program: Program) -> Iterator[str]:
    batch = batch_dim(program)
    dims = dict.fromkeys(dim for tensor in weight_arguments(program, batch) for dim in tensor.dims)
    roles, width = dim_roles(program, batch), residual_dims(program, batch)
    inside = [dim for use in (DimUse.HEADS, DimUse.HIDDEN) for dim in sorted(dims, key=lambda dim: _rank(dim, use)) if is_named(dim, use)]
    yield from (dim for dim in inside if dim not in width)
    yield from (dim for dim, role in roles.items() if role.is_split)
    yield from vocabulary_dims(program)


def _rank(dim: str, use: DimUse) -> int:
    """Rank specific names first: `hidden_size` is the width in some libraries, and ranks after `intermediate_size`."""
    return (
        -1
        if strip_affixes(dim) == "intermediate"
        else DIMS[use].index(strip_affixes(dim))
        if strip_affixes(dim) in DIMS[use]
        else len(DIMS[use])
    )


@cache_with_program(1)
def vocabulary_dims(program: Program) -> tuple[str, ...]:
    """The vocabulary dimensions of weights, by name or by use."""
    batch = batch_dim(program)
    roles, dims = dim_roles(program, batch), dict.fromkeys(dim for tensor in weight_arguments(program, batch) for dim in tensor.dims)
    return tuple(dim for dim in dims if is_named(dim, DimUse.VOCABULARY) or (dim in roles and roles[dim].use is DimUse.VOCABULARY))


def stacked_dims(program: Program) -> frozenset[str]:
    """The stacking dimensions of scanned layers' weights: those that weights have, but no dot and no vocabulary."""
    return dims_without_dots(program) - {*vocabulary_dims(program)}


@cache_with_program(1)
def dims_without_dots(program: Program) -> frozenset[str]:
    """The dimensions that weights have but no dot: layers of a stack, rows of a table that is only looked up."""
    used = {dim for dot in find_dots(program) for side in (dot.left, dot.right, dot.dims) for dim in side}
    state_dims = {dim for i in program.state for dim in program.arguments[i].dims if len(program.arguments[i].dims) > 1}
    return frozenset(state_dims - used)
