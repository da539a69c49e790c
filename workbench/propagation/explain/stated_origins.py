"""The origin of an axis that was present before the first step: the user's statement, or a line of the function."""

from workbench.core.path_patterns import matches, operations_at
from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor
from workbench.plan.plan import Plan
from workbench.propagation.explain.factor_graph import FactorGraph
from workbench.propagation.explain.recorded_propagation import RecordedPropagation
from workbench.propagation.module.insert_statements import result_shardings
from workbench.reports.propagation_records import AxisOnDim, Origin

_CONSTRAINT = "sdy.sharding_constraint"
_MANUAL = "sdy.manual_computation"
_EDGE = "sdy.data_flow_edge"


class OriginResolver:
    """Finds the origin of an axis that was not propagated, by the kind of its value."""

    def __init__(self, plan: Plan, recorded: RecordedPropagation, graph: FactorGraph) -> None:
        self._plan, self._recorded, self._graph = plan, recorded, graph
        self._arguments = {value: i for i, value in enumerate(recorded.structure.arguments)}
        self._results = {value: i for i, value in enumerate(recorded.results)}
        self._inserted = {each.result: each for each in recorded.inserted}
        self._stated_results, self._carried = result_shardings(plan), dict(plan.program.carried)

    def find_origin(self, axis_on_dim: AxisOnDim) -> Origin:
        program = self._plan.program
        if axis_on_dim.value in self._arguments:
            return self._tensor_origin("argument", program.arguments[self._arguments[axis_on_dim.value]], axis_on_dim)
        if axis_on_dim.value in self._results:
            return self._result_origin(self._results[axis_on_dim.value], axis_on_dim)
        return (
            self._constraint_origin(axis_on_dim.value, axis_on_dim)
            or self._region_origin(axis_on_dim)
            or Origin("sharding group", axis_on_dim, "", "sharding group")
        )

    def _tensor_origin(self, kind: str, tensor: Tensor, axis_on_dim: AxisOnDim) -> Origin:
        layout = self._plan.layout
        if (override := layout.override_of(tensor)) is not None:
            pattern = next(item for item, stated in reversed(layout.overrides) if matches(item, tensor.path) and stated == override)
            return Origin(kind, axis_on_dim, tensor.path, f"{pattern}={override}", priority=_priority(override, axis_on_dim))
        dim = tensor.dims[axis_on_dim.dim] if axis_on_dim.dim < len(tensor.dims) else ""
        axes, priority = layout.rule(dim), layout.priority(dim)
        statement = f"{dim}:{'+'.join(axes)}" + (f" p{priority}" if priority else "")
        return Origin(kind, axis_on_dim, tensor.path, statement, priority=priority)

    def _result_origin(self, number: int, axis_on_dim: AxisOnDim) -> Origin:
        program = self._plan.program
        if number in self._carried:  # sharded as the argument of the next step
            return self._tensor_origin("result", program.arguments[self._carried[number]], axis_on_dim)
        return self._tensor_origin("result", program.results[number], axis_on_dim)

    def _constraint_origin(self, value: int, axis_on_dim: AxisOnDim) -> Origin | None:
        if value in self._inserted:
            return self._statement_origin(self._inserted[value].operand, axis_on_dim)
        structure = self._recorded.structure
        maker = structure.values[value].maker if value < len(structure.values) else -1
        if maker < 0 or structure.ops[maker].kind != _CONSTRAINT:
            return None
        operation = self._plan.program.operations[maker]
        return Origin("own constraint", axis_on_dim, operation.path, "with_sharding_constraint", operation.source)

    def _statement_origin(self, operand: int, axis_on_dim: AxisOnDim) -> Origin | None:
        while operand in self._inserted:
            operand = self._inserted[operand].operand
        program, structure = self._plan.program, self._recorded.structure
        maker = structure.values[operand].maker
        if structure.ops[maker].kind == _EDGE:  # the edge of a loop or barrier
            maker = structure.values[structure.ops[maker].operands[0]].maker
        for pattern, sharding in reversed(self._plan.layout.constraints):
            if maker in operations_at(program, pattern, len(sharding.dims)):
                path = program.operations[maker].path
                return Origin("constraint", axis_on_dim, path, f"@{pattern}={sharding}", priority=_priority(sharding, axis_on_dim))
        return None

    def _region_origin(self, axis_on_dim: AxisOnDim) -> Origin | None:
        structure, operations = self._recorded.structure, self._plan.program.operations
        for number in self._graph.operations_of.get(axis_on_dim.value, ()):
            op_factors = self._graph.operations[number]
            if op_factors.op >= 0 and op_factors.values[-1] == axis_on_dim.value and structure.ops[op_factors.op].kind == _MANUAL:
                return Origin("shard_map", axis_on_dim, operations[op_factors.op].path, "shard_map", operations[op_factors.op].source)
        return None

    def is_stated(self, axis_on_dim: AxisOnDim) -> bool:
        """Return whether the plan or the function stated the axis there; any other axis was propagated."""
        value, structure = axis_on_dim.value, self._recorded.structure
        if value in self._arguments:
            return _has_axis(self._plan.argument_shardings[self._arguments[value]], axis_on_dim)
        if value in self._results:
            stated = self._stated_results.get(self._results[value])
            return stated is not None and _has_axis(stated, axis_on_dim)
        if value in self._inserted:
            return self._inserted[value].kind == _CONSTRAINT
        maker = structure.values[value].maker
        return maker >= 0 and (structure.ops[maker].kind == _CONSTRAINT or self._region_origin(axis_on_dim) is not None)


def _has_axis(sharding: Sharding, axis_on_dim: AxisOnDim) -> bool:
    return axis_on_dim.dim < len(sharding.dims) and axis_on_dim.axis in (sharding.dims[axis_on_dim.dim] or ())


def _priority(sharding: Sharding, axis_on_dim: AxisOnDim) -> int:
    return sharding.priority(axis_on_dim.dim) if axis_on_dim.dim < len(sharding.dims) else 0
