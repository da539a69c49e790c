"""A pipeline's report: its figures, its text, and how a plan's own report carries it."""

from dataclasses import replace

import pytest

from workbench.core.pipeline_spec import PipelineSpec, read_pipeline
from workbench.core.schedules.stage_cost import StageCost
from workbench.errors import PipelineError
from workbench.models import build
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import Transfer
from workbench.plan.edits import SetPipeline
from workbench.public_plan import Plan
from workbench.reports.pipeline import PipelineReport, VirtualStage
from workbench.reports.simulated_pipeline import gantt_text


def planned(text: str, forward=(1.0, 1.0), sent: int = 100, update: float = 2.0) -> PipelineReport:
    spec = PipelineSpec.parse(text)
    costs = tuple(
        StageCost(time, time, time, 1000, 100, 10, 10, ((number + 1, sent),) if number + 1 < spec.virtual_stages else (), update)
        for number, time in enumerate(forward)
    )
    pieces = tuple(VirtualStage(number, spec.device_of(number), (f"layers/{number}",), cost) for number, cost in enumerate(costs))
    return PipelineReport(spec, pieces, simulate(spec, costs, Transfer(lambda _: 0.0)), capacity=2000)


def test_a_gantt_chart_draws_each_task_where_it_is():
    chart = gantt_text(planned("stages:2 micro_batches:2 schedule:gpipe remat:never").simulated, columns=44)
    assert chart.splitlines()[2:4] == [
        "    0  F0--F1--............B1======B0======uuuuuuuu",
        "    1  ....F0--F1--B1======B0======uuuuuuuu........",
    ]


def test_recomputation_is_drawn_before_the_backward_pass_it_is_for():
    chart = gantt_text(planned("stages:2 micro_batches:2 schedule:gpipe").simulated, columns=56)
    assert chart.splitlines()[3].startswith("    1  ....F0--F1--B1++========B0++========")
    assert "+ computed again" in chart


def test_the_figures_of_a_pipeline_add_up():
    report = planned("stages:2 micro_batches:4 schedule:1f1b remat:never")
    assert report.seconds == (4 + 1) * 3 + 2
    assert report.simulated.bubble == pytest.approx(report.least_bubble)
    assert report.least_bubble == pytest.approx(1 / 5)
    assert report.balance == 1.0
    assert report.traffic == {(0, 1): 400, (1, 0): 400}
    assert report.fits
    assert planned("stages:2 micro_batches:4", (1.0, 3.0)).balance == pytest.approx(2 / 3)


def test_recomputation_of_the_first_stages_counts_on_those_alone():
    report = planned("stages:2 micro_batches:4 schedule:1f1b remat:first_1")
    assert report.simulated.busy == (4 * 4, 4 * 3)
    assert report.least_bubble == pytest.approx(1 / 5)  # of equal stages that work 3.5 s on a micro-batch
    costs = [replace(cost, sent_forward=(((("data",), "all-reduce"), 5),)) for cost in report.simulated.costs]
    counted = replace(report, simulated=simulate(report.spec, costs))
    assert [sum(count for _, count in counted.payload(device)) for device in range(2)] == [4 * 5, 0]


def test_a_report_as_text_says_what_to_know():
    text = str(planned("stages:2 micro_batches:4 schedule:1f1b remat:never"))
    for said in ("Pipeline stages:2 micro_batches:4", "20.0%", "layers/0", "sent between stages", "800 B", "critical path", "fits"):
        assert said in text


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(build("gpt", layers=2), "stage:2 data:2", "batch:data", hardware="TPU v5e 2x2", pipeline="stages:2 micro_batches:4")


def test_a_plan_with_a_pipeline_has_its_report_when_asked(plan):
    report = plan.report()
    found = report.pipeline
    assert found.spec == plan.pipeline
    assert [piece.device for piece in found.virtual_stages] == [0, 1]
    assert found.virtual_stages[0].blocks[0] == "embedding"
    assert found.virtual_stages[-1].blocks[-1] == "loss"
    assert found.capacity == plan.hardware.chip.memory
    assert 0 < found.simulated.bubble < 1
    assert "Pipeline stages:2 micro_batches:4" in str(report)


