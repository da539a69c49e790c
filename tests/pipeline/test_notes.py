"""What the report says to mind of a pipeline, with edits that mend it; and whose figures stand at its head."""

import json
from dataclasses import replace

import pytest

from tests import pipelines
from workbench.documents.records import report_record
from workbench.edits import SetPipeline
from workbench.errors import PipelineError
from workbench.pipeline.report import PipelineReport
from workbench.pipeline_spec import PipelineSpec
from workbench.plan import Plan
from workbench.report import Report
from workbench.units import format_bytes, format_seconds


def report(text: str, **planned: object) -> Report:
    """Of a chain of four equal layers, the batch 8; `planned` changes what came of the planning."""
    found = Plan(pipelines.chain(), "stage:2", pipeline=f"stages:2 {text}").report()
    return replace(found, make_pipeline=lambda: replace(found.pipeline, **planned)) if planned else found


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
    assert "uneven stages" not in kinds(report("micro_batches:8"))


def test_a_wide_bubble_is_told_with_as_many_micro_batches_as_make_it_narrow_or_as_the_batch_divides_into():
    wide = report("micro_batches:2")
    assert "9 would bring that to 10%" in note(wide, "bubble").message  # (K - 1) / (M + K - 1) = 1 / 10
    assert "The batch divides into 8." in note(wide, "bubble").message
    after = mended(wide, "bubble")
    assert after.spec.micro_batches == 8
    assert after.simulated.bubble < wide.pipeline.simulated.bubble
    assert "bubble" not in kinds(report("micro_batches:8"))


def test_a_bubble_that_no_more_micro_batches_narrow_says_so():
    full = report("micro_batches:8 boundaries:layers/1 remat:never")
    assert full.pipeline.simulated.bubble > 0.2
    assert "does not divide into more" in note(full, "bubble").message
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


def test_the_whole_program_need_not_fit_where_the_stages_do():
    fits = report("micro_batches:8")
    small = replace(fits, memory=replace(fits.memory, capacity=1))
    assert small.memory.fits is False
    assert "does not fit" not in kinds(small)


def test_recomputation_of_all_but_the_last_is_of_all_in_step_and_says_so():
    text = "stages:2 micro_batches:8 schedule:gpipe remat:except_last engine:spmd"
    assert all(PipelineSpec.parse(text).recomputes(i) for i in range(8))
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


def test_what_cannot_be_cut_has_the_notes_of_the_whole():
    wrong = Plan(pipelines.chain(), "stage:2", pipeline="stages:2 micro_batches:3").report()
    with pytest.raises(PipelineError):
        _ = wrong.pipeline
    assert wrong.notes == wrong.diagnostics


def test_the_record_of_a_report_has_the_figures_of_the_pipeline():
    found = report("micro_batches:8")
    record = json.loads(json.dumps(report_record(found)))["pipeline_step"]
    assert record["seconds"] == found.pipeline.seconds
    assert record["peaks"] == list(found.pipeline.simulated.peaks)
    assert [each["stage"] for each in record["stages"]] == [0, 1]
    assert report_record(Plan(pipelines.chain(), "stage:2").report())["pipeline_step"] is None
