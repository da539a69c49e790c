"""Reads the JSON of the IOPDDL contest, plain or compressed by gzip, as a `ChoiceProblem`.

    {"problem": {"name": ..., "usage_limit": 50,
                 "nodes": {"intervals": [[30, 70], ...], "costs": [[15], ...], "usages": [[10], ...]},
                 "edges": {"nodes": [[0, 1], ...], "costs": [[30, 40], ...]}}}

The costs of an edge are in row order: the second node's strategies run fastest. The contest writes 10^18 for what is forbidden.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from workbench.core.parse_untrusted import open_plain
from workbench.errors import SearchError
from workbench.search.per_operation.choice_problem import ChoiceEdge, ChoiceNode, ChoiceProblem, Floats

FORBIDDEN = 1e18


def read_contest_file(path: Path) -> ChoiceProblem:
    """The problem in `path`. Raises `SearchError` where the file is not of the contest's form."""
    with open_plain(path) as file:
        content = file.read()
    try:
        document = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    except (ValueError, OSError, EOFError) as error:
        raise SearchError(f"{path.name} is not JSON, plain or gzip: {error}.", ["give an instance of the IOPDDL contest"]) from None
    try:
        return problem_from_contest(document)
    except SearchError as error:
        raise SearchError(f"{path.name}: {error.message}", error.ways_out) from None


def problem_from_contest(document: Mapping[str, Any]) -> ChoiceProblem:
    """The problem of a parsed document."""
    try:
        problem = document["problem"]
        nodes, edges = problem["nodes"], problem.get("edges", {"nodes": [], "costs": []})
        columns = [nodes["intervals"], nodes["costs"], nodes["usages"]]
        pairs = [edges["nodes"], edges["costs"]]
    except (KeyError, TypeError) as error:
        ways_out = ["give `problem` with `nodes` (`intervals`, `costs`, `usages`) and `edges` (`nodes`, `costs`)"]
        raise SearchError(f"An entry of the contest's form is missing or not an object: {error}.", ways_out) from None
    _verify_lengths("nodes", ("intervals", "costs", "usages"), columns)
    _verify_lengths("edges", ("nodes", "costs"), pairs)
    members = tuple(_node(index, *each) for index, each in enumerate(zip(*columns, strict=True)))
    joined = tuple(_edge(index, ends, costs, members) for index, (ends, costs) in enumerate(zip(*pairs, strict=True)))
    return ChoiceProblem(members, joined, problem.get("usage_limit"), str(problem.get("name", "")))


def _verify_lengths(name: str, parts: tuple[str, ...], columns: list[list[Any]]) -> None:
    lengths = [len(each) for each in columns]
    if len(set(lengths)) > 1:
        listed = ", ".join(f"{length} {part}" for part, length in zip(parts, lengths, strict=True))
        raise SearchError(f"The contest's {name} have {listed}.", ["give as many of each"])


def _node(index: int, interval: list[int], costs: list[float], usages: list[float]) -> ChoiceNode:
    if len(interval) != 2:
        raise SearchError(f"The interval of node {index} is {interval}.", ["give two times, [start, end)"])
    return ChoiceNode(_costs(costs), np.array(usages, np.float64), *map(int, interval))


def _edge(index: int, ends: list[int], costs: list[float], nodes: tuple[ChoiceNode, ...]) -> ChoiceEdge:
    if len(ends) != 2 or not all(0 <= end < len(nodes) for end in ends):
        raise SearchError(f"Edge {index} joins {ends}, and there are {len(nodes)} nodes.", ["give the numbers of two nodes, from 0"])
    shape = (len(nodes[ends[0]].costs), len(nodes[ends[1]].costs))
    if len(costs) != shape[0] * shape[1]:
        message = f"Edge {index} joins nodes {ends[0]} and {ends[1]} of {shape[0]} and {shape[1]} strategies, and has {len(costs)} costs."
        raise SearchError(message, [f"give {shape[0]} x {shape[1]} = {shape[0] * shape[1]}"])
    return ChoiceEdge(ends[0], ends[1], _costs(costs).reshape(shape))


def _costs(values: list[float]) -> Floats:
    costs = np.array(values, np.float64)
    costs[costs >= FORBIDDEN] = np.inf
    return costs
