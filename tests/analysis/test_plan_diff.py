"""Two plans side by side: every edit is told, equal plans differ in nothing, figures and traffic carry their change."""

import json
from dataclasses import replace

import pytest

from tests.plan.test_edits import CASES
from tests.support.programs import batch, mlp, mlp_report, parameter, program
from workbench.analysis.plan_diff import KINDS, Change, FigureChange, PlanDiff, TrafficChange, change_text, delta_text
from workbench.core.tensor import Role
from workbench.documents import plan_diff_record
from workbench.models import build
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.reports.collective import Collective
from workbench.reports.device_memory import Memory

MADE = [edit for edit, _, mesh, _ in CASES if mesh is not None]  # the others are refused
TOLD = {
    "ShardDim": {"rule"},
    "Override": {"override"},
    "Constrain": {"constraint"},
    "Prioritize": {"priority"},
    "GroupValues": {"group"},
    "SetBarrier": {"barrier"},
    "SetLayout": {"rule"},
    "SetMesh": {"mesh axis", "rule"},
    "ResizeAxis": {"mesh axis"},
    "AddAxis": {"mesh axis"},
    "RemoveAxis": {"mesh axis", "rule"},
    "RenameAxis": {"mesh axis", "rule"},
    "ReorderAxes": {"axis order"},
    "RenameDim": {"dimension", "rule"},
    "SetHardware": {"hardware"},
    "SetPipeline": {"pipeline", "mesh axis", "axis order"},
    "OpenPlan": {"mesh axis", "rule"},
    "EditGroup": {"rule"},
}
"""The kinds of change by which each edit of the cases is told."""


def diff(before: Plan, after: Plan) -> PlanDiff:
    return PlanDiff(*(replace(mlp_report(), plan=plan) for plan in (before, after)))


@pytest.mark.parametrize("edit", MADE, ids=str)
def test_every_edit_is_told_and_only_what_it_decided(edit):
    before = Plan(mlp(), "data:4 model:2", "batch:data; d_ff:model")
    after = edit.apply(before)
    changes = diff(before, after).changes
    assert bool(changes) is (before != after)
    assert {change.kind for change in changes} <= TOLD.get(type(edit).__name__, set()) <= set(KINDS)
    assert all(change.before != change.after for change in changes)
    mirrored = {Change(kind, subject, new, old) for kind, subject, old, new in diff(after, before).changes}
    assert {change for change in mirrored if change.kind != "dimension"} == {change for change in changes if change.kind != "dimension"}


def test_another_program_is_told():
    other = program(parameter("params/w", d=8), batch("batch/x", batch=16, d=8), name="other")
    changes = diff(Plan(mlp(), "data:4", "batch:data"), Plan(other, "data:4", "batch:data")).changes
    assert changes == (Change("program", "", "tests.support.importable:mlp()", "other"),)


def test_figures_carry_their_change_and_a_missing_one_none():
    before = mlp_report()
    after = replace(before, memory=Memory({Role.PARAMETER: 1024, Role.ACTIVATION: 1536}), step_time=None)
    figures = {each.name: each for each in PlanDiff(before, after).figures}
    assert (figures["parameter at the peak"].delta, figures["parameter at the peak"].ratio) == (-1024, 0.5)
    assert figures["sent"].delta == 0
    assert (figures["step"].after, figures["step"].delta, figures["step"].ratio) == (None, 0.0, None)
    assert "step" not in {each.name for each in PlanDiff(after, after).figures}


def test_traffic_is_by_whole_axis_and_kind_the_greatest_change_first():
    before = mlp_report()
    sub_axis = Collective("all-gather", ("data:(1)2",), 4096, 0, 1, "p", "s")
    after = replace(before, collectives=(*before.collectives[:2], sub_axis))
    assert PlanDiff(before, after).traffic == (
        TrafficChange(("data",), "all-gather", 0, 4096),
        TrafficChange(("data",), "all-reduce", 2048, 0),
        TrafficChange(("model",), "all-reduce", 2048, 2048),
    )


def test_arguments_that_lie_otherwise_stand_together_by_layer():
    found = PlanDiff(mlp_report("batch:data"), mlp_report()).placements
    weights = next(each for each in found if each.path == "params/layers/*/w1")
    assert (str(weights.before), str(weights.after), weights.tensors, weights.delta) == ("[-, -]", "[-, model]", 2, -2 * 8 * 16 * 4)
    assert weights.dims == ("d_model", "d_ff")
    assert not any(each.path == "batch/x" for each in found)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (4.0, 2.0, "−2.00 s (−50%)"),
        (2.0, 2.5, "+500 ms (+25%)"),
        (1.0, 3.0, "+2.00 s (3×)"),
        (1.0, 2.0, "+1.00 s (2×)"),
        (1.0, 1.996, "+996 ms (2×)"),
        (1.0, 1.99, "+990 ms (+99%)"),
        (1.0, 1.004, "+4.00 ms (+0.40%)"),
        (0.0, 1.0, "+1.00 s"),
        (1.0, 1.0, "same"),
        (None, 1.0, ""),
    ],
)
def test_a_change_of_a_figure_reads(before, after, text):
    assert delta_text(FigureChange("step", "seconds", before, after)) == text


def test_a_change_is_one_line():
    changes = diff(Plan(mlp(), "data:4 model:2", "batch:data"), Plan(mlp(), "model:2 data:4", "d_ff:data+model")).changes
    assert [change_text(change) for change in changes] == [
        "rule batch: data → whole",
        "rule d_ff: whole → data+model",
        "axis order: data model → model data",
    ]


def test_the_text_shows_everything(golden):
    before = mlp_report("batch:data")
    after = replace(mlp_report(), collectives=before.collectives[:1], memory=Memory({Role.PARAMETER: 1024}))
    golden("plan_diff.txt", str(PlanDiff(before, after)))


def test_a_plan_tells_what_another_decides_otherwise():
    plan = Plan(build("two_layer", batch=16, io=64, hidden=32), "data:4 model:2", "batch:data")
    found = plan.diff(plan.apply(ShardDim("hidden", ("model",))))
    assert found.changes == (Change("rule", "hidden", None, ("model",)),)
    assert any(each.axes == ("model",) and each.before == 0 < each.after for each in found.traffic)


def test_the_text_of_equal_plans_is_a_sentence():
    assert str(PlanDiff(mlp_report(), mlp_report())).endswith("The two plans are identical.")


def test_the_record_is_json_with_every_figure():
    record = json.loads(json.dumps(plan_diff_record(PlanDiff(mlp_report("batch:data"), mlp_report()))))
    assert record["changes"] == [{"kind": "rule", "subject": "d_ff", "before": None, "after": ["model"]}]
    assert {each["name"] for each in record["figures"]} >= {"peak memory", "sent", "products", "step"}
    assert record["placements"][0]["after"] == "[-, model]"
