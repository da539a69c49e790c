"""Warnings of a pipeline, with edits that fix them; and whose figures stand at the head of the report."""

import json
from dataclasses import replace

import jax
import pytest

from tests.support import pipelines
from tests.support.details import with_details
from workbench.core.pipeline_spec import PipelineSpec
from workbench.core.schedules.stage_cost import StageCost, equal_stages
from workbench.documents import report_record
from workbench.errors import PipelineError
from workbench.models import build
from workbench.pipeline.simulate_pipeline import simulate
from workbench.plan.edits import SetPipeline
from workbench.public_plan import Plan
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.reports.simulated_pipeline import SimulatedPipeline
from workbench.tracing import trace
from workbench.units import format_bytes, format_seconds

pytestmark = pytest.mark.compile


def report(text: str, **planned: object) -> Report:
    """Of a chain of four equal layers, the batch 8; `planned` changes what came of the planning."""
    found = Plan(pipelines.chain(), "stage:2", pipeline=f"stages:2 {text}").report()
    return with_details(found, pipeline=replace(found.pipeline, **planned)) if planned else found


def equally(spec: PipelineSpec) -> SimulatedPipeline:
    return simulate(spec, equal_stages(2))


def kinds(found: Report) -> list[str]:
    return [note.kind for note in found.notes]


def note(found: Report, kind: str):
    return next(each for each in found.notes if each.kind == kind)


def mended(found: Report, kind: str) -> PipelineReport:
    """The pipeline with the first edit that the note suggests."""
    after = found.plan.apply(note(found, kind).edits[0]).report().pipeline
    assert after is not None
    return after


def test_uneven_stages_are_told_with_the_cut_that_is_more_even():
    uneven = report("micro_batches:8 boundaries:layers/1")
    assert uneven.pipeline.balance < 0.9
    assert [str(edit) for edit in note(uneven, "uneven stages").edits] == ["balance the stages"]
    assert mended(uneven, "uneven stages").balance > uneven.pipeline.balance
    best = note(report("micro_batches:8"), "uneven stages")  # four layers and a loss do not make two equal halves
    assert best.edits == ()
    assert "cannot be balanced better" in best.message
    assert "uneven stages" not in kinds(report("micro_batches:8", simulated=equally(uneven.pipeline.spec)))


def test_a_wide_bubble_is_told_with_as_many_micro_batches_as_make_it_narrow_or_as_the_batch_divides_into():
    wide = report("micro_batches:2")
    assert "9 would reduce it to 10%" in note(wide, "bubble").message  # (K - 1) / (M + K - 1) = 1 / 10
    assert "The batch divides into 8." in note(wide, "bubble").message
    after = mended(wide, "bubble")
    assert after.spec.micro_batches == 8
    assert after.simulated.bubble < wide.pipeline.simulated.bubble
    assert "bubble" not in kinds(report("micro_batches:8", simulated=equally(after.spec)))


def test_a_bubble_that_no_more_micro_batches_narrow_says_so():
    full = report("micro_batches:8 boundaries:layers/1 remat:never")
    assert full.pipeline.simulated.bubble > 0.2
    assert "does not divide further" in note(full, "bubble").message
    assert note(full, "bubble").edits == ()


def test_a_stage_that_does_not_fit_is_told_by_what_it_holds_with_what_makes_it_smaller():
    planned = report("micro_batches:4 schedule:gpipe remat:never").pipeline
    peak = max(planned.simulated.peaks)
    full = report("micro_batches:4 schedule:gpipe remat:never", capacity=peak - 1)
    (found,) = [each for each in full.notes if each.kind == "does not fit"]
    device = planned.simulated.peaks.index(peak)
    assert found.subject == f"stage {device}"
    assert format_bytes(peak) in found.message
    assert found.edits
    for edit in found.edits:
        after = full.plan.apply(edit).report().pipeline
        assert after.simulated.peaks[device] < peak


