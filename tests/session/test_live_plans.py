"""What the sidebar of JupyterLab is told of the plans in a kernel."""

import json
from weakref import WeakSet

import pytest

from workbench.app.notebook.board_cell import Workbench
from workbench.models import build
from workbench.plan.edits import ShardDim
from workbench.public_plan import Plan
from workbench.session import kernel_plans as module
from workbench.session.kernel_plans import live_plans
from workbench.session.plan_history import Session


@pytest.fixture(scope="module")
def plan():
    return Plan(build("two_layer", batch=16, io=64, hidden=30), "data:4 model:2", "batch:data")


@pytest.fixture(autouse=True)
def no_other_boards(monkeypatch):
    monkeypatch.setattr(module, "boards", WeakSet())


def test_a_plan_in_a_variable_is_told_and_a_plan_that_nobody_analysed_has_no_memory(plan):
    row = {"plan": "two-layer", "names": ["mine"], "mesh": "data:4 model:2", "layout": "batch:data", "memory": ""}
    assert live_plans({"mine": plan, "other": 3, "_": plan, "_12": plan}) == [row]


def test_names_of_one_plan_share_a_row_and_a_report_or_session_tells_the_memory(plan):
    (row,) = live_plans({"plan": plan, "report": plan.report(), "session": Session(plan)})
    assert row["names"] == ["plan", "report", "session"]
    assert row["memory"].endswith("iB")


def test_a_board_that_no_variable_names_is_told_with_its_present_plan(plan):
    session = Session(plan)
    boards = [Workbench(session), Workbench(session)]
    session.apply(ShardDim("io", ("model",)))
    for board in boards:
        assert [(row["layout"], row["names"]) for row in live_plans({})] == [(str(session.plan.layout), [])]
        board.close()
    assert live_plans({}) == []


def test_values_of_other_packages_are_not_touched():
    class Trap:
        def __getattr__(self, name):
            raise AssertionError(name)

    assert live_plans({"trap": Trap()}) == []


def test_a_front_end_gets_rows_as_json(plan):
    bundle = live_plans({"plan": plan})._repr_mimebundle_()
    assert json.loads(json.dumps(bundle["application/json"])) == live_plans({"plan": plan})
