"""Instances of the contest are read; what is not one is refused.

`iopddl_example.json` is the example of https://github.com/google/iopddl (Apache License 2.0).
"""

import copy
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.contest_file import problem_from_contest, read_contest_file
from workbench.errors import SearchError

EXAMPLE = Path(__file__).with_name("iopddl_example.json")


def changed(path, value):
    """The example with another value at `path`."""
    document = copy.deepcopy(json.loads(EXAMPLE.read_text()))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return document


def test_the_example_is_read():
    problem = read_contest_file(EXAMPLE)
    assert (problem.name, len(problem.nodes), len(problem.edges), problem.usage_limit) == ("example", 5, 5, 50)
    assert (problem.nodes[2].start, problem.nodes[2].end, problem.nodes[2].usages.tolist()) == (50, 120, [15, 20, 15])
    assert problem.edges[2].costs.tolist() == [[90, 10], [20, 80]]


def test_a_compressed_file_is_the_same(tmp_path):
    path = tmp_path / "example.json.gz"
    path.write_bytes(gzip.compress(EXAMPLE.read_bytes()))
    assert [each.costs.tolist() for each in read_contest_file(path).edges] == [
        each.costs.tolist() for each in read_contest_file(EXAMPLE).edges
    ]


def test_the_contests_forbidden_is_infinite():
    assert problem_from_contest(changed(("problem", "nodes", "costs", 1), [10**18, 7])).nodes[1].costs.tolist() == [np.inf, 7]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (
            ("problem", "nodes"),
            {"intervals": []},
            "An entry of the contest's form is missing or not an object: 'costs'.\n"
            "  Try: give `problem` with `nodes` (`intervals`, `costs`, `usages`) and `edges` (`nodes`, `costs`).",
        ),
        (
            ("problem", "nodes", "costs"),
            [[1]],
            "The contest's nodes have 5 intervals, 1 costs, 5 usages.\n  Try: give as many of each.",
        ),
        (("problem", "edges", "costs"), [[1]], "The contest's edges have 5 nodes, 1 costs.\n  Try: give as many of each."),
        (
            ("problem", "nodes", "intervals", 1),
            [3],
            "The interval of node 1 is [3].\n  Try: give two times, [start, end).",
        ),
        (
            ("problem", "edges", "nodes", 1),
            [0, 9],
            "Edge 1 joins [0, 9], and there are 5 nodes.\n  Try: give the numbers of two nodes, from 0.",
        ),
        (
            ("problem", "edges", "costs", 2),
            [1, 2, 3],
            "Edge 2 joins nodes 1 and 3 of 2 and 2 strategies, and has 3 costs.\n  Try: give 2 x 2 = 4.",
        ),
    ],
)
def test_another_form_is_refused(path, value, text):
    with pytest.raises(SearchError) as error:
        problem_from_contest(changed(path, value))
    assert str(error.value) == text


def test_a_file_is_named_in_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(SearchError) as error:
        read_contest_file(path)
    assert str(error.value) == (
        "a.json is not JSON, plain or gzip: Expecting property name enclosed in double quotes: line 1 column 2 (char 1).\n"
        "  Try: give an instance of the IOPDDL contest."
    )
    path.write_text(json.dumps(changed(("problem", "nodes", "intervals", 1), [3])))
    with pytest.raises(SearchError) as error:
        read_contest_file(path)
    assert str(error.value) == "a.json: The interval of node 1 is [3].\n  Try: give two times, [start, end)."
