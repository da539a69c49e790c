"""A plan that stands is compiled unasked while the machine is idle, and memory and kernel times settle to what the compiler found."""

from dataclasses import replace

import pytest

from tests.support.machines import flat
from tests.support.scripted import HeldRunner, compiled
from tests.widgets.test_board import Screen
from workbench.plan.edits import SetHardware, ShardDim
from workbench.reports.compiled import Scheduled
from workbench.reports.run_events import Cancelled, CompileDone, Failed
from workbench.widgets.run.background_compile import BUSY, PAUSE, SETTING, RestingCompiler, is_busy, processor_seconds

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34)
IDLE, WORKED = (0.0, 2.0), (2.0, 0.0)  # seconds of work and of idleness during a pause


class Rested(Screen):
    """A board over a runner that tells when the test says so; pauses end when the test says so, and the machine worked as it says."""

    def __init__(self, session, monkeypatch):
        self.waiting, self.pauses, self.spent, self.clock = [], [], IDLE, (0.0, 0.0)
        self.runner = HeldRunner()
        monkeypatch.delenv(SETTING, raising=False)
        made = lambda *args, **kwargs: RestingCompiler(*args, **kwargs, call_later=self.call_later, worked=lambda: self.clock)  # noqa: E731
        monkeypatch.setattr("workbench.widgets.board.board.RestingCompiler", made)
        super().__init__(session, runner=self.runner, defer=self.waiting.append)
        self.board.begin_compiling(self.waiting.append)
        self.turn()

    def call_later(self, seconds, work):
        assert seconds == PAUSE
        self.pauses.append(work)

    def turn(self):
        while self.waiting:
            self.waiting.pop(0)()
        return self.shown["board"]

    def rest(self):
        """The pauses that were begun are over."""
        self.clock = tuple(map(sum, zip(self.clock, self.spent, strict=True)))
        ended, self.pauses = self.pauses, []
        for work in ended:
            work()
        return self.turn()

    def done(self):
        self.runner.tell(CompileDone(compiled(self.runner.plan)))
        return self.turn()

    @property
    def is_compiling(self):
        return self.board._jobs.compiling.running


@pytest.fixture
def screen(session, monkeypatch):
    session.apply(SetHardware(HARDWARE))
    return Rested(session, monkeypatch)


def figure(state, key):
    return next(each for each in state["figures"] if each["key"] == key)


def test_after_a_pause_memory_and_kernel_times_are_the_compilers(screen):
    planned = screen.shown["board"]
    assert not screen.is_compiling
    screen.rest()
    assert screen.runner.plan is screen.board.session.plan
    assert screen.runner.behind
    assert screen.shown["live"]["compile"]["said"] == "", "nobody who only listens is interrupted"
    settled = screen.done()
    memory, report = figure(settled, "memory"), screen.board.session.report
    assert memory["tier"]["key"] == "compiled" == report.tier
    assert report.memory.peak == report.compiled.memory.peak == report.prediction.memory.peak * 3 // 2
    assert [(each["label"], each["text"]) for each in memory["tiers"]] == [("predicted", figure(planned, "memory")["text"])]
    assert report.step_time.estimate == pytest.approx(0.002), "one kernel of two milliseconds"
    assert report.step_time.exposed == report.prediction.step_time.exposed
    assert figure(settled, "predicted")["tier"]["key"] == "compiled"
    assert figure(settled, "sent")["tier"]["key"] == "planned", "what is sent is the partitioner's to say"
    assert "XLA of a script" in settled["standing"]["text"]


def test_an_edit_ends_it_without_a_word_and_undo_shows_what_was_found(screen):
    session = screen.board.session
    screen.rest()
    screen.done()
    found = session.report
    session.apply(ShardDim("hidden", ("model",)))
    assert session.report.tier == "planned"
    screen.rest()
    assert screen.is_compiling
    assert screen.runner.plan is session.plan
    session.undo()
    assert screen.runner.cancels == 1, "the newer plan goes first"
    screen.runner.tell(Cancelled())
    screen.turn()
    assert screen.shown["live"]["compile"]["message"] == ""
    assert session.report is found or session.report == found, "what was found is shown at once"
    screen.rest()
    assert not screen.is_compiling, "and not compiled again"


def test_what_was_compiled_of_a_plan_is_shown_when_somebody_goes_back_to_it(screen):
    session = screen.board.session
    screen.send("compile_at_rest", on=False)
    screen.send("compile")
    session.apply(ShardDim("hidden", ("model",)))
    screen.done()
    assert session.report.tier == "planned", "it is of the plan before"
    session.undo()
    screen.turn()
    assert session.report.tier == "compiled"


