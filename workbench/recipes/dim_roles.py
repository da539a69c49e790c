"""The role of each dimension by how the program uses it, with the reason. Names play no part here; see `choose_dims` for both together.

residual add      x + f(x)                                           width
weight dot        made by one, summed over by a later one            hidden units
attention dot     a batch dimension of softmax(q k) v                heads, also within a larger dimension of the weights
gather, one-hot   rows of a table that the batch's integers choose   vocabulary
loop              a slice for each iteration                         layers
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.core.tensor import Role
from workbench.propagation import structure_of
from workbench.recipes.naming_conventions import DimUse
from workbench.recipes.traced_dots import UNNAMED, TracedDot, find_dots, float_operations, value_dims, weight_arguments
from workbench.recipes.weight_flow import WeightFlow, weight_flow

_MOST_EXACT = 16  # up to so many connected dimensions, the choice is optimal
_SAME_SHAPE = ("stablehlo.convert", "stablehlo.slice", "stablehlo.optimization_barrier")


@dataclass(frozen=True, slots=True)
class DimRole:
    """The role of a dimension, with the reason.

    `heads`: the number of attention heads within it, if each has several elements; `is_split`: tensor parallelism
    shards it; `fused`: the name of a weight that holds several kinds side by side, `qkv` or `gate_up`.
    """

    use: DimUse
    reason: str
    heads: int = 0
    is_split: bool = False
    fused: str = ""


@cache_with_program(10)
def dim_roles(program: Program, batch: str | None) -> Mapping[str, DimRole]:
    """The roles of the dimensions whose use implies one, by name; `batch` is the batch dimension."""
    flow = weight_flow(program, batch)
    stacked = [dim for dim in program.dims if dim in scanned_dims(program) & _parameter_dims(program)]
    roles = {dim: DimRole(DimUse.LAYERS, "stacked layers: a loop reads one slice per iteration") for dim in stacked}
    tables = _table_dims(program, flow)
    roles |= {dim: DimRole(DimUse.VOCABULARY, "rows of a table indexed by integers of the batch") for dim in tables}
    sizes = {size for dim in tables for size in program.dims[dim]}
    for dim in _last_dims(flow):
        if dim in program.dims and sizes & {*program.dims[dim]}:
            roles.setdefault(dim, DimRole(DimUse.VOCABULARY, "outputs of the last product, as many as a table has rows"))
    for dim in residual_dims(program, batch):
        roles.setdefault(dim, DimRole(DimUse.WIDTH, "width of the residual stream"))
    return {**roles, **_inner_roles(program, batch, flow, roles)}


def _parameter_dims(program: Program) -> set[str]:
    return {dim for tensor in program.arguments if tensor.role is Role.PARAMETER for dim in tensor.dims}


@cache_with_program(1)
def scanned_dims(program: Program) -> frozenset[str]:
    """The dimensions that a loop slices by iteration."""
    structure, scanned = structure_of(program), set[str]()
    bodies = {*structure.body_of.values()}
    for op in structure.ops:
        if op.kind == "stablehlo.dynamic_slice" and op.region in bodies:
            whole, part = (structure.values[value].shape for value in (op.operands[0], op.results[0]))
            sizes = zip(value_dims(program, op.operands[0]), whole, part, strict=True)
            scanned |= {dim for dim, size, slice_size in sizes if slice_size == 1 < size and dim != UNNAMED}
    return frozenset(scanned)


def _table_dims(program: Program, flow: WeightFlow) -> list[str]:
    """The rows of parameter tables that a gather, or a product with a one-hot matrix, indexes by integers of the batch."""
    structure, params = structure_of(program), {tensor.dims for tensor in program.arguments if tensor.role is Role.PARAMETER}
    rows: dict[str, None] = {}
    for operation, op in zip(program.operations, structure.ops, strict=True):
        if op.kind == "stablehlo.gather" and flow.reads_batch(op.operands[1]) and not operation.path.startswith("grad/"):
            table = value_dims(program, op.operands[0])
            rows |= dict.fromkeys(dim for dim in table if table in params and dim not in operation.dims)
    floats = float_operations(program)
    for dot in flow.dots:
        operands = structure.ops[dot.operation_id].operands
        activation = operands[0] if dot.right == dot.weight(flow.batch) else operands[1]
        if structure.values[activation].maker not in floats and structure.values[activation].maker >= 0 and flow.reads_batch(activation):
            rows |= dict.fromkeys(dot.shared)
    return list(rows)


def _last_dims(flow: WeightFlow) -> Iterator[str]:
    """The dimensions that weight products make and no later one reads."""
    for dot in flow.dots:
        if not flow.is_read(dot):
            yield from (dim for dim in dot.weight(flow.batch) if dim in dot.dims)


@cache_with_program(1)
def residual_dims(program: Program, batch: str | None) -> tuple[str, ...]:
    """The widths of residual streams, the most added first.

    In x + f(x) one term depends on all weights of the other and on more. A gate of a recurrent state, z * h + (1 - z) *
    n, multiplies two activations and is not a stream.
    """
    structure, flow = structure_of(program), weight_flow(program, batch)
    outputs = {dim for dot in flow.dots for dim in dot.weight(batch) if dim in dot.dims}

    def is_product(value: int) -> bool:
        while (maker := structure.values[value].maker) >= 0 and structure.ops[maker].kind in _SAME_SHAPE:
            value = structure.ops[maker].operands[0]
        op = structure.ops[maker]
        return maker >= 0 and op.kind == "stablehlo.multiply" and all(map(flow.reads_batch, op.operands))

    added = Counter[str]()
    for operation, op in zip(program.operations, structure.ops, strict=True):
        if op.kind == "stablehlo.add" and batch in operation.dims and not operation.path.startswith("grad/"):
            one, other = op.operands
            if (flow.is_before(one, other) and not is_product(one)) or (flow.is_before(other, one) and not is_product(other)):
                added.update(dim for dim in set(operation.dims) if dim in outputs and dim != UNNAMED)
    return tuple(sorted(added, key=lambda dim: (-added[dim], list(program.dims).index(dim) if dim in program.dims else -1)))


def _inner_roles(program: Program, batch: str | None, flow: WeightFlow, known: Mapping[str, DimRole]) -> dict[str, DimRole]:
    """The roles of heads and hidden units, inner dimensions of blocks."""
    inputs = {dim for i in program.inputs if batch in program.arguments[i].dims for dim in program.arguments[i].dims}
    mixes = [dot for dot in find_dots(program) if dot.is_forward and batch in dot.left and batch in dot.right]
    summed = {dim for dot in mixes for dim in dot.shared}
    heads, merged = _batched_dims(mixes, batch), _merged_heads(program, mixes, batch)
    outputs = {dim for dot in flow.dots if flow.is_read(dot) for dim in dot.weight(batch) if dim in dot.dims}
    read = {dim for dot in flow.dots if flow.reads_weights(dot) for dim in dot.shared}
    gates = _fused_gates(program, outputs - read, read)
    weights = [each.dims for each in weight_arguments(program, batch)]
    roles: dict[str, DimRole] = {}
    for dim in dict.fromkeys(dim for dims in weights for dim in dims):
        if dim in inputs or dim in known or dim in summed or dim == batch:
            continue
        if dim in heads and dim in outputs:
            roles[dim] = DimRole(DimUse.HEADS, "attention heads")
        elif dim in merged:
            roles[dim] = merged[dim]
        elif dim in gates:
            roles[dim] = DimRole(DimUse.HIDDEN, "hidden units of several kinds, computed by one weight", fused="gate_up")
        elif (dim in outputs and dim in read) or dim in gates.values():
            roles[dim] = DimRole(DimUse.HIDDEN, "hidden units: output of one product, contracted by a later one")
    return _choose_split(roles, weights, find_dots(program), program)


def _batched_dims(mixes: Iterable[TracedDot], batch: str | None) -> set[str]:
    """Named batch dimensions of products of two activations."""
    return {dim for dot in mixes for dim in dot.left if dim in dot.right and dim in dot.dims and dim not in (batch, UNNAMED)}


def _merged_heads(program: Program, mixes: Iterable[TracedDot], batch: str | None) -> dict[str, DimRole]:
    """Weight dimensions that merge heads of several elements, recognized by a reshape into heads or from them."""
    structure = structure_of(program)
    shapes = [shape for dot in mixes if (shape := _head_shape(program, dot, batch)).counts]
    roles: dict[str, DimRole] = {}
    for number in structure.reshapes:
        op = structure.ops[number]
        if not program.operations[number].path.startswith("grad/") and shapes:
            for whole, parts in (op.operands[0], op.results[0]), (op.results[0], op.operands[0]):
                for dim, slices, (count, *size) in _split_dims(program, whole, structure.values[parts].shape):
                    if any(shape.fits(count, size) for shape in shapes):
                        reason, fused = f"{count} attention heads of {math.prod(size)} elements", "qkv" if slices > 1 else ""
                        roles.setdefault(dim, DimRole(DimUse.HEADS, reason, heads=count, fused=fused))
    return roles


class _HeadShape(NamedTuple):
    """The possible numbers of heads of a product of two activations, and the sizes of its other dimensions."""

    counts: set[int]
    sizes: set[int]

    def fits(self, count: int, size: Sequence[int]) -> bool:
        """Return whether `count` heads of this size match the product's heads, all or a group of them."""
        heads = [heads for heads in self.counts if count == heads or (count % heads == 0 and count // heads in self.sizes)]
        return count > 1 < math.prod(size) and bool(heads) and (math.prod(size) in self.sizes or {*size} <= self.sizes)


def _head_shape(program: Program, dot: TracedDot, batch: str | None) -> _HeadShape:
    """Heads are a batch dimension of the product; in grouped-query attention, query heads are unnamed rows."""
    facts = structure_of(program).dots.get(dot.operation_id)
    if facts is None:
        return _HeadShape(set(), set())
    (left, right, _), dims = facts.shapes, facts.dims
    counts = {left[dim.left] for dim in dims.batch if dot.left[dim.left] != batch}
    counts |= {left[dim.left] for dim in dims.rows if dot.left[dim.left] == UNNAMED}
    sizes = {left[dim.left] for dim in (*dims.summed, *dims.rows)} | {right[dim.right] for dim in dims.columns}
    return _HeadShape(counts - {1}, sizes)


def _split_dims(program: Program, value: int, shape: tuple[int, ...]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """The named dimensions of a value that a reshape to `shape` splits: name, number of slices, sizes of the parts."""
    whole = structure_of(program).values[value].shape
    for at, size in enumerate(whole):
        before, first = math.prod(whole[:at]), 0
        while first < len(shape) and math.prod(shape[:first]) < before:
            first += 1
        last = first
        while last < len(shape) and math.prod(shape[first:last]) < size:
            last += 1
        if last - first > 1 and math.prod(shape[:first]) == before and math.prod(shape[first:last]) == size:
            name, total = _name_before_slices(program, value, at)
            if name != UNNAMED:
                yield name, total // size, shape[first:last]


def _name_before_slices(program: Program, value: int, at: int) -> tuple[str, int]:
    """The name and size of a value's dimension, looking through slices."""
    structure = structure_of(program)
    while (name := value_dims(program, value)[at]) == UNNAMED:
        maker = structure.values[value].maker
        if maker < 0 or structure.ops[maker].kind not in _SAME_SHAPE:
            break
        value = structure.ops[maker].operands[0]
    return name, structure.values[value].shape[at]


def _fused_gates(program: Program, made: set[str], read: set[str]) -> dict[str, str]:
    """Dimensions sliced into equal parts that later products contract, by the dimension of the parts."""
    structure, gates = structure_of(program), dict[str, str]()
    for number, op in enumerate(structure.ops):
        if op.kind == "stablehlo.slice" and not program.operations[number].path.startswith("grad/"):
            before, after = structure.values[op.operands[0]].shape, structure.values[op.results[0]].shape
            for at, dim in enumerate(value_dims(program, op.operands[0])):
                part = value_dims(program, op.results[0])[at]
                if dim in made and part in read and before[at] % after[at] == 0 and before[at] > after[at]:
                    gates[dim] = part
    return gates


def _choose_split(
    found: dict[str, DimRole], weights: Iterable[tuple[str, ...]], dots: Iterable[TracedDot], program: Program
) -> dict[str, DimRole]:
    """Mark the roles that tensor parallelism splits: at most one per weight, covering the most product work."""
    structure, work = structure_of(program), Counter[str]()
    for dot in dots:
        op = structure.ops[dot.operation_id]
        if dot.is_forward:
            for dim in {*dot.dims, *dot.shared} & found.keys():
                work[dim] += op.work.flops * structure.regions[op.region].runs_per_step
    beside = {dim: {other for dims in weights if dim in dims for other in dims if other in found and other != dim} for dim in found}
    chosen = {dim for group in _connected(beside) for dim in _heaviest(group, beside, work)}
    marked: dict[str, DimRole] = {}
    for dim, role in found.items():
        is_split, others = dim in chosen, ", ".join(f"`{other}`" for other in sorted(beside[dim] & chosen))
        reason = role.reason if is_split else f"{role.reason}; unsharded, because {others} in the same weights divides more work"
        marked[dim] = DimRole(role.use, reason, role.heads, is_split, role.fused)
    return marked


def _connected(beside: Mapping[str, set[str]]) -> Iterator[list[str]]:
    seen: set[str] = set()
    for dim in beside:
        group, queue = dict.fromkeys([dim] if dim not in seen else []), [dim]
        while queue and group:
            fresh = [other for other in beside[queue.pop()] if other not in group]
            group |= dict.fromkeys(fresh)
            queue += fresh
        seen |= group.keys()
        if group:
            yield [member for member in beside if member in group]


def _heaviest(group: list[str], beside: Mapping[str, set[str]], work: Mapping[str, int]) -> set[str]:
    """The dimensions, no two in one weight, with most work; greedy in a large group."""
    if len(group) > _MOST_EXACT:
        chosen: set[str] = set()
        for dim in sorted(group, key=lambda dim: -work[dim]):
            if not beside[dim] & chosen:
                chosen.add(dim)
        return chosen

    @cache
    def best(left: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        if not left:
            return 0, ()
        gain, others = best(tuple(dim for dim in left[1:] if dim not in beside[left[0]]))
        with_first = work[left[0]] + gain, (left[0], *others)
        return max(with_first, best(left[1:]), key=lambda choice: choice[0])

    return set(best(tuple(group))[1])
