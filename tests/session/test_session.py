"""The history: an edit makes a plan, undo is the plan before, a refused edit changes nothing, listeners hear all of it."""

import pytest

from tests.support.machines import flat
from workbench.errors import LayoutError, MeshError, WorkbenchError
from workbench.models import build
from workbench.plan.edits import RenameDim, ShardDim
from workbench.plan.mesh_edits import AddAxis, ResizeAxis
from workbench.public_plan import Plan
from workbench.session.plan_history import KEPT_REPORTS, MOST_NAME, HistoryNode, Session

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34)


@pytest.fixture
def session():
    return Session(Plan(build("two_layer"), "rows:2 cols:4", "batch:rows"))


def test_undo_and_redo_walk_the_plans(session):
    first = session.plan
    session.apply(ShardDim("hidden", ("cols",)))
    second = session.plan
    session.undo()
    assert session.plan is first
    assert (session.can_undo, session.can_redo) == (False, True)
    session.redo()
    assert session.plan is second
    assert session.report.plan is second


def test_an_edit_after_undo_begins_a_branch_and_loses_nothing(session):
    session.apply(ShardDim("hidden", ("cols",)))
    left = session.node
    session.undo()
    session.apply(ShardDim("io", ("cols",)))
    assert not session.can_redo
    assert [str(edit) for edit in session.edits] == ["io → cols"]
    assert [(each.number, each.parent) for each in session.nodes] == [(0, None), (1, 0), (2, 0)]
    session.go(left.number)
    assert (session.node, session.plan) == (left, left.plan)
    session.undo()
    assert str(session.undone) == "hidden → cols", "redo follows the branch one was on last"
    assert session.redo().plan is left.plan


def test_redo_after_going_to_a_node_walks_the_branch_it_is_on(session):
    for edit in (ShardDim("hidden", ("cols",)), ShardDim("batch", ())):
        session.apply(edit)
    session.go(0)
    session.apply(ShardDim("io", ("cols",)))
    session.go(2)
    session.undo()
    session.undo()
    assert (session.node.number, str(session.undone)) == (0, "hidden → cols")
    session.redo()
    session.redo()
    assert session.node.number == 2


@pytest.mark.parametrize("number", [-1, 1, 10**9])
def test_a_node_that_is_not_there_is_refused(session, number):
    for verb in (session.go, session.pin, session.report_of, lambda each: session.name(each, "a")):
        with pytest.raises(WorkbenchError, match="see the current history"):
            verb(number)
    assert session.node.number == 0


def test_names_and_pins_stay_with_their_plan(session):
    session.name(0, "  by\n hand ")
    session.pin(0)
    session.apply(ShardDim("hidden", ("cols",)))
    assert [(each.name, each.pinned) for each in session.nodes] == [("by hand", True), ("", False)]
    session.pin(0, False)
    session.name(0, "x" * 500)
    assert (len(session.nodes[0].name), session.nodes[0].pinned) == (MOST_NAME, False)


def test_what_was_foreseen_is_the_edit_that_follows_and_no_other(session):
    foreseen = session.foresee(ShardDim("hidden", ("cols",)))
    assert session.foresee(ShardDim("hidden", ("cols",))) is foreseen
    assert (session.edits, len(session.nodes)) == ((), 1)
    assert session.apply(ShardDim("hidden", ("cols",))) is foreseen
    assert session.plan is foreseen.plan
    session.foresee(ShardDim("hidden"))
    assert session.apply(ShardDim("batch")).plan.layout.rule("hidden") == ("cols",)
    with pytest.raises(LayoutError):
        session.foresee(ShardDim("io", ("cols",)))


def test_what_was_foreseen_for_other_hardware_is_forgotten(session):
    session.foresee(ShardDim("hidden", ("cols",)))
    session.use_hardware(HARDWARE)
    assert session.apply(ShardDim("hidden", ("cols",))).step_time.hardware == "test"


def test_a_few_reports_are_kept_and_others_made_again(session):
    first = session.report
    for size in range(2 * KEPT_REPORTS):
        session.apply(ResizeAxis("cols", 2 + 2 * (size % 2)))
    assert session.report_of(session.node.number) is session.report
    again = session.report_of(0)
    assert again is not first
    assert again == first


def test_of_large_programs_fewer_reports_are_kept_and_the_present_one_always(session, monkeypatch):
    one = 2300 * len(session.plan.program.operations)
    for limit, kept in ((one - 1, 1), (2 * one, 2), (3 * one - 1, 2)):
        monkeypatch.setattr("workbench.session.plan_history.KEPT_BYTES", limit)
        for size in (2, 4, 2, 4):
            session.apply(ResizeAxis("cols", size))
        assert session.report_of(session.node.number) is session.report
        assert len(session._reports) == kept


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (ShardDim("io", ("rows",)), LayoutError),
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
    assert len(session.nodes) == 1


def test_listeners_hear_every_move_until_they_stop(session):
    heard = []
    stop = session.listen(lambda plan, report: heard.append((str(plan.layout), report.plan is plan)))
    session.apply(ShardDim("hidden", ("cols",)))
    session.undo()
    stop()
    session.redo()
    assert heard == [("batch:rows; hidden:cols", True), ("batch:rows", True)]


def test_a_listener_hears_of_names_and_pins(session):
    heard = []
    session.listen(lambda *_: heard.append((session.node.name, session.node.pinned)))
    session.name(0, "start")
    session.pin(0)
    assert heard == [("start", False), ("start", True)]


def test_hardware_times_every_later_plan(session):
    assert session.use_hardware(HARDWARE).step_time is not None
    assert session.apply(ShardDim("hidden", ("cols",))).step_time.hardware == "test"


def test_a_renamed_dimension_keeps_its_rule(session):
    session.apply(RenameDim("batch", "examples"))
    assert str(session.plan.layout) == "examples:rows"
    session.undo()
    assert "batch" in session.plan.program.dims


def test_a_session_restored_is_as_it_was(session):
    for edit in (ShardDim("hidden", ("cols",)), ShardDim("batch", ())):
        session.apply(edit)
    session.name(1, "mine")
    session.undo()
    again = Session.from_history(session.nodes, session.node.number, session.redo_children, session.summaries)
    assert (again.nodes, again.node, again.summaries) == (session.nodes, session.node, session.summaries)
    assert again.report.memory == session.report.memory
    assert again.redo().plan is session.redo().plan
    assert len(session.nodes) == len(again.nodes) == 3


@pytest.mark.parametrize(
    ("numbers", "parents", "now", "later"),
    [
        ((), (), 0, {}),
        ((0, 2), (None, 0), 0, {}),
        ((0, 1), (None, None), 0, {}),
        ((0, 1), (None, 1), 0, {}),
        ((0, 1), (None, -1), 0, {}),
        ((0, 1), (None, 0), 2, {}),
        ((0, 1), (None, 0), 0, {1: 0}),
        ((0, 1), (None, 0), 0, {0: 5}),
    ],
)
def test_what_is_no_history_is_refused(session, numbers, parents, now, later):
    nodes = [HistoryNode(number, session.plan, parent) for number, parent in zip(numbers, parents, strict=True)]
    with pytest.raises(WorkbenchError, match="These plans are not a history"):
        Session.from_history(nodes, now, later, {})