def test_of_edits_in_quick_succession_only_the_last_is_compiled(screen):
    session = screen.board.session
    session.apply(ShardDim("hidden", ("model",)))
    session.apply(ShardDim("hidden", ()))
    session.apply(ShardDim("io", ("model",)))
    screen.rest()
    assert screen.runner.plan is session.plan


def test_a_busy_machine_is_left_alone_until_it_is_idle(screen):
    screen.spent = WORKED
    screen.rest()
    assert not screen.is_compiling
    assert "busy" in screen.shown["live"]["at_rest"]["note"]
    screen.spent = IDLE
    screen.rest()
    assert screen.is_compiling
    assert screen.shown["live"]["at_rest"]["note"] == ""


def test_nothing_is_queued_beside_a_plan_that_another_board_has_compiled(screen, monkeypatch):
    """Also where the compiler confirms every figure, so that no table changes."""
    monkeypatch.setattr("workbench.widgets.board.board.changes_figures", lambda *_: False)
    screen.spent = WORKED
    screen.rest()
    assert screen.shown["live"]["at_rest"]["note"] == "Queued: CPU busy"
    session = screen.board.session
    session.use_compiled(session.node.number, compiled(session.plan))
    screen.turn()
    assert session.report.is_compiled
    assert screen.shown["live"]["at_rest"]["note"] == ""


def test_beside_a_program_that_libtpu_has_scheduled_only_kernel_times_are_queued(screen, monkeypatch):
    screen.spent = WORKED
    screen.rest()
    report = screen.board.session.report
    memory = compiled(report.plan).memory
    report = replace(report, compiled=Scheduled(str(HARDWARE), "libtpu 1", memory, kernels=1, kernel_seconds=0.002))
    monkeypatch.setattr(type(screen.board.session), "report", report)
    assert not report.is_compiled
    assert screen.board._resting.state()["note"] == "Kernel times queued: CPU busy"


def test_it_can_be_switched_off_and_on(screen):
    screen.rest()
    screen.send("compile_at_rest", on=False)
    assert screen.runner.cancels == 1, "what nobody asked for is given up"
    screen.runner.tell(Cancelled())
    screen.turn()
    assert screen.shown["live"]["at_rest"]["on"] is False
    screen.board.session.apply(ShardDim("hidden", ("model",)))
    screen.rest()
    assert not screen.is_compiling
    screen.send("compile_at_rest", on=True)
    screen.rest()
    assert screen.is_compiling


def test_what_a_person_asks_for_while_it_is_compiled_is_theirs(screen):
    screen.rest()
    screen.send("compile")
    assert not screen.board._jobs.compiling.unasked
    screen.send("drop", dim="hidden", source="", target="model", add=False)
    assert screen.runner.cancels == 0, "an edit does not end what was asked for"


def test_what_was_refused_or_cancelled_is_not_tried_again(screen):
    screen.rest()
    screen.runner.tell(Failed("It needs 18 GiB of 16."))
    screen.turn()
    assert screen.shown["live"]["compile"]["message"] == "It needs 18 GiB of 16."
    screen.rest()
    assert not screen.is_compiling
    assert not screen.pauses


def test_without_hardware_or_its_compiler_nothing_is_compiled(session, monkeypatch):
    screen = Rested(session, monkeypatch)
    assert not screen.pauses
    screen.runner.refusal = "There is no compiler here."
    session.apply(SetHardware(HARDWARE))
    screen.rest()
    assert not screen.is_compiling
    assert not screen.pauses


def test_a_closed_board_compiles_nothing(screen):
    screen.board.close()
    screen.rest()
    assert not screen.is_compiling


def test_the_setting_switches_it_off(session, monkeypatch):
    session.apply(SetHardware(HARDWARE))
    screen = Rested(session, monkeypatch)
    monkeypatch.setenv(SETTING, "when asked")
    other = RestingCompiler(session, screen.board._jobs, defer=lambda work: work())
    assert not other.is_on


def test_busy_is_a_share_of_all_processors_time():
    assert is_busy((0.0, 0.0), (BUSY + 0.01, 1 - BUSY - 0.01))
    assert not is_busy((5.0, 5.0), (5.0 + BUSY, 6.0 - BUSY))
    worked, idle = processor_seconds()
    assert worked > 0
    assert idle >= 0
