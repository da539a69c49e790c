"""A pipeline of separate stages compiled without being run: a record a stage, that of the attached devices, beside what was predicted."""

import importlib.util

import pytest

from tests.support import pipelines
from workbench.analysis.tier_comparison import Comparison
from workbench.documents import compiled_record
from workbench.engine.compile.compile_in_process import compile_here
from workbench.engine.mpmd.aot_compile import compiled_peaks
from workbench.engine.mpmd.mpmd_step import compile_mpmd
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.compiled import Compiled
from workbench.widgets.board.comparison_state import ComparisonState
from workbench.widgets.tabs.picture_tabs import compared_blocks
from workbench.widgets.tabs.table_blocks import Paint

pytestmark = pytest.mark.compile

EVENTS: list[str] = []
needs_libtpu = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="libtpu, the compiler for TPUs, is not installed")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(pipelines.stacked(), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:2 schedule:zero_bubble remat:never")


@pytest.fixture(scope="module")
def compiled(plan, tmp_path_factory) -> Compiled:
    EVENTS.clear()
    file = tmp_path_factory.mktemp("hlo") / "stages.hlo"
    found = compile_here(plan, lambda event: EVENTS.append(event.stage), keep=False, hlo_file=str(file))
    assert file.read_text().count("ENTRY") >= 6  # forward, the halves of backward and the update of each stage
    return found


def test_each_stage_is_compiled_as_it_runs(plan, compiled):
    step = compile_mpmd(plan)
    assert tuple(stage.memory.peak for stage in compiled.stages) == compiled_peaks(step)
    assert compiled.memory.peak == max(stage.memory.peak for stage in compiled.stages)
    assert {each.axes for stage in compiled.stages for each in stage.collectives} == {("data",)}
    assert "compiling" in EVENTS


def test_what_stages_hold_and_send_stands_beside_what_was_predicted(plan, compiled):
    rows = Comparison(plan.report(), compiled).stages
    assert [row.stage for row in rows] == [0, 1]
    for row in rows:
        assert row.payload == row.compiled_payload > 0
        assert row.held == pytest.approx(row.compiled.memory.arguments, rel=0.25)  # which has the batch besides


def test_the_comparison_is_of_the_fullest_stage_and_never_of_the_program_whole(plan, compiled):
    comparison = Comparison(plan.report(), compiled)
    fullest = compiled.fullest
    peak = comparison.figures[0]
    assert (peak.name, peak.compiled) == (f"peak memory, stage {fullest}", compiled.memory.peak)
    assert peak.predicted == plan.report().pipeline.simulated.peaks[fullest]
    assert comparison.figures[1].predicted == plan.report().pipeline.exact_memory.peaks[fullest]
    assert [(row.axes, row.agrees) for row in comparison.collectives] == [(("data",), True)]
    assert comparison.differences == comparison.memory_differences == comparison.kernel_differences == ()
    text = str(comparison)
    assert "sent inside, predicted" in text
    assert "held throughout" in text
    assert f"A device of stage {fullest}, the fullest" in str(compiled)
    assert len(compiled_record(compiled)["stages"]) == 2


def test_the_compared_tab_has_a_row_a_stage(plan, compiled):
    blocks = compared_blocks(ComparisonState(Comparison(plan.report(), compiled)), Paint({"stage": 0, "data": 1}))
    (table,) = [each for each in blocks if each["title"].startswith("Per stage")]
    assert [each["key"] for each in table["rows"]] == ["stage 0", "stage 1"]


def test_what_a_task_needs_beside_its_values_is_the_callers_to_say(plan):
    step = compile_mpmd(plan)
    none, much = compiled_peaks(step, lambda _task: 0), compiled_peaks(step, lambda _task: 1 << 30)
    assert all(0 < few < many for few, many in zip(none, much, strict=True))
    assert min(much) > 1 << 30


@needs_libtpu
def test_on_a_tpu_recomputed_values_that_have_room_on_the_chip_take_none_of_the_devices_memory(record):
    recomputed = "stages:2 micro_batches:2 remat:always"
    plan = Plan(build("conformer"), "stage:2 data:2", "batch:data", hardware="TPU v5e 2x2", pipeline=recomputed)
    compiled, report = record.answer(plan).stage_peaks, plan.report().pipeline
    for planned in (report.simulated.peaks, report.exact_memory.peaks):
        assert compiled == pytest.approx(planned, rel=0.02)
