"""A comparison finds what differs, and calls its cause by name."""

import functools
from dataclasses import replace

import jax
import pytest

from tests.support.details import with_details
from tests.support.programs import mlp_report
from workbench.analysis.difference_causes import ALL_CAUSES
from workbench.analysis.tier_comparison import Comparison
from workbench.core.sharding import Sharding
from workbench.public_plan import Plan
from workbench.reports.collective import Collective
from workbench.reports.compiled import Compiled, CompiledCollective, CompiledMemory
from workbench.reports.padding import Padding
from workbench.tracing import trace


def spec(shape):
    return jax.ShapeDtypeStruct(shape, "float32")


def planned(kind, axes, payload, count=1, path="layers/dot_general"):
    return Collective(kind, axes, payload, payload, count, path, "model.py:7")


def found(kind, axes, payload, count=1, path="layers/dot_general", **more):
    return CompiledCollective(kind, axes, payload, count, path, "model.py:7", **more)


THIN = Padding("thin/reduce_max", "model.py:9", "reduce", (2,), "float32", Sharding((("data",),)), "rows", 2, ("data",), 4, 1, 4, 4)


@functools.cache
def looped():
    """A plan whose program has a loop."""
    program = trace(
        lambda x, w: jax.lax.scan(lambda x, w: (x @ w, None), x, w)[0], *(spec((8, 16)), spec((3, 16, 16))), dims={"x": "rows _"}
    )
    return Plan(program, "data:4 model:2", "rows:data")


def compared(ours, theirs, *, in_loop=False, target="TPU v5e 2x4"):
    compiled = Compiled(target, 8, 1.0, CompiledMemory(100, 50, 50, 30), tuple(theirs))
    report = with_details(replace(mlp_report(), collectives=tuple(ours)), padding=(THIN,))
    return Comparison(replace(report, plan=looped()) if in_loop else report, compiled)


CASES = {
    "widened": ([planned("all-reduce", ("data",), 100)], [found("all-reduce", ("data",), 200)]),
    "padded": (
        [planned("reduce-scatter", ("data",), 320)],
        [found("reduce-scatter", ("data",), 330), found("collective-permute", ("data",), 9, path="")],
    ),
    "gathered again": ([planned("all-gather", ("data",), 100)], [found("all-gather", ("data",), 100), found("all-gather", ("data",), 100)]),
    "kept": ([planned("all-gather", ("data",), 100), planned("all-gather", ("data",), 100)], [found("all-gather", ("data",), 100)]),
    "moved out of a loop": ([planned("all-gather", ("data",), 100, count=12)], [found("all-gather", ("data",), 100)]),
    "folded": (
        [planned("all-reduce", ("data",), 100), planned("all-reduce", ("model",), 100)],
        [found("all-reduce", ("data", "model"), 100)],
    ),
    "reduced axis by axis": (
        [planned("all-reduce", ("data", "model"), 100)],
        [found("all-reduce", ("data",), 100), found("all-reduce", ("model",), 100)],
    ),
    "borders": ([], [found("collective-permute", ("data",), 8, path="images/conv_general_dilated")]),
    "rewritten first": (
        [planned("collective-permute", ("data",), 8, path="grad/pool/select_and_scatter")],
        [
            found("collective-permute", ("data",), 6, path="grad/pool/pad"),
            found("collective-permute", ("data",), 9, path="grad/pool/slice"),
        ],
    ),
    "narrowed": ([planned("collective-permute", ("data",), 16)], [found("collective-permute", ("data",), 8)]),
    "looked up otherwise": ([], [found("collective-permute", ("data",), 8, path="dispatch/permute/gather")]),
    "not partitioned": ([], [found("all-gather", ("data",), 800, path="head/top_k")]),
    "resharded otherwise": ([planned("all-to-all", ("data",), 100)], [found("all-gather", ("data",), 300)]),
    "cut too fine": ([planned("all-gather", ("data",), 100, path="thin/reduce_max")], []),
    "not sent": ([planned("all-to-all", ("data",), 100)], []),
    "unexplained": ([], [found("all-reduce", ("data",), 9)]),
    "combined": (
        [planned("all-reduce", ("data",), 60), planned("all-reduce", ("data",), 40)],
        [found("all-reduce", ("data",), 100, parts=(60, 40))],
    ),
    "windowed einsum": (
        [planned("all-gather", ("data",), 100)],
        [found("collective-permute", ("data",), 100, part_of="all-gather")],
    ),
}


@pytest.mark.parametrize("cause", CASES)
def test_a_difference_has_its_cause(cause):
    comparison = compared(*CASES[cause], in_loop=cause == "moved out of a loop")
    assert [each.cause.name for each in comparison.differences] == [cause]


def test_a_cpu_rounds_nothing_before_it_sends():
    (only,) = compared(*CASES["narrowed"], target="8 attached cpu").differences
    assert only.cause.name == "resharded otherwise"


def test_borders_that_are_fetched_otherwise_are_called_so_though_none_are_left_on_the_other_side():
    (only,) = compared([planned("collective-permute", ("data",), 8, path="images/conv_general_dilated")], []).differences
    assert only.cause.name == "borders"


def test_what_is_packed_into_one_array_is_combined():
    (only,) = compared(
        [planned("all-reduce", ("data",), 60, count=3), planned("all-reduce", ("data",), 40, count=3)],
        [found("all-reduce", ("data",), 300)],
    ).differences
    assert (only.cause.name, only.predicted, only.compiled) == ("combined", 300, 300)


def test_every_cause_has_its_case():
    assert {cause.name for cause in ALL_CAUSES} == set(CASES)


@pytest.mark.parametrize("cause", ["combined", "windowed einsum"])
def test_another_form_is_no_other_volume(cause):
    (row,) = compared(*CASES[cause]).collectives
    assert row.agrees


def test_what_is_equal_is_not_listed():
    same = compared([planned("reduce-scatter", ("data",), 100, count=3)], [found("all-reduce", ("data",), 100, count=3)])
    assert same.differences == ()
    assert "has exactly the planned collectives" in str(same)


def test_the_bytes_of_all_differences_are_the_difference_of_the_bytes():
    for ours, theirs in CASES.values():
        comparison = compared(ours, theirs)
        rows = sum(row.compiled - row.predicted for row in comparison.collectives)
        assert sum(each.compiled - each.predicted for each in comparison.differences) == rows


def test_a_figure_is_measured_against_the_truest_tier():
    peak = next(each for each in compared([], []).figures if each.name == "peak memory")
    assert (peak.compiled, peak.best_known) == (130, 130)
    assert peak.error == peak.predicted / 130 - 1


def test_the_text_says_what_differs_where_and_why(golden):
    comparison = compared(*CASES["gathered again"])
    golden("comparison.txt", str(comparison))


def test_a_report_alone_compares_nothing():
    assert Comparison(mlp_report()).figures == ()
