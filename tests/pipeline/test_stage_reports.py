"""The report of each stage: its figures are those of the simulated pipeline, to the byte, and of the programs that its blocks are."""

import gc
import weakref
from functools import cache

import pytest

from workbench.analysis.analyze import analyze
from workbench.core.program import Program
from workbench.core.schedules import ALL_SCHEDULES
from workbench.core.tensor import Role
from workbench.errors import PipelineError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.kernel import COMPUTE

LAYOUT = "batch:data; heads:model; d_ff:model"


@cache
def _gpt() -> Program:
    return build("gpt", scan=True)


def _plan(pipeline: str, hardware: str | None = "TPU v5e 2x4") -> Plan:
    return Plan(_gpt(), "stage:2 data:2 model:2", LAYOUT, hardware=hardware, pipeline=pipeline)


def _pipelines() -> list[str]:
    """Every schedule, with and without recomputation."""
    found = []
    for schedule in ALL_SCHEDULES:
        for remat in ("always", "never", "first_1"):
            for chunks in (1, 2):
                try:
                    plan = _plan(f"stages:2 micro_batches:4 schedule:{schedule.name} chunks:{chunks} remat:{remat}")
                except PipelineError:
                    continue
                found.append(str(plan.pipeline))
    return found


@pytest.mark.compile
@pytest.mark.parametrize("pipeline", _pipelines())
@pytest.mark.parametrize("hardware", ["TPU v5e 2x4", None])
def test_memory_is_the_pipelines_at_every_moment_and_whose_it_is_adds_up(pipeline, hardware):
    report = analyze(_plan(pipeline, hardware))
    for stage in report.stages:
        moments = report.pipeline.simulated.memory(stage.stage)
        heights = [sum(each) for each in zip(*stage.memory_curve.by_role.values(), strict=True)]
        assert heights[:-1] == [moment.bytes for moment in moments]
        assert heights[-1] == report.pipeline.simulated.update_bytes(stage.stage)
        assert max(heights) == stage.memory.peak == report.pipeline.simulated.peaks[stage.stage]
        assert all(min(counts) >= 0 for counts in stage.memory_curve.by_role.values())
        for place, height in enumerate(heights):
            assert sum(each.bytes for each in stage.alive_at(place)) == height


@pytest.mark.compile
@pytest.mark.parametrize("pipeline", _pipelines())
def test_what_a_stage_sends_and_computes_is_the_pipelines(pipeline):
    report = analyze(_plan(pipeline))
    planned = report.pipeline
    for stage in report.stages:
        assert dict(stage.by_axis_and_kind) == dict(planned.payload(stage.stage))
        assert stage.sent == planned.sent_inside(stage.stage, report.mesh)
        assert stage.flops.per_device == planned.flops(stage.stage)
        assert stage.flops.per_device == sum(each.per_device * each.count for each in stage.products)
    assert report.fullest.stage == planned.fullest


@pytest.mark.compile
@pytest.mark.parametrize("pipeline", _pipelines())
def test_the_parts_of_a_step_are_the_pipelines_and_the_timeline_is_within_it(pipeline):
    report = analyze(_plan(pipeline))
    step = report.pipeline.simulated
    for stage in report.stages:
        time, device = stage.step_time, stage.stage
        begins, ends = step.update_span(device)
        assert time.total == pytest.approx(step.seconds)
        assert time.total - time.idle == pytest.approx(step.busy[device] + ends - begins)
        assert stage.timeline.seconds == step.seconds
        assert max(each.end for each in stage.timeline.events) <= step.seconds * (1 + 1e-9)
        busy = sum(each.seconds * each.count for each in stage.timeline.events if each.stream == COMPUTE)
        waits = sum(each.exposed * each.count for each in stage.timeline.events)
        assert busy + waits == pytest.approx(step.busy[device] + ends - begins, rel=0.02)


def test_the_layers_of_a_stack_are_divided_among_the_stages():
    report = analyze(_plan("stages:2 micro_batches:4", None))
    path = "params/layers/mlp/w1"
    held = [next(each for each in stage.arguments if each.tensor.path == path).local_shape for stage in report.stages]
    assert held == [(2, 64, 128), (2, 64, 128)]
    assert [any(each.tensor.path == "params/embedding/positions" for each in stage.arguments) for stage in report.stages] == [True, False]
    for stage in report.stages:
        parameters = sum(each.local_bytes for each in stage.arguments if each.tensor.role is Role.PARAMETER)
        assert parameters == stage.memory.by_role[Role.PARAMETER]


def test_kernels_and_nodes_have_the_paths_of_their_own_layers():
    second = analyze(_plan("stages:2 micro_batches:4")).stages[1]
    layers = {each.path.removeprefix("grad/").split("/")[1] for each in second.kernel_costs if "layers/" in each.path}
    assert layers == {"2", "3"}
    assert {each.path.split("/")[1] for each in second.graph.nodes if each.path.startswith("layers/")} == {"2", "3"}
    runs = {each.count for each in second.kernel_costs if each.path.startswith("layers/2/mlp/up")}
    assert runs == {8}  # four micro-batches, each computed again


def test_without_a_pipeline_a_report_is_its_own_stage():
    report = analyze(Plan(_gpt(), "data:4 model:2", LAYOUT))
    assert report.stages == (report,)
    assert report.shown is report
    assert report.is_of_devices


def test_a_program_that_cannot_be_cut_has_no_stages():
    report = analyze(_plan("stages:2 micro_batches:4 boundaries:nowhere"))
    with pytest.raises(PipelineError, match="nowhere"):
        _ = report.stages


@pytest.mark.compile
def test_a_report_with_its_stages_is_freed_with_its_last_reference():
    report = analyze(_plan("stages:2 micro_batches:4"))
    gc.collect()
    gc.disable()
    try:
        assert report.stages[0].timeline is not None
        gone = weakref.ref(report)
        del report
        assert gone() is None
    finally:
        gc.enable()
