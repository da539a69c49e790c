"""A board answers gestures over a real session, without a browser."""

import threading
from dataclasses import replace
from unittest.mock import Mock

import pytest

from tests.support.machines import flat
from tests.support.scripted import HeldRunner, measurement
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import SetHardware, ShardDim
from workbench.reports.run_events import Cancelled, RunDone, StepDone
from workbench.widgets.board.board import Board


class Screen:
    """What a host would show."""

    def __init__(self, session, **options):
        self.shown, self.count = {}, 0
        self.board = Board(session, self.publish, **options)
        self.seq = 0

    def publish(self, part, state):
        self.shown[part] = state
        self.count += 1

    def send(self, verb, **fields):
        self.seq += 1
        self.board.answer({"verb": verb, "seq": self.seq, "view": "test", **fields})
        return self.shown["board"]


def test_all_parts_are_shown_at_once(session):
    assert set(Screen(session).shown) == {"board", "table", "live"}


def test_a_drop_becomes_an_edit_and_the_answer_names_the_gesture(session):
    screen = Screen(session)
    state = screen.send("drop", dim="hidden", source="", target="model")
    assert str(session.plan.layout) == "batch:data; hidden:model"
    assert state["answer"] == {"view": "test", "seq": 1}
    assert state["said"] == "hidden → model"
    assert screen.send("undo")["layout"] == "batch:data"
    assert screen.send("redo")["layout"] == "batch:data; hidden:model"


@pytest.mark.parametrize(
    "gesture",
    [{}, {"verb": "preview", "targets": 3}, {"verb": "preview", "dim": "nothing", "key": "n"}, {"verb": "drop"}, {"verb": "undo"}],
)
def test_nothing_is_said_of_what_can_not_be_worked_out_ahead(session, gesture):
    screen = Screen(session)
    shown = screen.count
    screen.board.answer({**gesture, "ahead": True})
    assert screen.count == shown
    assert session.edits == ()


def test_an_illegal_drop_changes_nothing_and_says_why_where_it_was(session):
    plan = session.plan
    refusal = Screen(session).send("drop", dim="hidden", source="", target="data")["refusal"]
    assert session.plan is plan
    assert refusal["zone"] == "data"
    assert "30 % 4 = 2" in refusal["message"]
    assert "leave `hidden` whole" in refusal["ways_out"]


