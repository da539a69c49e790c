"""Small problems of one strategy per node, drawn, and their optimum by trying every choice."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

from workbench.search.per_operation.choice_problem import ChoiceEdge, ChoiceNode, ChoiceProblem, assess, choice_graph
from workbench.search.per_operation.reduce_problem import ReducedProblem, shorten_memory

COSTS = st.sampled_from([0, 0, 1, 2, 3, 5, 8, 20, np.inf])
USAGES = st.integers(0, 6)


@st.composite
def choice_problems(draw, most_nodes=6, costs=COSTS):
    """A problem with at most `most_nodes` nodes of one to four strategies; some have no allowed choice."""
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=most_nodes))
    nodes = tuple(draw(choice_nodes(count, costs)) for count in counts)
    pairs = [(one, other) for one in range(len(counts)) for other in range(len(counts)) if one != other]
    joined = draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []
    edges = tuple(ChoiceEdge(one, other, draw(tables((counts[one], counts[other]), costs))) for one, other in joined)
    return ChoiceProblem(nodes, edges, draw(st.none() | st.integers(0, 14)))


def choice_nodes(count, costs=COSTS):
    return st.builds(ChoiceNode, tables((count,), costs), tables((count,), USAGES), st.integers(0, 6), st.integers(0, 8))


def tables(shape, elements):
    """Arrays of `shape`."""
    size = int(np.prod(shape))
    return st.lists(elements, min_size=size, max_size=size).map(lambda values: np.array(values, np.float64).reshape(shape))


def every_choice(problem):
    return product(*(range(len(node.costs)) for node in problem.nodes))


def least_cost(problem):
    """The cost of the best allowed choice; infinite where there is none."""
    found = (assess(problem, chosen) for chosen in every_choice(problem))
    return min((each.cost for each in found if each.is_feasible), default=np.inf)


def unreduced(problem):
    """The whole problem in the form of a reduced one, with nothing taken away."""
    graph_edges = [{} for _ in problem.nodes]
    for edge in problem.edges:
        known = graph_edges[edge.first].get(edge.second, 0.0)
        graph_edges[edge.first][edge.second] = known + edge.costs
        graph_edges[edge.second][edge.first] = graph_edges[edge.first][edge.second].T
    costs = tuple(node.costs for node in problem.nodes)
    graph = choice_graph(problem)
    memory = shorten_memory(graph, np.inf if problem.usage_limit is None else float(problem.usage_limit))
    return ReducedProblem(costs, tuple(graph_edges), memory, 0.0, graph, tuple(range(len(costs))))
