"""The Run panel's state: a value moved on by events, and what is told of the plan at hand."""

import json
import threading
from math import inf, nan

import pytest

from tests.support.machines import flat
from tests.support.scripted import HeldRunner, compiled, measurement
from tests.widgets.test_board import Screen
from workbench.app.runners.worker_runner import WorkerRunner
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import SetHardware, ShardDim
from workbench.public_plan import Plan
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, RunDone, StepDone
from workbench.units import format_bytes
from workbench.widgets.board.board_host import Host
from workbench.widgets.run.board_jobs import Jobs
from workbench.widgets.run.job_progress import MOST_KEPT, MOST_MESSAGES, RunProgress, append_message, log_state
from workbench.widgets.run.run_panel import INVITATION, MOST_POINTS, STALE, curve, run_state


def begun(session) -> RunProgress:
    return RunProgress().begin(session.report, 4, {"data": 0, "model": 1}, now=10.0)


def ended(session, **changes) -> RunProgress:
    return begun(session).after(RunDone(measurement(session.plan, **changes)), now=12.0)


def test_events_move_a_run_from_start_to_end(session):
    live = begun(session).after(Progress("compiling", 0.25), now=10.5)
    assert (live.stage, live.fraction) == ("compiling", 0.25)
    for step in (1, 2):
        live = live.after(StepDone(step, 4, 0.01, 3.0 - step), now=12.0)
    assert (live.stage, live.fraction, live.losses) == ("step 2 of 4", 0.5, (2.0, 1.0))
    assert run_state(live, session.plan)["stage"] == "step 2 of 4 · 2 s"
    live = live.after(RunDone(measurement(session.plan)), now=13.0)
    assert (live.phase, live.running) == ("done", False)


@pytest.mark.parametrize(
    ("event", "phase", "words", "said"),
    [
        (Failed("out of memory"), "error", "out of memory", "The run failed. out of memory"),
        (Cancelled(), "cancelled", "Cancelled.", "The run was cancelled."),
    ],
)
def test_a_run_may_end_in_words(session, event, phase, words, said):
    state = run_state(begun(session).after(event), session.plan)
    assert (state["phase"], state["message"], state["said"]) == (phase, words, said)


def test_the_log_tells_each_stage_once_with_its_second(session):
    live = begun(session)
    for second in (0.5, 1.5, 2.5):
        live = live.after(Progress("compiling", 0.2), now=10.0 + second)
    live = live.after(StepDone(1, 4, 0.25, 1.0), now=13.0)
    live = live.after(Failed("The worker process of the run of two-layer was killed."), now=13.5)
    told = [(line["at"], line["text"], line["tone"]) for line in run_state(live, session.plan)["log"]]
    assert told[0][1].startswith("4 steps of two-layer on data:4 model:2")
    assert told[1:] == [
        ("0.5 s", "compiling", ""),
        ("3.0 s", "first step: 250 ms", ""),
        ("3.5 s", "The worker process of the run of two-layer was killed.", "bad"),
    ]


def test_a_log_keeps_its_last_lines():
    log = ()
    for line in range(MOST_MESSAGES + 5):
        log = append_message(log, line, f"line {line}")
    assert (len(log), log[-1].text) == (MOST_MESSAGES, f"line {MOST_MESSAGES + 4}")
    assert len({each["key"] for each in log_state(log)}) == MOST_MESSAGES


def test_results_set_measured_beside_predicted(session):
    state = run_state(ended(session), session.plan)
    facts = {fact["label"]: (fact["text"], fact["note"]) for fact in state["facts"]}
    assert facts["measured step"] == ("11.0 ms", "median of 3; 10.2 ms to 11.8 ms")
    assert facts["predicted step"] == ("5.00 ms", "for 8 × cpu, as calibrated after the run; measured is 2.20× of it")
    assert facts["shard shapes"] == ("3 of 3", "match the real arrays")
    assert all(row["cells"][4] == {"text": "equal", "tone": "good"} for row in state["blocks"][0]["rows"])