def first_stages_offered(remat: str, capacity: int) -> set[str]:
    """By every stage that does not fit, of four that hold 40, 30, 20 and 10 B, and 14, 13, 12 and 11 B where they recompute."""
    costs = [StageCost(1, 1, 1, residuals=10, input_activations=1, sends=((k + 1, 0),) if k < 3 else ()) for k in range(4)]
    found = Plan(pipelines.chain(), "stage:4", pipeline=f"stages:4 micro_batches:8 remat:{remat}").report()
    step = simulate(found.plan.pipeline, costs)
    full = with_details(found, pipeline=replace(found.pipeline, capacity=capacity, simulated=step))
    lines = [each for each in full.notes if each.kind == "does not fit"]
    assert len(lines) == sum(peak > capacity for peak in step.peaks) > 0
    return {f"{edit}: {edit.pipeline.remat}" for each in lines for edit in each.edits if "recompute on" in str(edit)}


@pytest.mark.parametrize(
    ("remat", "capacity", "offered"),
    [
        ("never", 30, {"recompute on the first stage: first_1"}),
        ("never", 29, {"recompute on the first 2 stages: first_2"}),
        ("never", 14, {"recompute on the first 3 stages: first_3"}),
        ("never", 13, set()),  # the first would not fit either
        ("never", 9, set()),  # nor would the last
        ("first_1", 20, {"recompute on the first 2 stages: first_2"}),
        ("first_1", 13, set()),
        ("always", 13, set()),
    ],
)
def test_where_it_is_enough_the_fewest_first_stages_are_offered_to_recompute(remat, capacity, offered):
    assert first_stages_offered(remat, capacity) == offered


def test_two_chunks_that_do_not_fit_are_offered_a_schedule_that_keeps_less():
    text = "micro_batches:8 schedule:dualpipe_v chunks:2 remat:never"
    peak = max(report(text).pipeline.simulated.peaks)
    edits = note(report(text, capacity=peak - 1), "does not fit").edits
    assert {"schedule v_half", "schedule v_min"} <= {str(edit) for edit in edits}


def test_the_whole_program_need_not_fit_where_the_stages_do():
    fits = report("micro_batches:8")
    small = replace(fits, memory=replace(fits.memory, capacity=1))
    assert small.memory.fits is False
    assert "does not fit" not in kinds(small)


def test_recomputation_of_all_but_the_last_is_of_all_in_step_and_says_so():
    text = "stages:2 micro_batches:8 schedule:gpipe remat:except_last engine:spmd"
    assert all(PipelineSpec.parse(text).recomputes(i, stage) for i in range(8) for stage in range(2))
    found = report(text.removeprefix("stages:2 "))
    assert note(found, "recomputation").edits[0] == SetPipeline(replace(found.plan.pipeline, remat="always"))
    assert "recomputation" not in kinds(report("micro_batches:8 remat:except_last"))


def test_the_head_of_the_report_has_the_figures_of_the_pipeline():
    plan = Plan(pipelines.chain(), "stage:2", hardware="TPU v5e 1x2", pipeline="stages:2 micro_batches:4")
    found, text = plan.report(), str(plan.report()).split("Pipeline stages")[0]
    planned = found.pipeline
    words = " ".join(text.split())
    assert f"step time, predicted {format_seconds(planned.seconds)} the mean stage: work" in words
    assert f"memory per device {format_bytes(max(planned.simulated.peaks))} stage" in words


def test_what_cannot_be_cut_says_so_before_the_notes_of_the_whole():
    program = trace(lambda x: x @ x, jax.ShapeDtypeStruct((4, 4), "float32"))
    wrong = Plan(program, "stage:2", pipeline="stages:2 micro_batches:2").report()
    with pytest.raises(PipelineError, match="not a training step"):
        _ = wrong.pipeline
    first, *others = wrong.notes
    assert (first.kind, [str(edit) for edit in first.edits]) == ("cannot be cut", ["no pipeline"])
    assert tuple(others) == wrong.diagnostics


def test_the_record_of_a_report_has_the_figures_of_the_pipeline():
    found = report("micro_batches:8")
    record = json.loads(json.dumps(report_record(found)))["pipeline_step"]
    assert record["seconds"] == found.pipeline.seconds
    assert record["peaks"] == list(found.pipeline.simulated.peaks)
    assert [each["stage"] for each in record["stages"]] == [0, 1]
    assert report_record(Plan(pipelines.chain(), "stage:2").report())["pipeline_step"] is None


