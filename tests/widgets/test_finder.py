"""The search of one board, with a process that the test holds: what is asked of it, and what its events make of the state."""

import queue
import threading
from dataclasses import replace

import pytest

from tests.support.choosing import share_of
from tests.support.scripted import HeldRunner
from workbench.errors import EngineError, SearchError, WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.run_events import Cancelled, Failed
from workbench.search.candidate_plans import candidate_plan
from workbench.search.explain import Counterfactual
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.search_figures import NOMINAL_SECONDS, Figures, ParetoFront, evaluate_plan
from workbench.search.search_messages import PlanExplanation, SearchClosed, SearchRefused, SearchUpdate
from workbench.search.search_state import SearchState
from workbench.session.plan_history import Session
from workbench.units import format_bytes, format_seconds
from workbench.widgets.find.find_tab import controls_state, find_blocks
from workbench.widgets.find.finder import Finder
from workbench.widgets.gestures.panel_gestures import FindGesture

FAST = PlanCandidate("", (("data", 4), ("model", 2)), "megatron"), Figures(1.0, 900, 8)
SMALL = PlanCandidate("", (("data", 2), ("model", 4)), "megatron"), Figures(2.0, 500, 8)
WORSE = PlanCandidate("", (("data", 8), ("model", 1)), "replicated"), Figures(3.0, 950, 8)


def state_of(*entries, elapsed=1.0, **fields):
    front = ParetoFront()
    for candidate, figures in entries:
        front = front.with_item(candidate, figures)
    return SearchState(elapsed, "seconds", front, 0.5, len(entries), 3, 2, **fields)


class Stage:
    """A finder whose deferred work is done by the test's own thread, as a page's loop does it."""

    def __init__(self, runner=None):
        self.runner, self.changes, self.deferred = runner or HeldRunner(), 0, queue.SimpleQueue()
        self.finder = Finder(self.runner, self._defer, self._changed)

    def _defer(self, work):
        if threading.current_thread() is threading.main_thread():
            work()
        else:
            self.deferred.put(work)

    def _changed(self):
        self.changes += 1

    def find(self, plan, **typed):
        self.finder.find(FindGesture(**{"on": "8", **typed}), plan)
        self.prepare()
        return self.runner.searches[-1] if hasattr(self.runner, "searches") else None

    def prepare(self):
        """Do what the thread that prepares a search defers."""
        while self.finder.progress.phase == "preparing":
            self.deferred.get(timeout=60)()

    def update(self, process, *found, number=None, **fields):
        number = self.finder.progress.number if number is None else number
        is_over = fields.pop("is_over", False)
        process.hear(SearchUpdate(number, state_of(*found, **fields), found, is_over))


@pytest.fixture
def stage():
    return Stage()


def test_a_search_asks_the_process_of_its_space_and_follows_it_to_its_end(stage, session):
    process = stage.find(session.plan, limit="1 KiB")
    request = process.sent[0]
    assert (request.number, request.within, request.objective) == (1, 30.0, "seconds")
    assert list(map(str, request.requirements)) == ["at most 1.00 KiB a device"]
    assert (stage.finder.progress.phase, stage.finder.badge) == ("searching", "…")
    stage.update(process, WORSE)
    stage.update(process, WORSE, FAST, is_over=True, is_proved=True)
    progress = stage.finder.progress
    assert (progress.phase, stage.finder.badge) == ("done", "1")
    assert [progress.number_of(each) for each, _ in (WORSE, FAST, SMALL)] == ["0", "1", ""]


def test_stop_ends_the_process_at_once_keeps_what_was_found_and_hears_no_more_of_it(stage, session):
    process = stage.find(session.plan)
    stage.update(process, FAST)
    stage.finder.stop()
    assert (process.cancels, stage.finder.progress.phase) == (1, "stopped")
    stage.update(process, FAST, SMALL)
    process.hear(Cancelled())
    assert [each for each, _ in stage.finder.progress.found] == [FAST[0]]


def test_before_a_plan_is_found_the_line_says_so_and_a_search_that_is_stopped_then(stage, session):
    process = stage.find(session.plan, on="8 TPU v5e", objective="devices")
    stage.update(process)
    shown = controls_state(stage.finder, session.plan, ())
    assert (shown["line"].split(" · ")[-1], shown["message"]) == ("no plan yet", "")
    stage.finder.stop()
    assert controls_state(stage.finder, session.plan, ())["message"].endswith(" The search was cancelled."), "as the command line says it"
    stage.update(stage.find(session.plan, on="8 TPU v5e", objective="devices"), FAST)
    shown = controls_state(stage.finder, session.plan, ())
    assert "no plan yet" not in shown["line"]
    assert shown["message"] == ""