def test_a_wrong_result_is_said_in_red_in_the_facts_and_at_the_end(session):
    live = ended(session, max_error=0.5, explained_error=1e-5, first_wrong="grad/conv (model.py:3)")
    said = (
        "WRONG RESULT: this plan and the unsharded step differ: the largest relative error is 5.0e-01, and rounding "
        "explains up to 1.0e-05. The first wrong value is grad/conv (model.py:3)."
    )
    state = run_state(live, session.plan)
    fact = next(each for each in state["facts"] if each["label"] == "against unsharded")
    assert (fact["text"], fact["note"], fact["tone"]) == ("5.0e-01", said, "bad")
    assert state["said"] == said


def test_disagreements_are_listed_first(session):
    first = run_state(ended(session, wrong=2), session.plan)["blocks"][0]
    assert first["title"] == "Shards that differ from the plan"
    assert [row["key"] for row in first["rows"]] == ["x", "w"]


def test_compiled_collectives_that_differ_say_by_how_much(session):
    predicted = session.report.by_axis_and_kind
    assert set(predicted) == {(("data",), "all-reduce")}
    doubled = {key: 2 * count for key, count in predicted.items()} | {(("model",), "all-gather"): 64}
    rows = [row["cells"] for row in run_state(ended(session, compiled=doubled), session.plan)["blocks"][0]["rows"]]
    assert [(cells[0]["axes"][0]["name"], cells[1], cells[4]["text"]) for cells in rows] == [
        ("data", "reduce", "2.00×"),
        ("model", "all-gather", "not predicted"),
    ]


def test_a_result_stays_with_its_plan_and_is_stale_beside_another(session):
    live, first = ended(session), session.plan
    second = first.apply(ShardDim("hidden", ("model",)))
    beside = run_state(live, second)
    assert (beside["stale"], beside["message"], beside["of"]) == (True, STALE, str(first))
    live = live.begin(second.report(), 3, {}).after(RunDone(measurement(second, losses=(9.0, 8.0))))
    back = run_state(live, first)
    assert (back["stale"], back["phase"]) == (False, "done")
    assert {fact["label"]: fact["text"] for fact in back["facts"]}["loss"] == "5 → 3"
    assert {fact["label"]: fact["text"] for fact in run_state(live, second)["facts"]}["loss"] == "9 → 8"


def test_an_error_of_one_plan_says_so_beside_another_and_not_beside_one_that_ran(session):
    failed = begun(session).after(Failed("out of memory"))
    other = session.plan.apply(ShardDim("hidden", ("model",)))
    assert run_state(failed, session.plan)["message"] == "out of memory"
    state = run_state(failed, other)
    assert (state["message"], state["of"]) == ("out of memory", str(session.plan))
    ran = RunProgress().begin(other.report(), 3, {}).after(RunDone(measurement(other)))
    failed = ran.begin(session.report, 3, {}).after(Failed("out of memory"))
    state = run_state(failed, other)
    assert (state["message"], state["of"], state["phase"]) == ("", "", "done")


def test_before_anything_ran_the_panel_says_what_a_run_is(session):
    assert run_state(RunProgress(), session.plan)["message"] == INVITATION


