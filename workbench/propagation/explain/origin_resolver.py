"""Whose an axis is that was there before the first step: the user's statement, or a line of the function."""

from workbench.core.paths import matches
from workbench.core.selectors import operations_at
from workbench.core.sharding import Sharding
from workbench.core.tensor import Tensor
from workbench.plan.plan import Plan
from workbench.propagation.explain.factor_graph import FactorGraph
from workbench.propagation.explain.origins import Recorded
from workbench.propagation.module.statements import result_shardings
from workbench.reports.propagation import AxisOnDim, Origin

_CONSTRAINT = "sdy.sharding_constraint"
_MANUAL = "sdy.manual_computation"
_EDGE = "sdy.data_flow_edge"


class OriginResolver:
    """Names the origin of what stands at a point, by what kind of value it is."""

    def __init__(self, plan: Plan, recorded: Recorded, links: FactorGraph) -> None:
        self._plan, self._recorded, self._links = plan, recorded, links
        self._arguments = {value: i for i, value in enumerate(recorded.structure.arguments)}
        self._results = {value: i for i, value in enumerate(recorded.results)}
        self._inserted = {each.result: each for each in recorded.inserted}
        self._asked_of_results, self._carried = result_shardings(plan), dict(plan.program.carried)

    def origin(self, point: AxisOnDim) -> Origin:
        """Whose `point` is; nothing was handed on to it."""
        program = self._plan.program
        if point.value in self._arguments:
            return self._of_tensor("argument", program.arguments[self._arguments[point.value]], point)
        if point.value in self._results:
            return self._of_result(self._results[point.value], point)
        return self._of_constraint(point.value, point) or self._of_region(point) or Origin("sharding group", point, "", "sharding group")

    def _of_tensor(self, kind: str, tensor: Tensor, point: AxisOnDim) -> Origin:
        """By the override that it has, or the rule of its dimension."""
        layout = self._plan.layout
        if (override := layout.override(tensor.path)) is not None:
            pattern = next(each for each, _ in reversed(layout.overrides) if matches(each, tensor.path))
            return Origin(kind, point, tensor.path, f"{pattern}={override}", priority=_priority(override, point))
        dim = tensor.dims[point.dim] if point.dim < len(tensor.dims) else ""
        axes, priority = layout.rule(dim), layout.priority(dim)
        statement = f"{dim}:{'+'.join(axes)}" + (f" p{priority}" if priority else "")
        return Origin(kind, point, tensor.path, statement, priority=priority)

    def _of_result(self, place: int, point: AxisOnDim) -> Origin:
        program = self._plan.program
        if place in self._carried:  # it lies as the argument that it becomes
            return self._of_tensor("result", program.arguments[self._carried[place]], point)
        return self._of_tensor("result", program.results[place], point)

    def _of_constraint(self, value: int, point: AxisOnDim) -> Origin | None:
        if value in self._inserted:
            return self._of_statement(self._inserted[value].operand, point)
        structure = self._recorded.structure
        born = structure.values[value].born if value < len(structure.values) else -1
        if born < 0 or structure.ops[born].kind != _CONSTRAINT:
            return None
        operation = self._plan.program.operations[born]
        return Origin("own constraint", point, operation.path, "with_sharding_constraint", operation.source)

    def _of_statement(self, operand: int, point: AxisOnDim) -> Origin | None:
        """The constraint of the layout that was inserted behind a value."""
        while operand in self._inserted:
            operand = self._inserted[operand].operand
        program, structure = self._plan.program, self._recorded.structure
        born = structure.values[operand].born
        if structure.ops[born].kind == _EDGE:  # of what a loop or barrier hands on
            born = structure.values[structure.ops[born].operands[0]].born
        for pattern, sharding in reversed(self._plan.layout.constraints):
            if born in operations_at(program, pattern, len(sharding.dims)):
                path = program.operations[born].path
                return Origin("constraint", point, path, f"@{pattern}={sharding}", priority=_priority(sharding, point))
        return None

    def _of_region(self, point: AxisOnDim) -> Origin | None:
        """What a `shard_map` lets in and out."""
        structure, operations = self._recorded.structure, self._plan.program.operations
        for number in self._links.of_value.get(point.value, ()):
            link = self._links.links[number]
            if link.op >= 0 and link.values[-1] == point.value and structure.ops[link.op].kind == _MANUAL:
                return Origin("shard_map", point, operations[link.op].path, "shard_map", operations[link.op].source)
        return None

    def is_asked(self, point: AxisOnDim) -> bool:
        """Whether the plan or the function itself put the axis there; what else has it got it from somewhere."""
        value, structure = point.value, self._recorded.structure
        if value in self._arguments:
            return _has(self._plan.argument_shardings[self._arguments[value]], point)
        if value in self._results:
            asked = self._asked_of_results.get(self._results[value])
            return asked is not None and _has(asked, point)
        if value in self._inserted:
            return self._inserted[value].kind == _CONSTRAINT
        born = structure.values[value].born
        return born >= 0 and (structure.ops[born].kind == _CONSTRAINT or self._of_region(point) is not None)


def _has(sharding: Sharding, point: AxisOnDim) -> bool:
    return point.dim < len(sharding.dims) and point.axis in (sharding.dims[point.dim] or ())


def _priority(sharding: Sharding, point: AxisOnDim) -> int:
    return sharding.priority(point.dim) if point.dim < len(sharding.dims) else 0
