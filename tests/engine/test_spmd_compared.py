"""What is predicted of a pipeline in step is of the program that runs: collectives and memory as compiled on eight CPU devices."""

import functools

import pytest

from tests.support.choosing import parametrize_drawn
from workbench.analysis.tier_comparison import Comparison
from workbench.engine.compile.compile_in_process import compile_here
from workbench.models.gpt import gpt
from workbench.plan.plan import Plan

pytestmark = pytest.mark.compile

MEGATRON = "batch:data; d_ff:model; heads:model"
CASES = [
    ("stages:2 micro_batches:4 schedule:gpipe", "stage:2 data:2 model:2", MEGATRON),
    ("stages:2 micro_batches:4 schedule:circular chunks:2", "stage:2 data:2 model:2", MEGATRON),
    ("stages:4 micro_batches:4 schedule:gpipe remat:never", "stage:4 data:2", "batch:data"),
]


def pytest_generate_tests(metafunc):
    """One of them in every run, the same for all tests."""
    parametrize_drawn(metafunc, "case", CASES, lambda _: (), lambda case: case[0])


@pytest.fixture
def comparison(case) -> Comparison:
    return compared(*case)


@functools.cache
def compared(pipeline: str, mesh: str, layout: str) -> Comparison:
    plan = Plan(gpt.build(layers=4, seq=32, batch=8), mesh, layout, pipeline=f"{pipeline} engine:spmd")
    return Comparison(plan.report(), compile_here(plan, keep=False))


def test_collectives_are_predicted_by_class_and_axis(comparison):
    rows = {(row.axes, row.kind): row for row in comparison.collectives}
    assert [row for row in rows.values() if not row.agrees] == []
    assert rows[("stage",), "collective-permute"].compiled > 0
    assert {each.cause.name for each in comparison.differences} <= {"combined"}


def test_permutes_are_as_many_as_the_buffer_shifts(comparison):
    """The stream, the buffer and their gradients, once in each turn of the loop."""
    ran = comparison.report.as_run
    permutes = [each for each in ran.collectives if each.kind == "collective-permute" and each.axes == ("stage",)]
    compiled = [each for each in comparison.compiled.collectives if each.kind == "collective-permute" and each.axes == ("stage",)]
    assert sum(each.count for each in permutes) == sum(each.count for each in compiled)


def test_memory_and_products_are_those_of_the_shifting_buffer(comparison):
    figures = {each.name: each for each in comparison.figures}
    assert figures["peak memory"].predicted == pytest.approx(figures["peak memory"].compiled, rel=0.1)
    assert figures["arguments"].predicted == figures["arguments"].compiled
    assert figures["products"].predicted == figures["products"].compiled
    assert comparison.report.as_run.memory.peak != comparison.report.memory.peak


def test_a_plan_of_one_program_runs_as_it_is():
    report = Plan(gpt.build(layers=4, seq=32, batch=8), "data:8", "batch:data").report()
    assert report.as_run is report
