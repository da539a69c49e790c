"""Planned and compiled collectives side by side."""

from dataclasses import replace

from tests.support.programs import mlp_report
from workbench.analysis.compared_figures import CollectiveRow
from workbench.analysis.tier_comparison import compare_collectives
from workbench.reports.collective import Collective


def report(*volumes):
    """A report of collectives `(kind, axes, payload)`."""
    return replace(mlp_report(), collectives=tuple(Collective(kind, axes, payload, 0, 1, "p", "s") for kind, axes, payload in volumes))


def test_an_all_reduce_stands_for_a_reduce_scatter_of_the_same_payload():
    planned = report(("reduce-scatter", ("data",), 100), ("all-reduce", ("data",), 20))
    (row,) = compare_collectives(planned, {(("data",), "all-reduce"): 120})
    assert row == CollectiveRow(("data",), "reduce", 120, 120)
    assert row.agrees


def test_what_only_one_of_them_has_is_a_row_of_its_own_heaviest_first():
    rows = compare_collectives(report(("all-gather", ("model",), 8)), {(("data",), "all-to-all"): 9})
    assert rows == (CollectiveRow(("data",), "all-to-all", 0, 9), CollectiveRow(("model",), "all-gather", 8, 0))
    assert not any(row.agrees for row in rows)


def test_axes_are_compared_in_mesh_order_and_sub_axes_as_their_axis():
    (row,) = compare_collectives(report(("all-gather", ("model", "data:(1)2"), 8)), {(("data", "model"), "all-gather"): 8})
    assert row.axes == ("data", "model")
    assert row.agrees


def test_a_collective_along_one_axis_is_not_one_along_another():
    rows = compare_collectives(report(("all-reduce", ("data",), 8)), {(("model",), "all-reduce"): 8})
    assert [row.agrees for row in rows] == [False, False]