def test_an_interrupt_of_the_kernel_is_answered_and_the_board_goes_on(session, monkeypatch):
    """The front end sends its next gesture when the one before is answered."""
    screen = Screen(session)
    monkeypatch.setattr(session, "undo", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        screen.send("undo")
    assert screen.shown["board"]["answer"]["seq"] == 1
    assert "Interrupted" in screen.shown["board"]["refusal"]["message"]
    session.apply(ShardDim("hidden", ("model",)))
    assert screen.shown["board"]["layout"] == "batch:data; hidden:model"


def test_the_next_gesture_takes_the_refusal_away(session):
    screen = Screen(session)
    screen.send("resize", axis="data", size="zero")
    assert screen.shown["board"]["refusal"]["zone"] == "data"
    assert screen.send("dismiss")["refusal"] is None


def test_a_drop_in_place_leaves_no_trace_in_the_history(session):
    screen = Screen(session)
    screen.send("drop", dim="batch", source="data", target="data", add=True)
    screen.send("resize", axis="data", size="4")
    assert session.edits == ()


def test_a_mesh_is_edited_from_the_board(session):
    screen = Screen(session)
    screen.send("add_axis", axis="pipe", size="2")
    screen.send("resize", axis="model", size="1")
    screen.send("rename_axis", axis="data", name="rows")
    screen.send("shift_axis", axis="pipe", by=-1)
    assert str(session.plan.mesh) == "rows:4 pipe:2 model:1"
    screen.send("remove_axis", axis="rows")
    assert (str(session.plan.mesh), str(session.plan.layout)) == ("pipe:2 model:1", "")


def test_edits_made_elsewhere_are_shown(session):
    screen = Screen(session)
    session.apply(ShardDim("hidden", ("model",)))
    assert screen.shown["board"]["layout"] == "batch:data; hidden:model"
    screen.board.close()
    screen.board.close()  # as `__del__` of a widget does once more
    session.undo()
    assert screen.shown["board"]["layout"] == "batch:data; hidden:model"


def test_a_failure_of_the_workbench_itself_is_a_message(session, monkeypatch, caplog):
    screen = Screen(session)
    monkeypatch.setattr(session, "apply", lambda _: 1 / 0)
    refusal = screen.send("drop", dim="hidden", source="", target="model")["refusal"]
    assert "ZeroDivisionError" in refusal["message"]
    assert "failed" in caplog.text


def test_tabs_open_and_search(session):
    screen = Screen(session)
    screen.send("open", tab="values", search="dot_general")
    assert screen.shown["table"]["tab"] == "values"
    assert screen.shown["table"]["blocks"][0]["rows"]
    assert [tab["key"] for tab in screen.shown["board"]["tabs"] if tab["open"]] == ["values"]


def test_a_tab_of_an_old_link_opens_another_one_and_the_page_does_not_wait_for_it(session):
    screen = Screen(session)
    screen.send("open", tab="nonsense")
    assert [tab["key"] for tab in screen.shown["board"]["tabs"] if tab["open"]] == [screen.shown["table"]["tab"]]


def test_a_measured_figure_and_the_answer_why_are_of_one_run(session):
    runner = HeldRunner()
    screen = Screen(session, runner=runner)
    screen.send("run", steps="3")
    runner.tell(RunDone(measurement(session.plan)))
    screen.send("drop", dim="hidden", source="", target="model")
    screen.send("run", steps="3")
    runner.tell(RunDone(measurement(session.plan, step_seconds=(1.0, 2.0, 3.0))))
    screen.send("undo")
    screen.send("why", of="figure measured")
    measured = next(each for each in screen.shown["board"]["figures"] if each["key"] == "measured")
    assert screen.shown["table"]["why"]["title"] == f"Why {measured['text']} a step?"


def test_a_run_goes_through_the_runner_and_its_result_reaches_the_head(session):
    runner = HeldRunner()
    screen = Screen(session, runner=runner)
    screen.send("run", steps="7")
    assert (runner.plan, runner.steps, screen.shown["live"]["phase"]) == (session.plan, 7, "running")
    runner.tell(RunDone(measurement(session.plan)))
    assert screen.shown["live"]["phase"] == "done"
    measured = next(each for each in screen.shown["board"]["figures"] if each["key"] == "measured")
    assert (measured["text"], measured["note"]) == ("11.0 ms", "8 × cpu")
    state = screen.send("drop", dim="hidden", source="", target="model")
    assert next(each for each in state["figures"] if each["key"] == "measured")["note"] == "before the last edit"


def test_a_run_that_calibrated_the_devices_predicts_step_times_from_then_on(session):
    runner = HeldRunner()
    screen = Screen(session, runner=runner)
    screen.send("run", steps="3")
    cpu = flat("cpu", flops=1e10, memory_bandwidth=1e10, sent_bandwidth=1e9, latency=1e-4, memory=0)
    runner.tell(RunDone(measurement(session.plan, hardware=cpu)))
    before = {each["key"]: each["text"] for each in screen.shown["board"]["figures"]}
    after = {each["key"]: each["text"] for each in screen.send("drop", dim="hidden", source="", target="model")["figures"]}
    assert before["predicted"] != after["predicted"]


def test_steps_are_painted_ten_times_a_second_and_the_end_at_once(session):
    runner = HeldRunner()
    screen = Screen(session, runner=runner)
    screen.send("run", steps="500")
    before = screen.count
    for step in range(500):
        runner.tell(StepDone(step + 1, 500, 0.001, 1.0))
    assert screen.count - before < 50
    runner.tell(Cancelled())
    assert screen.shown["live"]["phase"] == "cancelled"
    assert screen.shown["live"]["message"] == "Cancelled."


def test_cancel_reaches_the_runner_and_late_events_are_not_heard(session):
    runner = HeldRunner()
    screen = Screen(session, runner=runner)
    screen.send("run", steps="5")
    screen.send("cancel")
    assert runner.cancels == 1
    runner.tell(Cancelled())
    runner.tell(StepDone(1, 5, 1.0, 1.0))
    assert screen.shown["live"]["phase"] == "cancelled"


def test_steps_that_are_no_number_do_not_run(session):
    screen = Screen(session, runner=HeldRunner())
    screen.send("run", steps="many")
    assert screen.shown["live"]["phase"] == "error"
    assert "many" in screen.shown["live"]["message"]


def test_without_a_runner_there_is_no_run_panel(session):
    assert Screen(session).shown["live"]["can_run"] is False


def test_a_gesture_told_twice_is_done_once_and_answered_twice(session):
    screen = Screen(session)
    drop = {"dim": "hidden", "source": "", "target": "model", "add": False, "view": "a", "seq": 7}
    screen.board.answer({"verb": "drop", **drop})
    before, plan = screen.shown["board"], screen.board.session.plan
    screen.board.answer({"verb": "drop", **drop, "again": 1})
    assert screen.board.session.plan == plan
    assert screen.shown["board"] != before
    assert screen.shown["board"]["answer"] == before["answer"]


def test_a_gesture_told_twice_is_done_once_whatever_another_view_did_between(session):
    screen = Screen(session)
    for dim, target in (("hidden", "model"), ("batch", "data")):
        screen.board.answer({"verb": "drop", "dim": dim, "source": "", "target": target, "add": False, "view": "a", "seq": len(target)})
    undo = {"verb": "undo", "view": "a", "seq": 9}
    screen.board.answer(undo)
    screen.board.answer({"verb": "open", "tab": "memory", "view": "b", "seq": 1})
    plan = screen.board.session.plan
    screen.board.answer({**undo, "again": True})
    assert screen.board.session.plan == plan


def test_a_page_that_misses_a_table_is_told_all_anew(session):
    screen = Screen(session)
    before = dict(screen.shown)
    screen.board.answer({"verb": "refresh", "view": "a", "seq": 8})
    assert all(screen.shown[part] != before[part] for part in ("board", "table", "live"))
    assert screen.shown["board"]["answer"] == {"view": "a", "seq": 8}


def test_what_would_fix_an_alarm_comes_later_where_it_takes_long_to_find(session, monkeypatch):
    may_answer, seen = threading.Event(), threading.Event()

    def find(_report, _partitioned):
        may_answer.wait(20)
        return (ShardDim("hidden", ("model",)),)

    monkeypatch.setattr("workbench.analysis.diagnose.memory_remedies", find)
    screen = Screen(session)
    chip = parse_hardware("8 H100").chip
    session.apply(SetHardware(replace(parse_hardware("8 H100"), chip=replace(chip, memory=1000))))
    (alarm,) = screen.shown["board"]["alarms"]
    assert (alarm["kind"], alarm["edits"]) == ("does not fit", [])
    publish = screen.publish
    monkeypatch.setattr(screen.board._publisher, "_publish", lambda part, state: (publish(part, state), seen.set()))
    may_answer.set()
    assert seen.wait(20)
    assert screen.shown["board"]["alarms"] == [{**alarm, "edits": ["hidden → model"]}]
    assert screen.send("mend", edit="hidden → model")["layout"] == "batch:data; hidden:model"


@pytest.mark.parametrize(
    ("tab", "names"), [("step", ["hw-chip"]), ("timeline", ["hw-chip", "run"]), ("compared", ["compile", "run"]), ("tensors", [])]
)
def test_an_empty_view_offers_the_controls_that_would_fill_it(session, tab, names):
    screen = Screen(session)
    screen.send("open", tab=tab)
    controls = [each["name"] for block in screen.shown["table"]["blocks"] for each in block.get("controls", ())]
    assert controls == names
