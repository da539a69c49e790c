"""Shardy's records as a replay: every axis of every value with its origin and the axis propagations that brought it.

Shardy names as the source of an axis the first tensor of the operation that has it on any dimension; here the source is
the tensor that has it on the dimension it propagated along. A sub-axis that grows later (`x:(1)2`, then `x:(1)4`)
arrives whole.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from workbench.core.pause_gc import gc_paused
from workbench.core.sharding import Sharding, axes_overlap
from workbench.plan.plan import Plan
from workbench.propagation.explain.factor_graph import GROUP, RETURN, FactorGraph, OperationFactors, build_factor_graph
from workbench.propagation.explain.recorded_propagation import (
    InsertedOperation,
    PropagationRecord,
    RecordedPropagation,
    Slot,
    record_propagation,
)
from workbench.propagation.explain.rejections import Rejections
from workbench.propagation.explain.stated_origins import OriginResolver
from workbench.propagation.module.infer_dim_names import value_names
from workbench.propagation.module.shardy_attributes import Dims
from workbench.reports.propagation import Propagation
from workbench.reports.propagation_records import ACROSS, BACKWARD, FORWARD, AxisOnDim, AxisPropagation, Conflict, ShardedValue

_INITIAL_STEP = -1  # of axes present before the first step
_STEP_FRACTION = 1 / 16  # of a step: unrecorded propagation happens within it
_UNRECORDED = (RETURN, GROUP, "sharding_constraint")


def propagation_of(plan: Plan, computed: Sequence[Dims | None] = ()) -> Propagation:
    """The replay of a plan's propagation; `computed`: the shardings in which operations compute, if available.

    Raises `PartitionError` with Shardy's message.
    """
    with gc_paused():
        return _replay(plan, computed)


def _replay(plan: Plan, computed: Sequence[Dims | None]) -> Propagation:
    recorded = record_propagation(plan)
    graph = build_factor_graph(plan.program, recorded)
    sharded_values = tuple(_list_values(plan, recorded, graph, computed))
    resolver = OriginResolver(plan, recorded, graph)
    axis_propagations = _AxisPropagations(plan, recorded, graph, resolver).list_in_order()
    reached = {propagation.axis_on_dim for propagation in axis_propagations}
    origins = {
        axis_on_dim: resolver.find_origin(axis_on_dim)
        for value, final_sharding in recorded.final_shardings.items()
        if graph.representative[value] == value
        for axis_on_dim in _axes_on_dims(value, final_sharding.dims)
        if axis_on_dim not in reached
    }
    rejections = Rejections(plan, recorded, graph)

    def conflicts(replay: Propagation) -> tuple[Conflict, ...]:
        with gc_paused():
            return rejections.conflicts(replay)

    return Propagation(
        sharded_values,
        axis_propagations,
        origins,
        tuple(graph.representative),
        rejections.list_rejections,
        rejections.find_connected_origins,
        conflicts,
    )


def _axes_on_dims(value: int, dims: Dims) -> Iterator[AxisOnDim]:
    return (AxisOnDim(value, dim, axis) for dim, axes in enumerate(dims) for axis in axes)


def _list_values(plan: Plan, recorded: RecordedPropagation, graph: FactorGraph, computed: Sequence[Dims | None]) -> Iterator[ShardedValue]:
    """Arguments, intermediate values, values inserted by the plan, and results, by number."""
    program, structure = plan.program, recorded.structure
    arguments = dict(zip(structure.arguments, program.arguments, strict=True))
    shardings: dict[Dims, Sharding] = {}

    def sharding_of(value: int, rank: int) -> Sharding:
        final_sharding = recorded.final_shardings.get(graph.representative[value])
        return sharding(final_sharding.dims if final_sharding else ((),) * rank)

    def sharding(dims: Dims) -> Sharding:
        return shardings.get(dims) or shardings.setdefault(dims, Sharding(dims))

    for value, record in enumerate(structure.values):
        stored = sharding_of(value, len(record.shape))
        if value in arguments:
            tensor = arguments[value]
            yield ShardedValue("argument", tensor.path, "input", record.shape, value_names(tensor, len(record.shape)), "", stored, stored)
        elif record.maker < 0:
            yield ShardedValue("value", "", "block argument", record.shape, ("_",) * len(record.shape), "", stored, stored)
        else:
            operation = program.operations[record.maker]
            names = operation.dims if record.result == 0 else ("_",) * len(record.shape)
            computed_dims = computed[value] if computed else None
            computed_sharding = stored if computed_dims is None else sharding(computed_dims)
            yield ShardedValue("value", operation.path, operation.kind, record.shape, names, operation.source, stored, computed_sharding)
    for inserted_operation in recorded.inserted:
        yield _inserted_value(plan, recorded, inserted_operation, sharding_of)
    for value, returned, tensor in zip(recorded.results, structure.returned, program.results, strict=True):
        shape = structure.values[returned].shape
        stored = sharding_of(value, len(shape))
        yield ShardedValue("result", tensor.path, "result", shape, value_names(tensor, len(shape)), "", stored, stored)


def _inserted_value(
    plan: Plan, recorded: RecordedPropagation, inserted_operation: InsertedOperation, sharding_of: Callable[[int, int], Sharding]
) -> ShardedValue:
    program, structure = plan.program, recorded.structure
    operand_of = {record.result: record.operand for record in recorded.inserted}
    value = inserted_operation.operand
    while value in operand_of:
        value = operand_of[value]
    record, kind = structure.values[value], inserted_operation.kind.partition(".")[2]
    stored = sharding_of(inserted_operation.result, len(record.shape))
    if record.maker < 0:
        tensor = program.arguments[structure.arguments.index(value)]
        return ShardedValue("value", tensor.path, kind, record.shape, value_names(tensor, len(record.shape)), "", stored, stored)
    operation = program.operations[record.maker]
    return ShardedValue("value", operation.path, kind, record.shape, operation.dims, operation.source, stored, stored)


class _AxisPropagations:
    """All axis propagations in step order, counted from 1, each with the tensor it came from.

    Shardy writes no records within a sharding group, and mixes up the records of several results: these axis
    propagations follow immediately when an axis arrives.
    """

    def __init__(self, plan: Plan, recorded: RecordedPropagation, graph: FactorGraph, resolver: OriginResolver) -> None:
        self._plan, self._mesh, self._final_shardings = plan, plan.mesh, recorded.final_shardings
        self._graph, self._resolver = graph, resolver
        found = [(each, operation) for operation in graph.operations for each in recorded.records.get(operation.key, ())]
        self._records = sorted(found, key=lambda pair: pair[0].step)
        self._arrivals: dict[AxisOnDim, float] = {}
        self._unrecorded: set[AxisOnDim] = set()
        self._found: list[tuple[float, AxisPropagation]] = []

    def list_in_order(self) -> tuple[AxisPropagation, ...]:
        targets = [
            (record, operation, slot, axis_on_dim)
            for record, operation in self._records
            for slot in record.targets
            if (axis_on_dim := self._find_target(operation, slot, record))
        ]
        recorded = {axis_on_dim for *_, axis_on_dim in targets}
        initial: list[AxisOnDim] = []
        for value, final_sharding in self._final_shardings.items():
            for axis_on_dim in _axes_on_dims(value, final_sharding.dims):
                if self._graph.representative[value] == value and axis_on_dim not in recorded:
                    (initial.append if self._resolver.is_stated(axis_on_dim) else self._unrecorded.add)(axis_on_dim)
        self._arrivals.update((axis_on_dim, _INITIAL_STEP) for axis_on_dim in initial)
        for axis_on_dim in initial:
            self._follow_unrecorded(axis_on_dim)
        for record, operation, slot, axis_on_dim in targets:
            if axis_on_dim not in self._arrivals and (source := self._find_source(operation, slot, record, axis_on_dim)):
                self._add_axis_propagation(operation, record.step, slot, source, axis_on_dim)
        self._found.sort(key=itemgetter(0))
        numbers = {step: number for number, step in enumerate(dict.fromkeys(step for step, _ in self._found), start=1)}
        return tuple(propagation._replace(step=numbers[step]) for step, propagation in self._found)

    def _add_axis_propagation(
        self, operation: OperationFactors, step: float, slot: Slot, source: tuple[int, int, Slot], axis_on_dim: AxisOnDim
    ) -> None:
        self._arrivals[axis_on_dim] = step
        self._found.append((step, self._make_axis_propagation(operation, slot, source, axis_on_dim)))
        self._follow_unrecorded(axis_on_dim)

    def _follow_unrecorded(self, axis_on_dim: AxisOnDim) -> None:
        """Add the values that receive the axis from here without a record."""
        for number in self._graph.operations_of.get(axis_on_dim.value, ()) if self._unrecorded else ():
            operation = self._graph.operations[number]
            if operation.kind not in _UNRECORDED:
                continue
            giver = operation.values.index(axis_on_dim.value)
            for position, value in enumerate(operation.values):
                to = AxisOnDim(value, axis_on_dim.dim, axis_on_dim.axis)
                if to in self._unrecorded and to not in self._arrivals:
                    step = self._arrivals[axis_on_dim] + _STEP_FRACTION
                    slots = (Slot(index >= operation.operands, index) for index in (position, giver))
                    self._add_axis_propagation(operation, step, next(slots), (axis_on_dim.value, axis_on_dim.dim, next(slots)), to)

    def _find_target(self, operation: OperationFactors, slot: Slot, record: PropagationRecord) -> AxisOnDim | None:
        """The dimension on which an axis ended up in a target tensor; `None` if Shardy dropped it again."""
        value = operation.value_at(slot)
        final_sharding = self._final_shardings.get(value)
        for dim, axes in enumerate(final_sharding.dims if final_sharding else ()):
            if record.axis in axes:
                return AxisOnDim(value, dim, record.axis)
        for dim, axes in enumerate(final_sharding.dims if final_sharding else ()):
            for axis in axes:
                if axes_overlap(axis, record.axis):
                    return AxisOnDim(value, dim, axis)
        return None

    def _find_source(
        self, operation: OperationFactors, slot: Slot, record: PropagationRecord, axis_on_dim: AxisOnDim
    ) -> tuple[int, int, Slot] | None:
        """The tensor that had the axis earlier on a dimension of the same factor, preferably the one Shardy named."""
        factors = set(operation.mappings[operation.position(slot)][axis_on_dim.dim])
        named_position = operation.position(record.source)
        for position in (named_position, *(other for other in range(len(operation.values)) if other != named_position)):
            value = operation.values[position]
            if value == axis_on_dim.value or (final_sharding := self._final_shardings.get(value)) is None:
                continue
            for dim, axes in enumerate(final_sharding.dims):
                if factors.isdisjoint(operation.mappings[position][dim]):
                    continue
                for axis in axes:
                    is_same_axis = axis == axis_on_dim.axis or axes_overlap(axis, axis_on_dim.axis)
                    if is_same_axis and self._arrivals.get(AxisOnDim(value, dim, axis), record.step) < record.step:
                        return value, dim, Slot(position >= operation.operands, position)
        return None

    def _make_axis_propagation(
        self, operation: OperationFactors, slot: Slot, source: tuple[int, int, Slot], axis_on_dim: AxisOnDim
    ) -> AxisPropagation:
        value, dim, giver = source
        direction = ACROSS if giver.is_result == slot.is_result else FORWARD if slot.is_result else BACKWARD
        over, line = operation.name_and_line(self._plan.program)
        return AxisPropagation(0, axis_on_dim.axis, value, dim, axis_on_dim.value, axis_on_dim.dim, over, operation.kind, line, direction)
