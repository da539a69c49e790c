"""A traced program as the per-operation problem: a node per operation, with its splits over one mesh axis as
strategies.

The planner provides the facts: Shardy's sharding rules give the splits; compute costs are the kernel times of the plan
without the axis, divided where the operation is split; the hardware links price sums and reshards. If one operation
writes a value in another sharding than the next one reads, a reshard comes between them: a free slice, an all-gather or
an all-to-all. The problem is that of Alpa (Zheng et al. 2022, section 4) and of XLA's auto-sharding.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.core.program import Program
from workbench.core.tensor import Role, itemsize
from workbench.cost.collective_times import collective_seconds
from workbench.cost.estimate import Estimate
from workbench.errors import SearchError
from workbench.hardware.hardware import Hardware
from workbench.propagation import local_shape, structure_of
from workbench.propagation.explain.factor_graph import EDGE, Factors, OperationFactors, list_program_factors
from workbench.search.per_operation.choice_problem import ChoiceEdge, ChoiceNode, ChoiceProblem, Floats

# The ways to run one operation over a mesh axis: replicated, or split along one of its factors.
#
# Factors come from Shardy's sharding rules. A factor missing in the result leaves partial sums: an all-reduce sums them
# everywhere, a reduce-scatter leaves each device a slice. A factor along which windows move needs data of the neighbors
# (collective-permute).


WHOLE = -1
Splits = NDArray[np.int64]
"""Per way, the dimension of a tensor that is split over the axis, or `WHOLE`."""
DOTS = ("dot_general", "convolution")


class OperationStrategies(NamedTuple):
    """Per way: the split of every tensor (operands, then results), whether work is divided, and the collective.

    - `splits` has an array for each tensor; `is_divided`, `sends` and `shares` have a value for each way;
    - `sends`: a sum of the results, a permutation of the first operand, or `""`; `shares`: the share of that tensor
      that is sent.
    """

    splits: tuple[Splits, ...]
    is_divided: NDArray[np.bool_]
    sends: tuple[str, ...]
    shares: NDArray[np.float64]


class _Way(NamedTuple):
    splits: tuple[int, ...]
    is_divided: bool = True
    sends: str = ""
    share: float = 1.0


def list_strategies(operation: OperationFactors, shapes: Sequence[tuple[int, ...]], parts: int) -> OperationStrategies:
    """List the ways of an operation with local tensor `shapes` over an axis of `parts` devices.

    A factor can be split if it is the major factor of every dimension that contains it and the axis divides all of
    these; factors of a sort or a concatenation cannot be split.
    """
    ways = [_Way((WHOLE,) * len(shapes), is_divided=False), *_list_split_ways(operation, shapes, parts)]
    rows, divided, sends, shares = zip(*ways, strict=True)
    return OperationStrategies(tuple(np.array(split) for split in zip(*rows, strict=True)), np.array(divided), sends, np.array(shares))


def _list_split_ways(operation: OperationFactors, shapes: Sequence[tuple[int, ...]], parts: int) -> Iterator[_Way]:
    for factor, size in operation.sizes.items():
        if size == 1 or size % parts or factor in operation.blocked or factor in operation.whole:
            continue
        row = _find_dims(factor, operation.mappings, shapes, parts)
        if row is None:
            continue
        results = row[operation.operands :]
        if factor in operation.permuted:
            yield _Way(row, sends="collective-permute", share=_halo_share(operation, factor, shapes, parts))
        elif not results or max(results) > WHOLE:
            yield _Way(row)
        else:
            yield _Way(row, sends="all-reduce")
            if operation.kind in DOTS:
                yield from (_Way((*row[:-1], dim), sends="reduce-scatter") for dim, local in enumerate(shapes[-1]) if local % parts == 0)


def _halo_share(operation: OperationFactors, factor: str, shapes: Sequence[tuple[int, ...]], parts: int) -> float:
    """Share of the first operand that a device sends: the window's rows for a convolution, else its whole part."""
    if operation.kind != "convolution":
        return 1 / parts
    window = [size for dims, size in zip(operation.mappings[1], shapes[1], strict=True) if not _is_elsewhere(operation, dims)]
    return min(max(window, default=1) / operation.sizes[factor], 1 / parts)


def _is_elsewhere(operation: OperationFactors, factors: tuple[str, ...]) -> bool:
    return any(factor in dims for at, mapping in enumerate(operation.mappings) if at != 1 for dims in mapping for factor in factors)


