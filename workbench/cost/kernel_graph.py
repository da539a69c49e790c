"""The graph of a partitioned step: kernels with costs as nodes, edges through free operations and loops."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from workbench.core.mesh import Mesh
from workbench.core.program import Program
from workbench.core.sharding import Sharding, axis_size, base_axis
from workbench.core.tensor import Role
from workbench.cost.fusion.kernel_table import Kernels
from workbench.cost.simulate_overlap import SimulatedStep
from workbench.propagation import Propagated, value_names
from workbench.propagation.shardy_collectives import InsertedCollective
from workbench.reports.collective import sent_bytes
from workbench.reports.kernel import Graph, GraphNode, GraphSend


def graph_of(
    program: Program,
    partitioned: Propagated,
    kernels: Kernels,
    mesh: Mesh,
    busy: Sequence[float] | NDArray[np.float64] = (),
    simulated: SimulatedStep | None = None,
) -> Graph:
    """Return the graph; `busy`, seconds of one execution of each kernel, and `simulated` need hardware."""
    flow = _Flow(program, partitioned, kernels)
    flops = [0] * kernels.count
    for op, count in partitioned.local_flops.items():
        if kernels.of[op] >= 0:
            flops[kernels.of[op]] += count
    largest = {dot.kernel: dot.op for dot in sorted(kernels.dots, key=lambda dot: partitioned.local_flops.get(dot.op, 0))}
    nodes = (
        *(
            _make_node(number, largest.get(number, kernels.ops[number]), program, partitioned, kernels, flops[number], busy)
            for number in range(kernels.count)
        ),
        *(_make_input(program, partitioned, argument) for argument in flow.inputs),
    )
    return Graph(nodes, flow.edges(), tuple(_list_sends(program, partitioned, flow, mesh, simulated)))


def _make_node(
    number: int,
    op: int,
    program: Program,
    partitioned: Propagated,
    kernels: Kernels,
    flops: int,
    busy: Sequence[float] | NDArray[np.float64],
) -> GraphNode:
    operation, count = program.operations[op], int(kernels.times[number])
    results = partitioned.structure.ops[op].results
    dims = partitioned.dims[results[0]] if results else None
    sharding = Sharding.whole(len(operation.shape)) if dims is None else Sharding(dims)
    seconds = float(busy[number]) * count if len(busy) else 0.0
    shape, names = operation.shape, operation.dims
    return GraphNode(
        operation.path, operation.kind, operation.source, count, shape, operation.dtype, names, sharding, seconds, flops * count
    )


def _make_input(program: Program, partitioned: Propagated, argument: int) -> GraphNode:
    number = partitioned.structure.arguments[argument]
    tensor, dims, value = program.arguments[argument], partitioned.dims[number], partitioned.structure.values[number]
    rank = len(value.shape)
    sharding = Sharding.whole(rank) if dims is None else Sharding(dims)
    return GraphNode(tensor.path, "input", "", 1, value.shape, value.dtype, value_names(tensor, rank), sharding, is_input=True)


class _Flow:
    """Maps values to the nodes they come from: kernels by number, then inputs of the step."""

    def __init__(self, program: Program, partitioned: Propagated, kernels: Kernels) -> None:
        self._structure, self._kernels = partitioned.structure, kernels
        self.inputs = tuple(i for i, tensor in enumerate(program.arguments) if tensor.role is Role.INPUT)
        self._nodes = {self._structure.arguments[argument]: kernels.count + place for place, argument in enumerate(self.inputs)}
        self._last: dict[int, int] = {}  # region -> last operation, which returns its results
        for index, op in enumerate(self._structure.ops):
            self._last[op.region] = index
        self._inner: dict[int, list[int]] = {}  # loop or branch -> regions
        for number, region in enumerate(self._structure.regions):
            self._inner.setdefault(region.parent, []).append(number)
        self._known: dict[int, tuple[int, ...]] = {}

    def edges(self) -> tuple[tuple[int, int], ...]:
        pairs: dict[tuple[int, int], None] = {}
        for index, op in enumerate(self._structure.ops):
            if (reader := self._kernels.of[index]) >= 0:
                for operand in op.operands:
                    pairs.update(dict.fromkeys((maker, reader) for maker in self.makers(operand) if maker != reader))
        return tuple(pairs)

    def makers(self, value: int) -> tuple[int, ...]:
        """Return the nodes that a value comes from; iterative, because chains may be thousands long."""
        entered: dict[int, tuple[tuple[int, ...], Iterator[int]]] = {}  # breaks cycles of loop-carried values
        pending = [value]
        while pending:
            current = pending[-1]
            if current in self._known:
                pending.pop()
                continue
            if current not in entered:
                sources = tuple(self._sources(current))
                entered[current] = sources, iter(sources)
            sources, remaining = entered[current]
            if (
                source := next((candidate for candidate in remaining if candidate not in self._known and candidate not in entered), None)
            ) is not None:
                pending.append(source)
            else:
                of_sources = (node for source in sources for node in self._known.get(source, ()))
                self._known[current] = tuple(dict.fromkeys((*self._node(current), *of_sources)))
        return self._known[value]

    def _node(self, value: int) -> tuple[int, ...]:
        maker = self._structure.values[value].maker
        if maker < 0:
            return (self._nodes[value],) if value in self._nodes else ()
        return (self._kernels.of[maker],) if self._kernels.of[maker] >= 0 else ()

    def _sources(self, value: int) -> Iterator[int]:
        record = self._structure.values[value]
        if self._node(value):
            return
        if record.maker < 0:
            operands = self._structure.ops[self._structure.regions[record.region].parent].operands if record.region else ()
            yield from operands[record.result : record.result + 1]  # an argument of a loop's body
        elif record.maker in self._inner:
            for region in self._inner[record.maker]:
                returned = self._structure.ops[self._last[region]].operands
                if len(returned) == len(self._structure.ops[record.maker].results):
                    yield returned[record.result]
        else:
            yield from self._structure.ops[record.maker].operands

    def maker_of(self, send: InsertedCollective) -> int:
        if send.source is None:
            return -1
        kernel = self._kernels.of[send.source]
        results = self._structure.ops[send.source].results
        return kernel if kernel >= 0 else next(iter(self.makers(results[0])), -1) if results else -1

    def reader_of(self, send: InsertedCollective) -> int:
        """Return the kernel that reads a collective's result: at its operation, or the first later one in the region."""
        if self._kernels.of[send.before] >= 0:
            return self._kernels.of[send.before]
        ops = self._structure.ops
        region, results = ops[send.before].region, set(ops[send.before].results)
        for index in range(send.before + 1, min(send.before + 200, len(ops))):
            if ops[index].region == region and results & set(ops[index].operands):
                if self._kernels.of[index] >= 0:
                    return self._kernels.of[index]
                results |= set(ops[index].results)
        return -1