def test_without_hardware_it_is_said_what_a_second_stands_for(stage, session):
    stage.update(stage.find(session.plan), FAST)
    assert controls_state(stage.finder, session.plan, ())["message"] == NOMINAL_SECONDS


def test_a_search_for_the_fewest_devices_shows_them(stage, session):
    process = stage.find(session.plan, objective="devices")
    process.hear(SearchUpdate(1, replace(state_of(FAST), objective="devices"), (FAST,)))
    assert controls_state(stage.finder, session.plan, ())["gap"]["best"] == "best 8 devices, 1.00 s, 900 B"


def test_a_search_whose_process_answers_no_more_ends_with_its_time(stage, session):
    process = stage.find(session.plan, within="1")
    stage.update(process)
    while stage.finder.progress.running:
        stage.deferred.get(timeout=60)()
    progress = stage.finder.progress
    assert (progress.phase, progress.state.ending, process.cancels) == ("done", "out of time", 1)
    assert controls_state(stage.finder, session.plan, ())["message"].startswith("No plan was found in 1.0 s")
    stage.finder.close()


def test_the_time_limit_begins_with_the_first_answer_and_the_start_up_is_shown_with_its_seconds(stage, session, monkeypatch):
    monkeypatch.setattr("workbench.widgets.find.finder._TICK", 0.05)
    process, lines = stage.find(session.plan, within="1"), []
    while stage.finder.progress.elapsed < 1.5:  # past the limit
        stage.deferred.get(timeout=60)()
        shown = controls_state(stage.finder, session.plan, ())
        lines.append(shown["line"])
        assert (shown["running"], shown["fraction"], shown["message"]) == (True, 0.0, "")
    assert lines[-1] == "starting the search process and planning the first plan, 2 s"
    stage.update(process, FAST, elapsed=0.0)
    assert controls_state(stage.finder, session.plan, ())["line"].startswith("0.0 of 1 s · 1 planned")
    stage.finder.close()


def test_a_search_process_that_never_answers_is_an_error_and_no_search_without_plans(stage, session, monkeypatch):
    monkeypatch.setattr("workbench.widgets.find.finder._TICK", 0.05)
    monkeypatch.setattr("workbench.widgets.find.finder.START_LIMIT", 0.5)
    process = stage.find(session.plan, within="30")
    while stage.finder.progress.running:
        stage.deferred.get(timeout=60)()
    shown = controls_state(stage.finder, session.plan, ())
    assert (shown["phase"], shown["line"], process.cancels) == ("failed", "", 1)
    assert shown["message"].startswith("The search process gave no answer in ")
    assert shown["message"].endswith(", so the search has not begun.")
    stage.finder.close()


def test_the_present_plan_is_the_first_row_before_a_process_answers_and_is_advised_where_nothing_was_found(stage, session):
    session = Session(session.plan.updated(hardware="TPU v5e 2x4"))
    report, shown = session.report, lambda: find_blocks(stage.finder, session.report, None)
    process = stage.find(session.plan, on="8 TPU v5e", limit="1 GiB")
    [row] = shown()[1]["rows"]
    cells = dict(zip([each["label"] for each in shown()[1]["columns"]], row["cells"], strict=True))
    assert (cells["tier"], cells["changes"]["text"]) == ("planned", "present plan")
    step, memory = (cells[name]["text"] for name in ("step", "memory"))
    assert (step, memory) == (format_seconds(report.seconds), format_bytes(report.peak))
    stage.update(process)
    stage.finder.stop()
    longer, keep = shown()[0]["find"]["ways_out"]
    assert longer == "search longer"
    assert keep.startswith(f"keep the current plan, which meets the limits: {step}, {memory}")


def test_a_present_plan_outside_the_space_is_said_with_its_decision(stage, session):
    stage.find(session.plan.updated(mesh="data:4 other:2"))
    shown = controls_state(stage.finder, session.plan.updated(mesh="data:4 other:2"), ())
    assert (shown["present"], shown["pins"]) == ("present plan outside the search space: mesh axis `other`", [])
    with pytest.raises(SearchError, match=r"^The plan on the board is not in the search space: mesh axis `other`\."):
        stage.finder.pin("mesh", session.plan.updated(mesh="data:4 other:2"))
    inside = session.plan.updated(mesh="data:8", layout="batch:data")
    stage.find(inside)
    assert controls_state(stage.finder, inside, ())["present"] == ""
    stage.find(session.plan)
    assert controls_state(stage.finder, session.plan, ())["present"] == "present plan outside the search space: its layout"


