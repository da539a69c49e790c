"""The factor graph: which dimensions of an operation's tensors are the same factor (Shardy's op sharding rules).

A Shardy data-flow edge gives one sharding to all values that a loop carries, a branch yields or a `shard_map` passes in
or out; the values on one edge are one value here. No MLIR objects are kept.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jax.extend.mlir import ir

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import SubAxis, axis_size, parse_sub_axis
from workbench.propagation.explain.recorded_propagation import RecordedPropagation, Slot
from workbench.propagation.module.infer_dim_names import parse_rule
from workbench.propagation.module.mlir_context import main_function
from workbench.propagation.module.operation_kinds import operations_below
from workbench.propagation.module.shardy_attributes import Dims
from workbench.propagation.prepared_program import Prepared, load_prepared
from workbench.propagation.structure.program_structure import Structure

Factors = tuple[tuple[str, ...], ...]  # the factors of each dimension of one tensor, major to minor
_EDGE, _BARRIER = "sdy.data_flow_edge", "stablehlo.optimization_barrier"
EDGE = _EDGE.partition(".")[2]
"""The `kind` of a data-flow edge."""
RETURN, GROUP = "return", "sharding group"


class OperationFactors(NamedTuple):
    """The tensors of one operation (operands, then results) by number, with the factors of their dimensions and the
    factors' sizes.

    - `op`: its number in the program, that of the loop or branch for a data-flow edge; -1 for what main returns;
    - `key`: its key in `RecordedPropagation.records`; `kind`: as in `Operation`;
    - `blocked`: factors that do not propagate; `whole`: factors that must be replicated; `permuted`: factors that need
      data from neighboring shards, such as the windows of a convolution.
    """

    op: int
    key: object
    kind: str
    values: tuple[int, ...]
    operands: int
    mappings: tuple[Factors, ...]
    sizes: Mapping[str, int]
    blocked: frozenset[str]
    whole: frozenset[str]
    permuted: frozenset[str]

    def name_and_line(self, program: Program) -> tuple[str, str]:
        """The path and the user's source line, as a report shows them; main's return has no line."""
        return (program.operations[self.op].path, program.operations[self.op].source) if self.op >= 0 else (self.kind, "")

    def value_at(self, slot: Slot) -> int:
        return self.values[self.operands + slot.position if slot.is_result else slot.position]

    def position(self, slot: Slot) -> int:
        return self.operands + slot.position if slot.is_result else slot.position


@dataclass(slots=True)
class FactorGraph:
    """All operations that propagate shardings, by value too; `representative[v]` stands for the data-flow edge of `v`."""

    operations: list[OperationFactors]
    operations_of: dict[int, list[int]]
    representative: list[int]


class _Rule(NamedTuple):
    mappings: tuple[Factors, ...]
    sizes: Mapping[str, int]
    blocked: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    permuted: frozenset[str] = frozenset()


@cache_with_program(120)
def _read_rules(program: Program) -> dict[int, _Rule]:
    source: Prepared = load_prepared(program)
    rules = {}
    with source.module.context:
        for index, op in enumerate(operations_below(main_function(source.module.operation))):
            if "sdy.sharding_rule" in op.attributes:
                rules[index] = _parse_rule(str(ir.Attribute(op.attributes["sdy.sharding_rule"])))
    return rules


@functools.lru_cache(maxsize=4096)
def _parse_rule(text: str) -> _Rule:
    rule = parse_rule(text)
    kinds = map(frozenset, (rule.blocked, rule.whole, rule.permuted))
    return _Rule(rule.operands + rule.results, rule.sizes, *kinds)


@functools.lru_cache(maxsize=4096)
def _identity_rule(shape: tuple[int, ...], tensors: int) -> _Rule:
    dims = tuple((f"d_{i}",) for i in range(len(shape)))
    return _Rule((dims,) * tensors, {f"d_{i}": size for i, size in enumerate(shape)})


def build_factor_graph(program: Program, recorded: RecordedPropagation) -> FactorGraph:
    """The graph of all operations with rules, data-flow edges, the plan's insertions, and main's results."""
    structure = recorded.structure
    count = len(structure.values) + len(recorded.inserted) + len(recorded.results)
    representative = _find_representatives(structure, count)
    inserted_after = {inserted.operand: inserted.result for inserted in recorded.inserted}

    def resolve_read(value: int) -> int:
        """The value that a reader of `value` reads: the result of the last operation inserted after it."""
        while value in inserted_after:
            value = inserted_after[value]
        return representative[value]

    operations = [
        *_list_operation_factors(program, structure, resolve_read, representative),
        *_list_inserted_factors(recorded, representative),
        *_list_result_factors(recorded, resolve_read),
    ]
    of_value: dict[int, list[int]] = {}
    for number, operation in enumerate(operations):
        for value in dict.fromkeys(operation.values):
            of_value.setdefault(value, []).append(number)
    return FactorGraph(operations, of_value, representative)


def list_program_factors(program: Program, structure: Structure) -> tuple[list[OperationFactors], list[int]]:
    """The factors of a program without a plan, and for each value the representative of its data-flow edge."""
    representative = _find_representatives(structure, len(structure.values))
    return list(_list_operation_factors(program, structure, representative.__getitem__, representative)), representative


def _find_representatives(structure: Structure, count: int) -> list[int]:
    representative = list(range(count))
    edge_of: dict[tuple[int, int], int] = {}
    for op in structure.ops:
        if op.kind == _EDGE:
            value_on_edge = structure.values[op.operands[0]]
            representative[op.operands[0]] = op.results[0]
            if value_on_edge.maker >= 0:
                edge_of[value_on_edge.maker, value_on_edge.result] = op.results[0]
    for region in structure.regions[1:]:
        if structure.ops[region.parent].kind == "stablehlo.while":
            for value in region.values:
                record = structure.values[value]
                if record.maker < 0 and (region.parent, record.result) in edge_of:
                    representative[value] = edge_of[region.parent, record.result]
    return representative


Yields = Callable[[int, int], Iterator[int]]  # (loop or branch, position) -> the values its regions yield


def _list_operation_factors(
    program: Program, structure: Structure, resolve_read: Callable[[int], int], one: list[int]
) -> Iterator[OperationFactors]:
    rules, yields = _read_rules(program), _index_yields(structure)
    for index, op in enumerate(structure.ops):
        if op.kind == _EDGE:
            owner, sources = _edge_sources(structure, index, yields)
            values = (*map(resolve_read, sources), op.results[0])
            rule = _identity_rule(structure.values[op.results[0]].shape, len(values))
            yield OperationFactors(owner, index, EDGE, values, len(values) - 1, *rule)
        elif index in rules:
            rule = rules[index]
            values = (*map(resolve_read, op.operands), *(one[result] for result in op.results))
            if len(values) == len(rule.mappings):
                yield OperationFactors(index, index, program.operations[index].kind, values, len(op.operands), *rule)


def _index_yields(structure: Structure) -> Yields:
    """The values that the regions of a loop or branch yield; a loop's condition yields none."""
    last = {op.region: index for index, op in enumerate(structure.ops)}
    inner: dict[int, list[int]] = {}
    for number, region in enumerate(structure.regions):
        inner.setdefault(region.parent, []).append(number)

    def yields(owner: int, position: int) -> Iterator[int]:
        for region in (structure.body_of[owner],) if owner in structure.body_of else inner[owner]:
            yield structure.ops[last[region]].operands[position]

    return yields


