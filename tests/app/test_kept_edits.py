"""What a notebook stores of a board, and the code of its cell with the edits."""

import asyncio
import json

import pytest

from workbench.app.notebook.board_cell import Workbench
from workbench.app.notebook.kept_edits import can_continue, code_with_plan, continue_edits, edits_record
from workbench.core.remat import Remat
from workbench.errors import WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.plan.edits import SetHardware, SetRemat, ShardDim
from workbench.plan.mesh_edits import ResizeAxis
from workbench.public_plan import Plan
from workbench.session.plan_history import Session

EDITS = (ShardDim("hidden", ("model",)), ResizeAxis("data", 2), SetHardware(parse_hardware("TPU v5e 2x2")))


@pytest.fixture(scope="module")
def plan():
    return Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data")


@pytest.fixture
def edited(plan):
    session = Session(plan)
    for edit in EDITS:
        session.apply(edit)
    return session


def test_a_record_is_json_and_makes_the_same_plan_in_another_kernel_edit_by_edit(plan, edited):
    record = json.loads(json.dumps(edits_record(edited, 0)))
    again = Session(plan)
    assert can_continue(again, 0, record)
    continue_edits(again, record)
    assert (again.plan, again.edits) == (edited.plan, edited.edits)
    assert not can_continue(again, 0, record), "it has edits of its own"


def test_nothing_is_stored_of_a_plan_without_edits_and_of_another_branch(plan, edited):
    assert edits_record(Session(plan), 0) is None
    edited.undo()
    assert edits_record(edited, 3) is None


def test_a_record_of_other_code_is_not_offered_and_one_that_does_not_apply_says_which_edit(plan, edited):
    record = edits_record(edited, 0)
    assert not can_continue(Session(plan.updated(layout="")), 0, record)
    for broken in (None, [], {"edits": 3}, {"from": str(plan)}):
        assert not can_continue(Session(plan), 0, broken)
    with pytest.raises(WorkbenchError, match="Stored edit 2 of 3 no longer applies"):
        continue_edits(Session(plan.updated(mesh="model:2", layout="")), record)


CHANGES = 'mesh="data:2 model:2", layout="batch:data; hidden:model", hardware="TPU v5e 2x2"'


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ('wb.Plan(p, "data:4 model:2", "batch:data")', 'wb.Plan(p, "data:2 model:2", "batch:data; hidden:model", hardware="TPU v5e 2x2")'),
        ('é = Plan(p, mesh="data:4 model:2")  # é', f"é = Plan(p, {CHANGES})  # é"),
        ('s = "\f\u2028"; Plan(p, mesh="data:4 model:2")', f's = "\f\u2028"; Plan(p, {CHANGES})'),
        ("a = 1\nbench = wb.Workbench(plan, tour=True)", f"a = 1\nbench = wb.Workbench(plan.updated({CHANGES}), tour=True)"),
    ],
)
def test_mesh_layout_and_hardware_are_put_into_the_code_of_the_cell(plan, edited, source, written):
    assert code_with_plan(source, plan, edited.plan) == written


def test_written_code_makes_the_plan(plan, edited):
    code = code_with_plan('made = Plan(program, "data:4 model:2", "batch:data")', plan, edited.plan)
    names = {"Plan": Plan, "program": plan.program}
    exec(code, names)
    assert names["made"] == edited.plan
    assert code_with_plan(code, edited.plan, edited.plan) == code


@pytest.mark.parametrize("source", ["%time wb.Workbench(plan)", "x = 1", "Plan(p, 'data:4 model:2'), Plan(q, 'data:4 model:2')", ""])
def test_code_that_cannot_be_changed_is_left_alone(plan, edited, source):
    with pytest.raises(WorkbenchError, match="The cell"):
        code_with_plan(source, plan, edited.plan)


def test_a_program_that_was_traced_anew_is_not_written(plan):
    other = Session(Plan(build("gpt", layers=1), "data:4", "batch:data"))
    before = other.plan
    other.apply(SetRemat(Remat("full")))
    with pytest.raises(WorkbenchError, match="program was changed"):
        code_with_plan("Plan(p, 'data:4')", before, other.plan)


def test_a_board_that_is_closed_stores_no_picture_any_more(plan):
    async def edit_and_close():
        cell = Workbench(plan)
        cell._watched = True
        cell.session.apply(ShardDim("hidden", ("model",)))
        due = cell._picture_due
        cell.close()
        return due

    assert asyncio.run(edit_and_close()).cancelled()