def _find_dims(factor: str, mappings: Sequence[Factors], shapes: Sequence[tuple[int, ...]], parts: int) -> tuple[int, ...] | None:
    row = []
    for mapping, shape in zip(mappings, shapes, strict=True):
        dims = [dim for dim, factors in enumerate(mapping) if factor in factors]
        if len(dims) > 1 or any(mapping[dim][0] != factor or shape[dim] % parts for dim in dims):
            return None
        row.append(dims[0] if dims else WHOLE)
    return tuple(row)


# The nodes and edges of the problem.


NANOSECONDS = 1e9
"""Unit of costs per second; the solver sometimes rounds them to whole numbers."""
_RESIDENT = 0.01  # tie-breaker: share of a pass over an array that is charged for holding it whole
_SUMS = ("all-reduce", "reduce-scatter")


class NodeSplits(NamedTuple):
    """A node of the problem, and the split of one tensor in each of its strategies."""

    node: int
    splits: Splits


@dataclass(frozen=True, eq=False)
class ProgramProblem:
    """The problem, its `arguments`; by operation the first `results` and, per strategy, collectives (`sums`)."""

    problem: ChoiceProblem
    arguments: tuple[NodeSplits, ...]
    results: dict[int, NodeSplits]
    sums: dict[int, tuple[str, ...]]


def splits_by_hand(program: Program) -> bool:
    """Whether a program contains a `shard_map`, which fixes how operations are split."""
    return "sdy.manual_computation" in structure_of(program).kinds


def make_program_problem(found: Estimate, axis: str) -> ProgramProblem:
    """Make the problem of a plan over a mesh axis that its layout does not use; `found` is the plan's estimate.

    Raises `SearchError` if the plan has no hardware or the program contains a `shard_map`.
    """
    if found.hardware is None or found.times is None:
        raise SearchError("The cost of an operation is unknown: the plan has no hardware.", ['set one, "8 H100"'])
    if splits_by_hand(found.plan.program):
        ways_out = ["use a layout by named dimensions"]
        raise SearchError(f"`{found.plan.program.name}` has a `shard_map`, which fixes the sharding of its operations.", ways_out)
    return _ProblemMaker(found, axis, found.hardware).make()