def test_so_many_results_are_kept_and_one_for_each_plan(session):
    live = ended(session)
    for size in (2, 4, 8, 16, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        plan = Plan(session.plan.program, f"data:{size}") if size <= 16 else Plan(session.plan.program, f"data:2 spare:{size}")
        live = live.begin(plan.report(), 3, {}).after(RunDone(measurement(plan)))
    assert len(live.ran) == MOST_KEPT
    assert len({str(each.plan) for each in live.ran}) == MOST_KEPT
    assert live.of(session.plan) is None


def test_undo_shows_again_what_was_compiled_and_run_for_the_plan(session):
    screen = Screen(session, runner=(runner := HeldRunner()))
    screen.send("run", steps="3")
    runner.tell(RunDone(measurement(session.plan)))
    screen.send("compile")
    runner.tell(CompileDone(compiled(session.plan)))
    assert (screen.shown["live"]["stale"], screen.shown["live"]["compile"]["stale"]) == (False, False)
    screen.send("drop", dim="hidden", source="", target="model", add=False)
    assert (screen.shown["live"]["stale"], screen.shown["live"]["compile"]["stale"]) == (True, True)
    screen.send("undo")
    assert (screen.shown["live"]["stale"], screen.shown["live"]["compile"]["stale"]) == (False, False)
    assert screen.shown["live"]["compile"]["facts"]
    assert screen.shown["live"]["facts"]


def test_a_curve_fills_its_box_and_keeps_its_ends():
    drawn = curve("loss", tuple(float(i) for i in range(1001)), str)
    assert len(drawn["points"]) <= MOST_POINTS + 1
    assert (drawn["points"][0], drawn["points"][-1]) == ([0.0, 100.0], [100.0, 0.0])
    assert (drawn["told"][0], drawn["told"][-1], len(drawn["told"])) == ("step 1: 0.0", "step 1,001: 1000.0", len(drawn["points"]))
    assert (drawn["first"], drawn["end"], drawn["across"]) == ("step 1", "1,001", None)


def test_a_curve_can_show_its_median():
    assert curve("step time", (1.0, 2.0, 5.0), str, middle=True)["across"] == {"y": 75.0, "text": "median 2.0"}


def test_a_loss_that_is_not_a_number_is_left_out_of_the_curve_and_counted(session):
    live = RunProgress(phase="running", losses=(1.0, nan, inf, 2.0), seconds=(0.01, 0.02), report=session.report)
    state = run_state(live, session.plan)
    json.dumps(state, allow_nan=False)
    assert [each["label"] for each in state["curves"]] == ["loss", "step time"]
    assert state["curves"][0]["told"] == ["step 1: 1", "step 4: 2"]
    assert run_state(RunProgress(phase="running", losses=(nan, nan)), session.plan)["curves"] == []
    facts = run_state(ended(session, losses=(1.0, nan)), session.plan)["facts"]
    assert ("not a number", "1 losses") in [(fact["label"], fact["text"]) for fact in facts]


def test_events_are_taken_in_the_order_they_were_told_even_if_the_host_turns_them_around(session):
    deferred = []
    jobs = Jobs(runner := HeldRunner(), deferred.append, lambda _: None)
    jobs.run(session.report, "3", {})
    for step in (1, 2, 3):
        runner.tell(StepDone(step, 3, step / 100, float(step)))
    for work in reversed(deferred):
        work()
    assert jobs.live.losses == (1.0, 2.0, 3.0)


def test_a_worker_that_is_killed_is_a_message_and_the_board_lives_on(session):
    """The real engine: its process is ended from outside, as the system does when memory runs out."""
    changed = threading.Event()
    jobs = Jobs(WorkerRunner(), lambda work: work(), lambda ended: changed.set() if ended else None)
    jobs.run(session.report, "10000", {})
    jobs._run._process.kill()
    assert changed.wait(60)
    assert (jobs.live.phase, jobs.live.running) == ("error", False)
    assert "two-layer" in jobs.live.message
    assert "killed" in jobs.live.message.lower()
    assert jobs.live.log[-1].tone == "bad"


def test_a_run_of_one_board_is_shown_on_another_of_the_session(session):
    runner = HeldRunner()
    other = Screen(session, runner=HeldRunner())
    mine = Screen(session, runner=runner, host=Host(ran=other.board.show_run))
    mine.send("run", steps="4")
    runner.tell(RunDone(measurement(session.plan)))
    assert mine.board.measurement is not None
    assert other.board.measurement is mine.board.measurement
    assert "measured" in json.dumps(other.shown["board"]["figures"])
    other.send("run", steps="4")
    assert other.board.measurement is mine.board.measurement  # a run of one's own that has begun does not hide it


def test_a_run_is_compared_with_the_prediction_for_the_devices_that_it_ran_on(session):
    session.apply(SetHardware(parse_hardware("TPU v5p 2x2x2")))
    here = flat("cpu", flops=1e11, memory_bandwidth=1e10, sent_bandwidth=1e9, latency=1e-5, memory=1 << 34, devices=8)
    there = session.plan.updated(hardware=here).report()
    facts = {fact["label"]: fact["note"] for fact in run_state(ended(session, hardware=here), session.plan)["facts"]}
    assert facts["peak memory"] == f"by XLA; predicted {format_bytes(there.peak)}"
    unknown = {fact["label"]: fact["note"] for fact in run_state(ended(session), session.plan)["facts"]}
    assert unknown["peak memory"].endswith("for TPU v5p 2x2x2, not for these devices")
