"""The ways to split an operation over a mesh axis, by Shardy's rules."""

import pytest

from workbench.propagation.explain.factor_graph import OperationFactors
from workbench.search.per_operation.program_problem import WHOLE, OperationStrategies, list_strategies

DOT = OperationFactors(
    0,
    0,
    "dot_general",
    (0, 1, 2),
    2,
    ((("i",), ("k",)), (("k",), ("j",)), (("i",), ("j",))),
    {"i": 8, "j": 16, "k": 4},
    frozenset(),
    frozenset(),
    frozenset(),
)
SHAPES = [(8, 4), (4, 16), (8, 16)]


def rows(ways: OperationStrategies) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(int(each[way]) for each in ways.splits), ways.sends[way]) for way in range(len(ways.sends))]


def test_a_dot_is_split_along_rows_columns_or_what_it_sums():
    ways = list_strategies(DOT, SHAPES, 4)
    assert rows(ways) == [
        ((WHOLE, WHOLE, WHOLE), ""),
        ((0, WHOLE, 0), ""),
        ((WHOLE, 1, 1), ""),
        ((1, 0, WHOLE), "all-reduce"),
        ((1, 0, 0), "reduce-scatter"),
        ((1, 0, 1), "reduce-scatter"),
    ]
    assert ways.is_divided.tolist() == [False, True, True, True, True, True]


def test_what_the_axis_does_not_divide_is_not_split():
    assert rows(list_strategies(DOT, SHAPES, 8)) == [((WHOLE, WHOLE, WHOLE), ""), ((0, WHOLE, 0), ""), ((WHOLE, 1, 1), "")]
    assert rows(list_strategies(DOT, SHAPES, 3)) == [((WHOLE, WHOLE, WHOLE), "")]
    already_split = [(2, 4), (4, 16), (2, 16)]  # rows over another axis of four devices
    assert ((0, WHOLE, 0), "") not in rows(list_strategies(DOT, already_split, 4))


def test_of_a_dimension_of_two_factors_the_major_one_is_split():
    reshape = DOT._replace(kind="reshape", values=(0, 1), operands=1, mappings=((("i", "j"),), (("i",), ("j",))), sizes={"i": 8, "j": 4})
    assert rows(list_strategies(reshape, [(32,), (8, 4)], 4)) == [((WHOLE, WHOLE), ""), ((0, 0), "")]


@pytest.mark.parametrize("kind", ["blocked", "whole"])
def test_what_no_device_can_compute_a_part_of_is_whole(kind):
    assert ((0, WHOLE, 0), "") not in rows(list_strategies(DOT._replace(**{kind: frozenset("i")}), SHAPES, 4))


def test_along_the_windows_of_a_convolution_a_device_sends_as_many_rows_as_they_are_long():
    convolution = OperationFactors(
        0,
        0,
        "convolution",
        (0, 1, 2),
        2,
        ((("i",), ("j",), ("k",)), (("m",), ("k",), ("l",)), (("i",), ("j",), ("l",))),
        {"i": 2, "j": 64, "k": 8, "l": 8, "m": 3},
        frozenset(),
        frozenset(),
        frozenset("j"),
    )
    ways = list_strategies(convolution, [(2, 64, 8), (3, 8, 8), (2, 64, 8)], 8)
    found = dict(zip(rows(ways), ways.shares.tolist(), strict=True))
    assert found[(1, WHOLE, 1), "collective-permute"] == pytest.approx(3 / 64)
    assert found[(2, 1, WHOLE), "all-reduce"] == 1.0
