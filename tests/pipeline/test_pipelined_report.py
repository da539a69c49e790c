"""A pipelined plan's own report is of its pipelined step: every figure is a stage's, or the sum of all stages'."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from workbench.core.tensor import Role

PARTS = ("arithmetic", "memory", "launch", "exposed", "host", "idle")
SCHEDULES = ("gpipe", "1f1b", "zero_bubble", "1f1b remat:always")


@settings(max_examples=4, deadline=None)
@given(
    st.sampled_from(SCHEDULES),
    st.sampled_from([2, 4]),
    st.sampled_from(["", "batch:data"]),
    st.sampled_from(["8 H100", "8 H100, eager", "TPU v5p 2x2x2"]),
)
def test_figures_of_a_pipelined_plan_are_of_the_pipelined_step(schedule, micro_batches, layout, hardware):
    pipeline = f"stages:2 micro_batches:{micro_batches} schedule:{schedule}"
    plan = wb.Plan(wb.models.build("gpt"), "data:4 stage:2", layout, hardware=hardware, pipeline=pipeline)
    report = plan.report()
    time, stages = report.step_time, report.stages
    assert 0 < time.mfu <= time.hfu <= 1
    assert {each.step_time.hfu for each in stages} == {time.hfu}
    assert sum(getattr(time, part) for part in PARTS) == pytest.approx(time.total) == pytest.approx(report.seconds)
    assert report.seconds == report.pipeline.seconds
    assert sum(report.memory.by_role.values()) == report.memory.peak == report.peak == max(each.memory.peak for each in stages)
    assert sum(each.total_sent for each in report.collectives) == report.sent == report.fullest.sent
    assert (report.traffic, report.kernels) == (report.fullest.traffic, report.fullest.kernels)
    assert report.flops.unique == sum(each.flops.unique for each in stages)
    assert report.flops.per_device * report.flops.devices == pytest.approx(sum(each.flops.per_device * 4 for each in stages))


def test_stages_divide_the_weights_of_a_pipelined_plan():
    program = wb.models.build("gpt")
    whole = wb.Plan(program, "data:4", "batch:data", hardware="4 H100").report()
    half = wb.Plan(program, "data:4 stage:2", "batch:data", hardware="8 H100", pipeline="stages:2 micro_batches:2").report()
    assert half.memory.by_role[Role.OPTIMIZER_STATE] < 0.8 * whole.memory.by_role[Role.OPTIMIZER_STATE]