@pytest.mark.parametrize(("schedule", "alike"), [("interleaved", "1f1b"), ("circular", "gpipe")])
def test_a_schedule_that_goes_round_with_one_chunk_is_told_what_it_is_and_offered_two(schedule, alike):
    found = report(f"micro_batches:8 schedule:{schedule}")
    told = note(found, "one chunk")
    assert f"With `chunks:1` schedule `{schedule}` is `{alike}`" in told.message
    assert [str(edit) for edit in told.edits] == ["2 chunks a stage", f"schedule {alike}"]
    assert mended(found, "one chunk").spec.chunks == 2
    assert "one chunk" not in kinds(report(f"micro_batches:8 schedule:{schedule} chunks:2"))
    assert "one chunk" not in kinds(report(f"micro_batches:8 schedule:{alike}"))


def test_where_two_chunks_cannot_be_it_is_told_why():
    few = Plan(pipelines.chain(), "stage:4", pipeline="stages:4 micro_batches:8 schedule:interleaved").report()
    assert "blocks, and two chunks need 8." in note(few, "one chunk").message
    odd = report("micro_batches:1 schedule:interleaved")
    assert "make micro_batches a multiple of 2." in note(odd, "one chunk").message
    assert [str(edit) for edit in note(odd, "one chunk").edits] == ["schedule 1f1b"]


def test_without_hardware_the_text_says_what_a_second_stands_for():
    found = report("micro_batches:8 boundaries:layers/1")
    assert "one second stands for 10¹² operations" in str(found.pipeline)
    assert "times as long as the mean stage" in note(found, "uneven stages").message
    assert "10¹²" not in str(report("micro_batches:8", capacity=1 << 30).pipeline)


def test_layers_that_stages_cannot_run_in_step_are_told_before_the_run():
    uneven = Plan(pipelines.chain(), "stage:3", pipeline="stages:3 micro_batches:2 schedule:gpipe engine:spmd")
    found = note(uneven.report(), "not in step")
    assert found.message == "Engine `spmd` gives each stage as many of the 4 equal layers of `chain`; 3 stages, and 4 % 3 = 1."
    (edit,) = found.edits
    assert edit.pipeline.engine == "mpmd"
    assert "not in step" not in kinds(report("micro_batches:2 schedule:gpipe engine:spmd"))


@pytest.mark.parametrize("optimizer", ["adafactor", "muon", "adam8bit"])
def test_an_optimizer_that_stages_cannot_run_is_told_before_the_run(optimizer):
    plan = Plan(build("decoder", optimizer=optimizer), "stage:2", pipeline="stages:2 micro_batches:4")
    found = note(plan.report(), "not run in stages")
    assert found.message.startswith(
        "The figures are valid, but a run is refused. The optimizer of decoder tiny does not treat each element"
    )
    assert [str(edit) for edit in found.edits] == ["one program for all stages", "no pipeline"]
    for edit in found.edits:
        assert "not run in stages" not in kinds(plan.apply(edit).report())


def test_an_optimizer_that_stages_can_run_has_no_such_warning():
    assert "not run in stages" not in kinds(report("micro_batches:2"))


def test_micro_batches_too_small_to_be_split_are_told_with_how_often_products_are_computed():
    """Of the whole batch no product is computed twice, and of a micro-batch of 4 examples over 8 devices each is 8 times."""
    small = Plan(build("gpt", layers=4, batch=16), "stage:2 data:8", "batch:data", pipeline="stages:2 micro_batches:4 axis:stage").report()
    assert small.duplication == pytest.approx(8, rel=0.01)
    assert "each product is computed 8.00 times" in str(small)
    (told,) = (each for each in small.notes if each.kind == "duplicated work")
    assert told.message.startswith("A micro-batch of 4 examples is too small to be sharded like the batch: the devices of stage ")
    assert told.message.endswith("compute each product 8.00 times.")
    fewer = small.plan.updated(pipeline="stages:2 micro_batches:2 axis:stage").report()
    assert fewer.duplication == pytest.approx(1, rel=0.01)
    assert [each.kind for each in fewer.notes if each.kind == "duplicated work"] == []
