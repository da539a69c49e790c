"""The history: an edit makes a plan, undo is the plan before, a refused edit changes nothing, listeners hear all of it."""

import pytest

from tests.machines import flat
from workbench.edits import AddAxis, PlaceDim, RenameDim, ResizeAxis
from workbench.errors import LayoutError, MeshError
from workbench.models import build
from workbench.plan import Plan
from workbench.session import Session

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34)


@pytest.fixture
def session():
    return Session(Plan(build("two_layer"), "rows:2 cols:4", "batch:rows"))


def test_undo_and_redo_walk_the_plans(session):
    first = session.plan
    session.apply(PlaceDim("hidden", ("cols",)))
    second = session.plan
    session.undo()
    assert session.plan is first
    assert (session.can_undo, session.can_redo) == (False, True)
    session.redo()
    assert session.plan is second
    assert session.report.plan is second


def test_an_edit_after_undo_drops_what_was_undone(session):
    session.apply(PlaceDim("hidden", ("cols",)))
    session.undo()
    session.apply(PlaceDim("io", ("cols",)))
    assert not session.can_redo
    assert [str(edit) for edit in session.edits] == ["io → cols"]


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (PlaceDim("io", ("rows",)), LayoutError),
        (ResizeAxis("rows", 3), LayoutError),
        (ResizeAxis("rows", 0), MeshError),
        (AddAxis("rows", 2), MeshError),
    ],
)
def test_a_refused_edit_changes_nothing(session, edit, error):
    before = session.plan, session.report, session.edits
    with pytest.raises(error):
        session.apply(edit)
    assert (session.plan, session.report, session.edits) == before


def test_listeners_hear_every_move_until_they_stop(session):
    heard = []
    stop = session.listen(lambda plan, report: heard.append((str(plan.layout), report.plan is plan)))
    session.apply(PlaceDim("hidden", ("cols",)))
    session.undo()
    stop()
    session.redo()
    assert heard == [("batch:rows; hidden:cols", True), ("batch:rows", True)]


def test_hardware_times_every_later_plan(session):
    assert session.use_hardware(HARDWARE).step_time is not None
    assert session.apply(PlaceDim("hidden", ("cols",))).step_time.hardware == "test"


def test_a_renamed_dimension_keeps_its_rule(session):
    session.apply(RenameDim("batch", "examples"))
    assert str(session.plan.layout) == "examples:rows"
    session.undo()
    assert "batch" in session.plan.program.dims