def test_a_choice_of_the_present_plan_is_pinned_by_a_search_of_its_own(stage, session):
    plan = session.plan.updated(mesh="data:8", layout="batch:data")
    process = stage.find(plan)
    stage.update(process, FAST, is_over=True)
    stage.finder.pin("mesh", plan)
    stage.prepare()
    assert (stage.finder.form.axes, stage.finder.form.stages) == ("data:8 model:1", "1")
    assert {"data 8", "model 1", "stage 1"} == {str(each) for each in stage.finder.progress.requirements}
    assert stage.finder.progress.start is not None, "the present plan has its own choice"


def test_a_search_that_is_stopped_while_its_space_is_made_is_never_begun(session, monkeypatch):
    held, made = threading.Event(), threading.Event()
    stage = Stage()

    def slow(*_args, **_choices):
        held.wait(20)
        made.set()
        raise SearchError("too late")

    monkeypatch.setattr("workbench.widgets.find.finder.make_space", slow)
    stage.finder.find(FindGesture("8"), session.plan)
    stage.finder.stop()
    held.set()
    assert made.wait(20)
    assert (stage.finder.progress.phase, stage.finder.progress.message) == ("stopped", "")
    assert not hasattr(stage.runner, "searches")


def test_the_same_space_is_searched_by_the_same_process_and_another_one_by_another(stage, session):
    first = stage.find(session.plan)
    assert stage.find(session.plan, limit="1 KiB") is first
    assert [each.number for each in first.sent] == [1, 2]
    stage.update(first, FAST, number=1)
    assert stage.finder.progress.found == (), "an update of the search before"
    second = stage.find(session.plan, keep=True)
    assert second is not first
    assert first.cancels == 1


def test_a_question_goes_to_the_best_s_rival_and_starts_a_process_where_the_search_was_stopped(stage, session):
    process = stage.find(session.plan)
    stage.update(process, FAST, SMALL)
    stage.finder.stop()
    stage.finder.explain("0", "")
    again = stage.runner.searches[-1]
    request = again.sent[0]
    assert again is not process
    assert (request.end, request.start) == (FAST[0], SMALL[0])
    stage.finder.explain("1", "")
    assert again.sent[1].start == FAST[0], "for any other, from the best"
    again.hear(PlanExplanation(request.number, FAST[0], None, ()))
    assert stage.finder.progress.explanation is None, "an answer to the question before"
    answer = PlanExplanation(again.sent[1].number, SMALL[0], None, ())
    again.hear(answer)
    assert (stage.finder.progress.explanation, stage.finder.progress.asked) == (answer, 0)
    assert stage.finder.progress.phase == "stopped"


def test_what_an_explanation_planned_joins_the_front_where_it_belongs_and_stays_there(stage, session):
    process = stage.find(session.plan, limit="1 KiB")
    stage.update(process, FAST)
    stage.finder.explain("0", "")
    question = stage.finder.progress.asked
    large = PlanCandidate("", (("data", 8),), "replicated"), Figures(0.1, 4096, 8)
    changes = tuple(Counterfactual("mesh", candidate, "", FAST[1], figures) for candidate, figures in (SMALL, WORSE, large))
    process.hear(PlanExplanation(question, FAST[0], None, changes))
    assert [each for each, _ in stage.finder.progress.found] == [FAST[0], SMALL[0], WORSE[0], large[0]]
    assert [each for each, _ in stage.finder.progress.front] == [FAST[0], SMALL[0]], "one is beaten, one keeps no limit"
    stage.update(process, FAST, elapsed=2.0)
    assert [each for each, _ in stage.finder.progress.front] == [FAST[0], SMALL[0]]


def test_a_plan_of_the_front_is_among_those_found_before_it_is_sent(stage, session):
    process = stage.find(session.plan)
    process.hear(SearchUpdate(1, state_of(FAST, SMALL)))
    assert [each for each, _ in stage.finder.progress.found] == [FAST[0], SMALL[0]]


def test_a_plan_is_chosen_and_chosen_again_for_none(stage, session):
    process = stage.find(session.plan)
    stage.update(process, FAST, SMALL)
    stage.finder.choose("1")
    assert stage.finder.progress.chosen == SMALL[0]
    stage.finder.choose("1")
    assert stage.finder.progress.chosen is None


