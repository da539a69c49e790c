"""The optimum of a small graph by a constraint solver (CP-SAT), with the lower bound that it proves.

One boolean per strategy, exactly one per node, and one per pair of strategies of an edge; the sums of the pairs over
either end equal the booleans of the strategies (the local polytope, exact for trees). Costs that are not integers are
rounded, and the bound allows for the rounding error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

import numpy as np
from ortools.sat.python import cp_model

from workbench.search.per_operation.choice_problem import ChoiceGraph, Floats

_LARGEST = 2.0**52  # of a sum of rounded costs


@dataclass(frozen=True, slots=True)
class ExactChoice:
    """The strategy of each node, if found, and a lower bound on the cost: infinite if infeasible."""

    chosen: dict[int, int] | None
    bound: float
    is_proven: bool


def solve_exactly(
    graph: ChoiceGraph, left: Floats, hint: Mapping[int, int] | None = None, effort: float = 1.0, seconds: float = np.inf
) -> ExactChoice:
    """Minimize the cost of `graph` with memory at time t within `left[t]`.

    CP-SAT runs for at most `effort` (its deterministic seconds). `seconds` limits the whole call, including building
    the model; if that takes longer, nothing is solved. `hint` has strategies for some of the nodes.
    """
    start = monotonic()
    model = _ExactModel(graph)
    model.limit_memory(left)
    if hint:
        model.hint(hint)
    if (left_seconds := seconds - (monotonic() - start)) <= 0:
        return ExactChoice(None, -np.inf, is_proven=False)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = effort
    solver.parameters.max_time_in_seconds = left_seconds
    solver.parameters.linearization_level = 2
    solver.parameters.relative_gap_limit = 0.0
    status = solver.solve(model.model)
    if status == cp_model.INFEASIBLE:
        return ExactChoice(None, np.inf, is_proven=True)
    bound = model.cost_of(solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ExactChoice(None, bound, is_proven=False)
    return ExactChoice(model.read(solver), bound, status == cp_model.OPTIMAL)


class _ExactModel:
    def __init__(self, graph: ChoiceGraph) -> None:
        self.graph, self.model = graph, cp_model.CpModel()
        self.terms = len(graph.costs) + sum(map(len, graph.edges.values())) // 2
        self.scale = _scale(graph)
        self.taken = {node: [self.model.new_bool_var("") for _ in costs] for node, costs in graph.costs.items()}
        variables: list[cp_model.IntVar] = []
        coefficients: list[int] = []
        for node, costs in graph.costs.items():
            self.model.add_exactly_one(self.taken[node])
            for variable, cost in zip(self.taken[node], costs, strict=True):
                self._add_cost(variable, cost, variables, coefficients)
        for first, others in graph.edges.items():
            for second, costs in others.items():
                if first < second:
                    self._add_edge(first, second, costs, variables, coefficients)
        self.model.minimize(cp_model.LinearExpr.weighted_sum(variables, coefficients))

    def _add_cost(self, variable: cp_model.IntVar, cost: float, variables: list[cp_model.IntVar], coefficients: list[int]) -> None:
        if cost == np.inf:
            self.model.add(variable == 0)
        elif cost:
            variables.append(variable)
            coefficients.append(round(cost * self.scale))

    def _add_edge(self, first: int, second: int, costs: Floats, variables: list[cp_model.IntVar], coefficients: list[int]) -> None:
        pairs = np.empty(costs.shape, object)
        for index in np.argwhere(costs < np.inf):
            pairs[tuple(index)] = self.model.new_bool_var("")
            self._add_cost(pairs[tuple(index)], costs[tuple(index)], variables, coefficients)
        for variable, row in [*zip(self.taken[first], pairs, strict=True), *zip(self.taken[second], pairs.T, strict=True)]:
            self.model.add(cp_model.LinearExpr.sum([pair for pair in row if pair is not None]) == variable)

    def limit_memory(self, left: Floats) -> None:
        for time, capacity in enumerate(left):
            variables, coefficients = [], []
            for node, usages in self.graph.usages.items():
                live = [usage for (start, end), usage in usages.items() if start <= time < end]
                for variable, amount in zip(self.taken[node], np.sum(live, 0) if live else [], strict=False):
                    if amount:
                        variables.append(variable)
                        coefficients.append(int(amount))
            self.model.add(cp_model.LinearExpr.weighted_sum(variables, coefficients) <= int(np.floor(capacity)))

    def hint(self, chosen: Mapping[int, int]) -> None:
        for node, strategy in chosen.items():
            for index, variable in enumerate(self.taken[node]):
                self.model.add_hint(variable, index == strategy)

    def read(self, solver: cp_model.CpSolver) -> dict[int, int]:
        return {
            node: next(index for index, variable in enumerate(variables) if solver.boolean_value(variable))
            for node, variables in self.taken.items()
        }

    def cost_of(self, objective: float) -> float:
        """Lower bound on the true cost of all choices whose rounded cost is at least `objective`."""
        slack = 0.0 if self.scale == 1.0 else 0.5 * self.terms
        return self.graph.constant + (objective - slack) / self.scale


def _scale(graph: ChoiceGraph) -> float:
    tables = [*graph.costs.values(), *(costs for node, others in graph.edges.items() for other, costs in others.items() if node < other)]
    finite = [table[table < np.inf] for table in tables]
    total = sum(float(values.max(initial=0.0)) for values in finite)
    whole = all((values == np.round(values)).all() for values in finite)
    return 1.0 if (whole and total < _LARGEST) or not total else float(2.0 ** np.floor(np.log2(_LARGEST / 16 / total)))