def _list_sends(program: Program, partitioned: Propagated, flow: _Flow, mesh: Mesh, simulated: SimulatedStep | None) -> Iterator[GraphSend]:
    times = [region.runs_per_step for region in partitioned.structure.regions]
    durations, waits = _send_seconds(partitioned, simulated)
    for number, collective in enumerate(partitioned.reshards):
        operation, count = program.operations[collective.sender], times[collective.region]
        devices = math.prod(axis_size(axis, mesh) for axis in collective.axes)
        yield GraphSend(
            collective.kind,
            tuple(dict.fromkeys(map(base_axis, collective.axes))),
            flow.maker_of(collective),
            flow.reader_of(collective),
            operation.path,
            operation.source,
            count,
            sent_bytes(collective.kind, collective.payload, devices) * count,
            durations.get(number, 0.0) * count,
            waits.get(number, 0.0) * count,
        )


def _send_seconds(partitioned: Propagated, simulated: SimulatedStep | None) -> tuple[dict[int, float], dict[int, float]]:
    durations: dict[int, float] = {}
    waits: dict[int, float] = {}
    if simulated is not None:
        for region in range(len(partitioned.structure.regions)):
            numbers = simulated.reshards[region]
            durations.update(zip(numbers, (send.seconds for send in simulated.sends[region]), strict=True))
            waits.update(zip(numbers, simulated.turns[region].waits, strict=True))
    return durations, waits