def test_peak_and_time_of_a_report_and_of_a_difference_are_those_of_the_pipeline(plan):
    report = plan.report()
    assert report.peak == max(report.pipeline.simulated.peaks)
    assert report.seconds == report.pipeline.seconds
    whole = plan.updated(pipeline=None).report()
    assert (whole.peak, whole.seconds) == (whole.memory.peak, whole.step_time.total)
    figures = {each.name: each for each in whole.plan.diff(plan).figures}
    assert (figures["peak memory"].before, figures["peak memory"].after) == (whole.peak, report.peak)
    assert figures["step"].after == report.seconds


@pytest.mark.parametrize("hardware", ["1 H100", "TPU v5e 1x1"])
def test_one_stage_and_one_micro_batch_compute_what_the_plan_without_a_pipeline_does(hardware):
    """A step without layers in a loop and without recomputation takes about as long; with it, a forward pass longer."""
    plain = Plan(build("deep_unet"), "stage:1", hardware=hardware)
    never, always = (plain.updated(pipeline=f"stages:1 micro_batches:1 remat:{each}").report() for each in ("never", "always"))
    whole, (stage,) = plain.report(), never.stages
    assert stage.flops.per_device == whole.flops.per_device
    assert never.seconds == pytest.approx(whole.seconds, rel=0.1)
    assert always.seconds - never.seconds == pytest.approx(never.pipeline.virtual_stages[0].cost.forward)
    assert plain.updated(pipeline="stages:1 micro_batches:1").report().seconds == always.seconds


def test_the_axis_of_the_stages_is_neither_unused_nor_duplicated_work(plan):
    assert [each for each in plan.report().diagnostics if each.kind in ("unused axis", "duplicated work")] == []
    assert plan.updated(pipeline=None).report().pipeline is None


def test_a_pipeline_that_cannot_be_cut_says_so_in_the_report_with_ways_out():
    fresh = build("gpt", layers=2, seq=24)  # nothing asked for its blocks yet
    wrong = Plan(fresh, "stage:8", pipeline="stages:8 micro_batches:4").report()
    with pytest.raises(PipelineError, match="8 stages need as many"):
        _ = wrong.pipeline
    assert "8 stages need as many" in str(wrong)
    (note,) = [each for each in wrong.notes if each.kind == "cannot be cut"]
    assert [str(edit) for edit in note.edits] == ["stage:6", "no pipeline"]
    assert [len(piece.blocks) for piece in wrong.plan.apply(note.edits[0]).report().pipeline.virtual_stages] == [1] * 6
    whole = wrong.plan.updated(pipeline=None)
    with pytest.raises(PipelineError, match="8 stages need as many"):  # now that its blocks are known, at once
        whole.apply(SetPipeline(wrong.plan.pipeline))


def test_a_boundary_that_is_no_block_is_told_with_the_boundaries_that_balance_would_choose():
    lost = Plan(build("gpt", layers=3, seq=24), "stage:2", pipeline="stages:2 micro_batches:4 boundaries:layers/7").report()
    assert lost.notes[0].kind == "cannot be cut"
    assert "no block `layers/7`" in lost.notes[0].message
    assert [str(edit) for edit in lost.notes[0].edits] == ["boundaries by balance", "no pipeline"]


@pytest.mark.parametrize(
    ("pipeline", "says"),
    [
        ("stages:2 micro_batches:5", "5 micro-batches do not divide `batch`"),
        ("stages:3 micro_batches:4", "3 stages, and mesh axis `stage` 2"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_where_it_is_written(plan, pipeline, says):
    with pytest.raises(PipelineError) as error:
        plan.updated(pipeline=pipeline)
    assert says in error.value.message
    assert error.value.ways_out


def test_a_boundary_that_is_no_block_is_refused_where_it_is_asked_for_once_the_blocks_are_known(plan):
    assert plan.report().pipeline is not None
    with pytest.raises(PipelineError, match="no block `layers/9`") as error:
        plan.apply(SetPipeline(read_pipeline("stages:2 micro_batches:4 boundaries:layers/9")))
    assert error.value.ways_out