class _ProblemMaker:
    def __init__(self, found: Estimate, axis: str, hardware: Hardware) -> None:
        self._found, self._plan, self._axis, self._hardware = found, found.plan, axis, hardware
        self._structure, self._parts = found.partitioned.structure, found.plan.mesh[axis]
        self._factors, self._one = list_program_factors(found.plan.program, self._structure)
        dims = found.partitioned.dims
        values = zip(self._structure.values, dims, strict=True)
        self._shapes = [value.shape if at is None else local_shape(value.shape, at, self._plan.mesh) for value, at in values]
        self._bytes = [math.prod(shape) * itemsize(value.dtype) for shape, value in zip(self._shapes, self._structure.values, strict=True)]
        self._dropped = {number for number, at in enumerate(dims) if at is None}
        self._end = max((op.position for op in self._structure.ops), default=0) + 1
        self._nodes: list[ChoiceNode] = []
        self._edges: dict[tuple[int, int], Any] = defaultdict(float)
        self._made: dict[int, NodeSplits] = {}  # by value

    def make(self) -> ProgramProblem:
        arguments = tuple(map(self._add_argument, self._structure.arguments))
        kernels, sums = self._kernel_seconds(), self._present_sums()
        ways = [(item, self._add_operation(item, kernels, sums)) for item in self._factors if not self._dropped.issuperset(item.values)]
        ruleless = list(self._add_ruleless())
        results, sums_of = {}, {}
        for operation, (node, splits) in ways:
            self._connect_operands(operation, node, splits)
            if operation.kind != EDGE and len(operation.values) > operation.operands:
                results[operation.op], sums_of[operation.op] = NodeSplits(node, splits.splits[operation.operands]), splits.sends
        for node, value, region in ruleless:
            self._connect(value, NodeSplits(node, np.array([WHOLE])), self._structure.regions[region].runs_per_step)
        self._connect_carried(arguments)
        self._join_moments(arguments)
        edges = tuple(ChoiceEdge(first, second, costs) for (first, second), costs in self._edges.items())
        return ProgramProblem(ChoiceProblem(tuple(self._nodes), edges, self._hardware.chip.memory), arguments, results, sums_of)

    def _add_node(self, seconds: NDArray[Any], usages: NDArray[Any], start: int = 0, end: int = 0) -> int:
        self._nodes.append(ChoiceNode(np.round(seconds * NANOSECONDS, 3), np.floor(usages), start, end))
        return len(self._nodes) - 1

    def _local_bytes(self, value: int, splits: Splits) -> Floats:
        return self._bytes[value] / np.where(splits == WHOLE, 1, self._parts)

    def _add_argument(self, value: int) -> NodeSplits:
        splits = np.array([WHOLE, *(dim for dim, size in enumerate(self._shapes[value]) if size > 1 and size % self._parts == 0)])
        held = self._local_bytes(value, splits)
        node = self._add_node(held / self._hardware.chip.memory_bandwidth * _RESIDENT, held, 0, self._end)
        self._made[value] = NodeSplits(node, splits)
        return self._made[value]

    def _kernel_seconds(self) -> dict[int, float]:
        """Kernel seconds per step by operation: shared among dots by FLOPs, else for the last operation."""
        kernels, times = self._found.kernels, self._found.times
        assert times is not None
        dots = defaultdict[int, dict[int, int]](dict)
        for dot in kernels.dots:
            dots[dot.kernel][dot.op] = self._structure.ops[dot.op].work.flops
        seconds_of = defaultdict[int, float](float)
        for number, seconds in enumerate((times.busy * kernels.times).tolist()):
            work = dots.get(number, {})
            total = sum(work.values())
            for op, share in [(op, flops / total) for op, flops in work.items()] if total else [(kernels.ops[number], 1.0)]:
                seconds_of[op] += seconds * share
        return seconds_of

    def _present_sums(self) -> dict[tuple[int, int], float]:
        """Seconds of the plan's present communication over other axes, by operation and result. Splits reduce it."""
        seconds_of = defaultdict[tuple[int, int], float](float)
        for reshard, cost in zip(self._found.partitioned.reshards, self._found.costs, strict=True):
            if reshard.source is not None and not reshard.sent_by_operation:
                times = self._structure.regions[reshard.region].runs_per_step if reshard.times is None else reshard.times
                seconds_of[reshard.source, reshard.result] += cost.seconds * times
        return seconds_of

    def _add_operation(
        self, operation: OperationFactors, kernels: dict[int, float], sums: dict[tuple[int, int], float]
    ) -> tuple[int, OperationStrategies]:
        ways = list_strategies(operation, [self._shapes[value] for value in operation.values], self._parts)
        results = list(zip(operation.values, ways.splits, strict=True))[operation.operands :]
        seconds = np.zeros(len(ways.sends))
        if operation.kind != EDGE:
            seconds = (kernels.get(operation.op, 0.0) + self._pass_seconds(operation)) / np.where(ways.is_divided, self._parts, 1)
            if "collective-permute" in ways.sends:
                seconds = seconds + self._permute_seconds(operation.values[0], ways) * self._runs(operation.values[-1])
            for number, (value, splits) in enumerate(results):
                seconds = seconds + self._sum_seconds(value, ways.sends) * self._runs(value)
                seconds = seconds + sums.get((operation.op, number), 0.0) / np.where(splits == WHOLE, 1, self._parts)
        node = self._add_node(seconds, *self._memory_of(operation, results))
        for value, splits in results:
            self._made[value] = NodeSplits(node, splits)
        return node, ways

    def _pass_seconds(self, operation: OperationFactors) -> float:
        """Tie-breaker that favors divided over whole operations in kernels of several operations."""
        size = sum(self._bytes[value] * self._runs(value) for value in operation.values[operation.operands :])
        return size / self._hardware.chip.memory_bandwidth * _RESIDENT

    def _memory_of(self, operation: OperationFactors, results: list[tuple[int, Splits]]) -> tuple[Floats, int, int]:
        """Stored bytes, first and last time. A carried result reuses the memory of its argument."""
        values = self._structure.values
        stored = [pair for pair in results if (values[pair[0]].maker >= 0 if operation.kind == EDGE else values[pair[0]].stored)]
        count = len(results[0][1]) if results else 1
        used = sum((self._local_bytes(value, splits) for value, splits in stored), np.zeros(count))
        start = self._structure.ops[operation.op].position if operation.op >= 0 else 0
        end = max((values[value].last_use for value, _ in stored), default=start)
        return used, start, max(start, end)

    def _runs(self, value: int) -> int:
        return self._structure.regions[self._structure.values[value].region].runs_per_step

    def _sum_seconds(self, value: int, sums: tuple[str, ...]) -> Floats:
        seconds = {kind: self._seconds(kind, self._bytes[value]) for kind in set(sums) if kind in _SUMS}
        return np.array([seconds.get(kind, 0.0) for kind in sums])

    def _permute_seconds(self, value: int, ways: OperationStrategies) -> Floats:
        sent = zip(ways.sends, (self._bytes[value] * ways.shares).tolist(), strict=True)
        return np.array([self._seconds(kind, size) if kind == "collective-permute" else 0.0 for kind, size in sent])

    def _seconds(self, kind: str, payload: float) -> float:
        plan = self._plan
        return collective_seconds(kind, (self._axis,), int(payload), plan.mesh, self._hardware, plan.axis_assignment) if payload else 0.0

    def _add_ruleless(self) -> Iterator[tuple[int, int, int]]:
        """Operations without a sharding rule use whole values; yields operands (node, value, region)."""
        for number in self._structure.ops_without_rule:
            op = self._structure.ops[number]
            for value in op.operands:
                yield self._add_node(np.zeros(1), np.zeros(1)), self._one[value], op.region
            for value in op.results:
                end = max(op.position, self._structure.values[value].last_use)
                node = self._add_node(np.zeros(1), np.array([float(self._bytes[value])]), op.position, end)
                self._made.setdefault(self._one[value], NodeSplits(node, np.array([WHOLE])))

    def _connect_operands(self, operation: OperationFactors, node: int, ways: OperationStrategies) -> None:
        """Reshard operands: once if a loop reads them from outside, every time if it yields them."""
        for value, splits in zip(operation.values[: operation.operands], ways.splits, strict=False):
            runs = self._runs(value)
            if operation.kind != EDGE:
                runs = min(runs, self._structure.regions[self._structure.ops[operation.op].region].runs_per_step)
            self._connect(value, NodeSplits(node, splits), runs)

    def _connect(self, value: int, reader: NodeSplits, runs: int) -> None:
        """Connect a reader to the maker of a value; each device makes constants and iotas itself."""
        maker = self._made.get(value)
        if maker is not None and maker.node != reader.node:
            self._add_edge(maker.node, reader.node, self._reshard_seconds(value, maker.splits, reader.splits) * runs)

    def _reshard_seconds(self, value: int, made: Splits, read: Splits) -> Floats:
        """Reshard seconds per pair of ways: a gather, or an exchange between two dimensions."""
        gather = self._seconds("all-gather", self._bytes[value])
        exchange = self._seconds("all-to-all", self._bytes[value] / self._parts)
        before, after = made[:, None], read[None, :]
        return np.where((before == after) | (before == WHOLE), 0.0, np.where(after == WHOLE, gather, exchange))

    def _add_edge(self, first: int, second: int, seconds: Floats) -> None:
        costs = np.round(seconds * NANOSECONDS, 3)
        pair, costs = ((first, second), costs) if first < second else ((second, first), costs.T)
        self._edges[pair] = self._edges[pair] + costs

    def _connect_carried(self, arguments: tuple[NodeSplits, ...]) -> None:
        """Carried results should have the sharding of the argument that they become."""
        for result, argument in self._plan.program.carried:
            self._connect(self._one[self._structure.returned[result]], arguments[argument], 1)

    def _join_moments(self, arguments: tuple[NodeSplits, ...]) -> None:
        """Force one sharding on a parameter and its moments, which are only read together."""
        tensors = self._plan.program.arguments
        parameters = {tensor.path.partition("/")[2]: number for number, tensor in enumerate(tensors) if tensor.role is Role.PARAMETER}
        for number, tensor in enumerate(tensors):
            words = tensor.path.split("/") if tensor.role is Role.OPTIMIZER_STATE else []
            tails = ("/".join(words[at:]) for at in range(1, len(words)))
            owner = next((parameters[tail] for tail in tails if tail in parameters), None)
            if owner is not None and tensors[owner].shape == tensor.shape and self._is_alike(number, owner):
                count = len(arguments[number].splits)
                self._add_edge(arguments[owner].node, arguments[number].node, np.where(np.eye(count, dtype=bool), 0.0, np.inf))

    def _is_alike(self, one: int, other: int) -> bool:
        return np.array_equal(self._made[self._structure.arguments[one]].splits, self._made[self._structure.arguments[other]].splits)