@pytest.mark.parametrize("number", ["", "2", "-1", "9" * 50, "one"])
def test_a_plan_that_was_not_found_is_refused(stage, session, number):
    process = stage.find(session.plan)
    stage.update(process, FAST, SMALL)
    with pytest.raises(SearchError) as caught:
        stage.finder.choose(number)
    assert str(caught.value) == "The search has not found that plan.\n  Try: search again."


def test_what_ends_a_process_is_said_and_the_next_search_has_another(stage, session):
    process = stage.find(session.plan)
    process.hear(Failed("It died.", ("search again",)))
    progress = stage.finder.progress
    assert (progress.phase, progress.message, progress.ways_out) == ("failed", "It died.", ("search again",))
    other = stage.find(session.plan)
    assert other is not process
    stage.update(other, FAST, is_over=True)
    other.hear(SearchClosed(1))
    assert stage.finder.progress.phase == "done"
    assert stage.find(session.plan) is not other


def test_a_refused_search_and_a_refused_question_are_told_apart(stage, session):
    process = stage.find(session.plan)
    stage.update(process, FAST, is_over=True)
    stage.finder.explain("0", "")
    process.hear(SearchRefused(stage.finder.progress.asked, "No ledger.", ()))
    assert (stage.finder.progress.phase, stage.finder.progress.message) == ("done", "No ledger.")
    stage.find(session.plan)
    process.hear(SearchRefused(stage.finder.progress.number, "No search.", ()))
    assert (stage.finder.progress.phase, stage.finder.progress.message) == ("failed", "No search.")


def test_what_was_mistyped_and_what_the_space_refuses_are_part_of_the_progress(stage, session):
    stage.finder.find(FindGesture("none"), session.plan)
    assert stage.finder.progress.message.startswith("`none` is not a number of devices")
    assert stage.finder.form.on == "none", "it stays in its field"
    stage.find(session.plan, layout="upside down")
    assert stage.finder.progress.phase == "failed"
    assert stage.finder.progress.message.startswith("There is no layout `upside down`")


def test_a_process_that_cannot_be_started_is_said(session):
    class Refusing(HeldRunner):
        def search(self, *_):
            raise EngineError("It cannot be sent.")

    stage = Stage(Refusing())
    stage.find(session.plan)
    assert (stage.finder.progress.phase, stage.finder.progress.message) == ("failed", "It cannot be sent.")


def test_a_board_that_runs_nothing_cannot_search(session):
    finder = Finder(None, lambda work: work(), lambda: None)
    with pytest.raises(SearchError, match=r"^Search is not available on this board\.$"):
        finder.find(FindGesture("8"), session.plan)


def test_the_process_and_the_traces_are_expected_once_the_form_is_seen(stage, session):
    stage.finder.expect(session.plan)
    assert stage.runner.expected is session.plan


@pytest.mark.compile
def test_the_plan_taken_has_the_figures_that_were_found_whatever_was_chosen(pytestconfig):
    plan = Plan(build("gpt", layers=2), "data:8", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))
    finder, space = Finder(None, lambda work: work(), lambda: None), make_space(plan)
    finder.progress = replace(finder.progress, space=space)
    kinds: dict = {}
    for each in space.candidates():  # one of each schedule, layout and set of axes that are used
        kinds.setdefault((each.schedule, each.layout, each.micro_batches > 1, tuple(size > 1 for _, size in each.mesh)), each)
    taken = 0
    for candidate in share_of(pytestconfig, list(kinds.values()), 5):
        try:
            found = evaluate_plan(candidate_plan(space, candidate))
        except WorkbenchError:
            continue
        assert evaluate_plan(finder.plan_of(candidate)) == found, candidate
        taken += 1
    assert taken >= 5


def test_the_plan_found_has_the_candidate_s_decisions_and_no_axis_of_one_device(stage, session):
    process = stage.find(session.plan)
    stage.update(process, FAST, WORSE)
    assert str(stage.finder.plan_of(FAST[0]).layout) == "batch:data; hidden:model"
    assert str(stage.finder.plan_of(WORSE[0]).mesh) == "data:8"
    edit = stage.finder.edit_of(FAST[0])
    assert str(edit) == "open the plan found: data:4 model:2, megatron, no ZeRO, remat as traced"
    assert stage.finder.changes_of(FAST[0], edit.plan) == "the present plan"
    assert stage.finder.changes_of(FAST[0], session.plan) == "changes: rule hidden: whole → model"
    assert stage.finder.changes_of(replace(FAST[0], layout="io", mesh=(("model", 128),)), session.plan) == ""
