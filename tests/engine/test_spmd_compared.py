"""What is predicted of a pipeline in step is of the program that runs: collectives and memory as compiled on eight CPU devices."""

import functools

import pytest

from tests.support.choosing import parametrize_drawn
from workbench.analysis.compiled_report import with_compiled
from workbench.analysis.tier_comparison import Comparison
from workbench.engine.compile.compile_in_process import compile_here
from workbench.models import gpt
from workbench.public_plan import Plan

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
    permutes = [each for each in comparison.report.collectives if each.kind == "collective-permute" and each.axes == ("stage",)]
    compiled = [each for each in comparison.compiled.collectives if each.kind == "collective-permute" and each.axes == ("stage",)]
    assert sum(each.count for each in permutes) == sum(each.count for each in compiled)


def test_memory_and_products_are_those_of_the_shifting_buffer(comparison):
    figures = {each.name: each for each in comparison.figures}
    assert figures["peak memory"].predicted == pytest.approx(figures["peak memory"].compiled, rel=0.1)
    assert figures["arguments"].predicted == figures["arguments"].compiled
    assert figures["products"].predicted == figures["products"].compiled
    assert figures["peak memory"].predicted == comparison.report.peak


def test_what_is_shown_is_of_the_one_program(comparison):
    """Not of stages that are programs of their own: no device runs these."""
    report = comparison.report
    assert report.is_one_program
    assert report.stages == (report,)
    assert report.pipeline.simulated.peaks != (report.peak,) * report.plan.pipeline.stages
    assert sum(alive.bytes for alive in report.alive) == report.peak
    assert not [note for note in report.notes if note.kind == "not in step"]


def test_the_compiled_figures_take_the_place_of_the_planned_ones(comparison):
    settled = with_compiled(comparison.report, comparison.compiled)
    assert settled.tier == "compiled"
    assert settled.peak == comparison.compiled.memory.peak


def test_a_remedy_is_an_edit_of_the_plan_itself(comparison):
    report = comparison.report
    edits = [edit for note in report.notes for edit in note.edits]
    edits += [remedy.edit for reshard in report.reshards[:3] for remedy in reshard.remedies]
    for edit in edits:
        report.plan.apply(edit)