def _list_inserted_factors(recorded: RecordedPropagation, one: list[int]) -> Iterator[OperationFactors]:
    structure, operand_of = recorded.structure, {item.result: item.operand for item in recorded.inserted}

    def program_value(value: int) -> int:
        """The program's value before all operations inserted after it."""
        while value in operand_of:
            value = operand_of[value]
        return value

    for item in recorded.inserted:
        source = structure.values[program_value(item.operand)]
        tensors = (one[item.operand], item.result)
        yield OperationFactors(
            source.maker, ("inserted", item.result), item.kind.partition(".")[2], tensors, 1, *_identity_rule(source.shape, 2)
        )
    for number, members in recorded.groups.items():
        if len(members) > 1:
            rule = _identity_rule(structure.values[program_value(members[0])].shape, len(members))
            yield OperationFactors(-1, ("group", number), GROUP, tuple(one[item] for item in members), len(members), *rule)


def _list_result_factors(recorded: RecordedPropagation, resolve_read: Callable[[int], int]) -> Iterator[OperationFactors]:
    structure = recorded.structure
    for position, (value, result) in enumerate(zip(structure.returned, recorded.results, strict=True)):
        yield OperationFactors(
            -1, ("result", position), RETURN, (resolve_read(value), result), 1, *_identity_rule(structure.values[value].shape, 2)
        )


def _edge_sources(structure: Structure, edge: int, yields: Yields) -> tuple[int, tuple[int, ...]]:
    """The operation that owns a data-flow edge, and the values that flow into it."""
    value_on_edge = structure.values[structure.ops[edge].operands[0]]
    if value_on_edge.maker < 0:  # into the body of a shard_map
        owner = structure.regions[value_on_edge.region].parent
        return owner, structure.ops[owner].operands[value_on_edge.result : value_on_edge.result + 1]
    made_by = structure.ops[value_on_edge.maker]
    operands = made_by.operands[value_on_edge.result : value_on_edge.result + 1] if made_by.kind in ("stablehlo.while", _BARRIER) else ()
    return value_on_edge.maker, (*operands, *(yields(value_on_edge.maker, value_on_edge.result) if made_by.kind != _BARRIER else ()))


def project_axes(dims: Dims, mapping: Factors, sizes: Mapping[str, int], mesh: Mesh) -> dict[str, tuple[str, ...]]:
    """The axes of each factor of a tensor: a dimension of several factors fills them from the major one on, splitting
    axes where necessary.

    >>> project_axes((("x",), ("y",)), (("i", "j"), ("k",)), {"i": 2, "j": 4, "k": 4}, Mesh("x:4 y:2"))
    {'i': ('x:(1)2',), 'j': ('x:(2)2',), 'k': ('y',)}
    """
    axes_of_factor: dict[str, tuple[str, ...]] = {}
    for axes, factors in zip(dims, mapping, strict=False):
        remaining = list(axes)
        for factor in factors[:-1]:
            axes_taken, room = [], sizes[factor]
            while remaining and room > 1:
                size = axis_size(remaining[0], mesh)
                part = math.gcd(size, room)
                if part == 1:
                    break
                if part < size:
                    first, remaining[0] = _split_axis(remaining[0], part, mesh)
                    axes_taken.append(first)
                    room = 1 if part == room else 0
                    break
                axes_taken.append(remaining.pop(0))
                room //= size
            axes_of_factor[factor] = tuple(axes_taken)
        if factors:
            axes_of_factor[factors[-1]] = tuple(remaining)
    return axes_of_factor


def _split_axis(axis: str, part: int, mesh: Mesh) -> tuple[str, str]:
    base, pre_size, size = parse_sub_axis(axis) or SubAxis(axis, 1, mesh[axis])
    return str(SubAxis(base, pre_size, part)), str(SubAxis(base, pre_size * part, size // part))
