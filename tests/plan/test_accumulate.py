"""Gradients accumulated over micro-batches, without stages, by one word."""

import workbench as wb
from workbench.core.tensor import Role
from workbench.documents.plan_documents import dump_plan, parse_plan


def plan_of(pipeline=None):
    return wb.Plan(wb.models.build("gpt"), "data:2", "batch:data", hardware="2 H100", pipeline=pipeline)


def test_accumulated_gradients_need_no_axis_of_stages_and_less_memory():
    plan, whole = plan_of("accumulate:4"), plan_of()
    assert str(plan.mesh) == "stage:1 data:2"
    assert plan == plan_of("stages:1 micro_batches:4 remat:never")
    assert parse_plan(dump_plan(plan)) == plan
    report = plan.report()
    assert report.memory.by_role[Role.ACTIVATION] < 0.5 * whole.report().memory.by_role[Role.ACTIVATION]
    assert report.flops.unique == whole.report().flops.unique
