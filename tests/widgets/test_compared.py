"""What was compiled and run stands beside the prediction of the plan it was made for, and says when it is of an older one."""

import json

import pytest

from tests.support.machines import flat
from tests.support.scripted import HeldRunner, compiled, measurement
from tests.widgets.test_board import Screen
from workbench.hardware.catalogue import parse_hardware
from workbench.plan.edits import SetHardware
from workbench.reports.run_events import Cancelled, CompileDone, Progress, RunDone
from workbench.widgets.board.comparison_state import comparison_state
from workbench.widgets.board.tier_marks import mark_of
from workbench.widgets.run.job_progress import CompileProgress, RunProgress, on_these_devices


@pytest.fixture
def screen(session):
    return Screen(session, runner=HeldRunner())


def compile_now(screen, **changes):
    runner = screen.board._jobs._runner
    screen.send("compile")
    runner.tell(CompileDone(compiled(runner.plan, **changes)))


def figure(screen, key):
    return next(each for each in screen.shown["board"]["figures"] if each["key"] == key)


def blocks(screen):
    screen.send("open", tab="compared")
    return {each["title"]: each for each in screen.shown["table"]["blocks"]}


def test_before_anything_was_compiled_the_tab_says_how(screen):
    assert "This plan is neither compiled" in blocks(screen)[""]["note"]


def test_a_compilation_tells_its_stage_and_seconds(screen):
    screen.send("compile")
    runner = screen.board._jobs._runner
    runner.tell(Progress("compiling", 0.15, 1.0))
    state = screen.shown["live"]["compile"]
    assert (state["phase"], state["stage"], state["fraction"]) == ("running", "compiling · 0 s", 0.15)
    screen.send("cancel_compilation")
    assert runner.cancels == 1
    runner.tell(Cancelled())
    assert (screen.shown["live"]["compile"]["phase"], screen.shown["live"]["compile"]["message"]) == ("cancelled", "Cancelled.")


def test_while_the_hand_is_over_the_button_the_process_starts_and_nothing_is_said(screen):
    runner, shown = screen.board._jobs._runner, screen.count
    screen.board.answer({"verb": "compile", "ahead": True})
    assert (runner.expected, screen.count) == (screen.board.session.plan, shown)
    screen.send("compile")
    runner.expected = None
    screen.board.answer({"verb": "compile", "ahead": True})
    assert runner.expected is None, "one is under way"


def test_compiled_figures_stand_beside_the_predicted_ones(screen):
    compile_now(screen, widened=2)
    peak = screen.board.session.report.memory.peak
    assert figure(screen, "memory")["tiers"] == [
        {"label": "compiled", "text": figure_text(peak * 3 // 2), "note": "prediction −33%", "stale": "", "mark": mark_of("compiled")}
    ]
    assert [tier["note"] for tier in figure(screen, "flops")["tiers"]] == ["as predicted"]
    assert [tier["label"] for tier in figure(screen, "sent")["tiers"]] == ["payload, compiled"]
    facts = {each["label"]: each["text"] for each in screen.shown["live"]["compile"]["facts"]}
    assert facts["collectives"] == "0 of 1"
    assert facts["compiled for"] == "8 attached cpu"


def figure_text(count):
    from workbench.units import format_bytes

    return format_bytes(count)


def test_differences_are_shown_with_their_cause_and_its_meaning(screen):
    compile_now(screen, widened=2)
    found = blocks(screen)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    cells = found["Differences and causes"]["rows"][0]["cells"]
    assert cells[0]["text"] == "widened"
    assert "twice the bytes" in cells[0]["title"]
    assert "twice the bytes" in found["Causes"]["rows"][0]["cells"][1]["text"]
    assert cells[5]["path"] == screen.board.session.report.collectives[0].path
    assert cells[6]["text"] == screen.board.session.report.collectives[0].source


def test_a_compilation_that_agrees_says_so(screen):
    compile_now(screen, widened=1)
    assert any(
        "has exactly the planned collectives" in each["note"] for each in screen.shown["table"]["blocks"] + list(blocks(screen).values())
    )


def test_after_an_edit_what_was_compiled_is_marked_and_comes_back_with_undo(screen):
    compile_now(screen)
    screen.send("drop", dim="hidden", source="", target="model")
    assert figure(screen, "memory")["tiers"][0]["stale"] == "before the last edit"
    assert screen.shown["live"]["compile"]["stale"] is True
    assert "batch:data" in screen.shown["live"]["compile"]["of"]
    screen.send("open", tab="compared")
    assert "Before the last edits" in screen.shown["table"]["blocks"][0]["note"]
    screen.send("undo")
    assert screen.shown["live"]["compile"]["stale"] is False
    assert figure(screen, "memory")["tiers"][0]["stale"] == ""


def test_a_cancelled_compilation_takes_nothing_away(screen):
    compile_now(screen)
    screen.send("compile")
    screen.board._jobs._runner.tell(Cancelled())
    assert screen.board.compiled is not None
    assert figure(screen, "memory")["tiers"]


def test_a_compiler_that_is_not_there_is_a_message(session):
    from workbench.errors import EngineError

    class Missing(HeldRunner):
        def compile(self, plan, on_event, *, behind=False):  # noqa: ARG002 - the protocol
            raise EngineError("libtpu is not installed.", ["install it"])

    screen = Screen(session, runner=Missing())
    screen.send("compile")
    state = screen.shown["live"]["compile"]
    assert (state["phase"], state["message"]) == ("error", "libtpu is not installed.\n  Try: install it.")


def test_run_and_compilation_meet_in_one_comparison(screen):
    runner = screen.board._jobs._runner
    compile_now(screen)
    screen.send("run", steps="3")
    runner.tell(RunDone(measurement(screen.board.session.plan)))
    rows = {row["key"]: row["cells"] for each in blocks(screen).values() for row in each["rows"]}
    assert rows["step"][3]["text"] == "11.0 ms"
    assert rows["peak memory"][2]["text"] == figure_text(screen.board.session.report.memory.peak * 3 // 2)


def test_a_run_on_other_devices_says_nothing_of_the_hardware_that_is_planned_for(session):
    session.apply(SetHardware(parse_hardware("TPU v5e 2x4")))
    ran = RunProgress(phase="done", measurement=measurement(session.plan), report=session.report)
    assert comparison_state(session.report, CompileProgress(), ran) is None
    assert on_these_devices(session.plan, measurement(session.plan, device_kind="TPU v5 lite"))


def test_differences_are_worked_out_once_however_many_edits_follow(screen):
    compile_now(screen)
    screen.send("drop", dim="hidden", source="", target="model")
    kept = screen.board._figures.comparison_state.comparison
    screen.send("resize", axis="model", size="1")
    assert screen.board._figures.comparison_state.stale
    assert screen.board._figures.comparison_state.comparison is kept


def test_a_run_here_does_not_replace_the_hardware_that_is_planned_for(screen):
    session = screen.board.session
    screen.send("hardware", chip="TPU v5e", shape="2x4")
    screen.send("run", steps="3")
    cpu = flat("cpu", flops=1e10)
    screen.board._jobs._runner.tell(RunDone(measurement(session.plan, hardware=cpu)))
    assert session.report.step_time.hardware == "TPU v5e 2x4"
    session.use_hardware(cpu)
    assert session.report.step_time.hardware == "TPU v5e 2x4"
    screen.send("hardware", chip="", shape="")
    assert session.report.step_time.hardware == "cpu"
