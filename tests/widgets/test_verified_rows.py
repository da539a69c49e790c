"""The compilers asked about plans found: XLA's partitioner by itself, the compiler on request; refused, stopped, and shown in the rows."""

import threading
import time
from concurrent.futures import Future
from dataclasses import replace

import pytest

from tests.support.scripted import HeldRunner, ScriptedRunner, compiled
from tests.widgets.test_find_tab import PATIENCE, Board, table
from tests.widgets.test_finder import Stage
from workbench.analysis.analyze import analyze
from workbench.errors import EngineError, PartitionError
from workbench.exercises.plan_figures import mfu
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.reports.run_events import CompileDone, Failed, Progress, Waiting
from workbench.session.plan_history import Session
from workbench.units import format_bytes, format_seconds, format_share
from workbench.widgets.find.board_compilers import NO_PARTITIONER, STOPPED
from workbench.widgets.find.found_explained import verified_block, verify_act, waiting_text

ANSWER = Partitioned("tpu", 8, "XLA of a script", ())


class ScriptedPartitioner:
    """Says that nothing is sent, at once, or when the test says so."""

    def __init__(self, *, is_held=False):
        self.is_held, self.asked, self.cancelled = is_held, [], []

    def ask(self, plan, _hardware):
        answer = Future()
        self.asked.append((plan, answer))
        if not self.is_held:
            answer.set_result(ANSWER)
        return answer

    def cancel(self, answer):
        self.cancelled.append(answer)


@pytest.fixture(scope="module")
def plan():
    return Plan(build("mnist", batch=64), "data:8", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))


@pytest.mark.compile
def test_the_rows_that_xla_was_asked_about_have_the_figures_of_its_report_and_the_present_plan_the_header_s(plan):
    board, lock = Board(Session(plan), runner=ScriptedRunner()), threading.RLock()

    def defer(work):
        with lock:
            work()

    partitioner = ScriptedPartitioner()
    board.board.begin_settling(partitioner, defer)
    board.send("find", on="8 TPU v5e", within=PATIENCE, stages="1", micro_batches="1")
    finder = board.board._find.finder
    board.wait_for(lambda: board.form["phase"] == "done" and not board.form["running"], 60)
    board.wait_for(lambda: board.board.session.report.partitioned is not None)
    board.send("open", tab="find")
    _, rows = table(board)
    assert {row["tier"] for row in rows[:10]} == {"partitioned"}
    for row in rows:
        if row["tier"] == "partitioned":
            shown = finder.plan_of(finder.candidate(row["key"]))
            report = analyze(shown, answer=ANSWER)
            assert (row["step"], row["memory"]) == (format_seconds(report.seconds), format_bytes(report.peak)), row
            assert row["MFU"] == format_share(mfu(report)), row
    seconds = [finder.progress.known(each, figures).figures.seconds for each, figures in finder.progress.contenders]
    assert rows[0]["step"] == format_seconds(min(seconds)), "ranked anew by what XLA says"
    assert present_row(board) == ("partitioned", *header(board))
    assert f"{len(finder.progress.contenders)} of {len(finder.progress.contenders)} checked by XLA" in board.form["line"]
    planned = header(board)
    board.send("compile")
    board.wait_for(lambda: board.board.session.report.is_compiled)
    board.wait_for(lambda: present_row(board)[0] == "compiled")
    assert present_row(board) == ("compiled", *header(board))
    assert header(board) != planned
    board.board.close()


def present_row(board):
    board.send("open", tab="find")
    return next((row["tier"], row["step"], row["memory"]) for row in table(board)[1] if row["changes"] == "present plan")


def header(board):
    shown = {each["key"]: each["text"] for each in board.shown["board"]["figures"]}
    return shown["predicted"], shown["memory"]


class Verifying(Stage):
    """A search that is over, with a partitioner and a runner that answer when the test says so."""

    def __init__(self, plan, runner=None):
        super().__init__(runner)
        process = self.find(plan, within=PATIENCE, stages="1", micro_batches="1")
        start = self.finder.progress.start
        self.update(process, (start, self.finder.progress.space and plan_figures(plan)), is_over=True)
        self.candidate, self.partitioner = start, ScriptedPartitioner(is_held=True)
        self.finder.compilers.partitioner = self.partitioner

    @property
    def progress(self):
        return self.finder.progress

    def pump(self, is_so):
        """Do what threads defer until it is so."""
        until = time.monotonic() + 60
        while not is_so():
            assert time.monotonic() < until, self.progress
            while not self.deferred.empty():
                self.deferred.get()()
            time.sleep(0.01)

    def ask(self):
        self.finder.verify("0")
        self.pump(lambda: len(self.partitioner.asked) > 0)

    def answer(self, answer=ANSWER):
        future = self.partitioner.asked[-1][1]
        future.set_exception(answer) if isinstance(answer, Exception) else future.set_result(answer)
        self.pump(lambda: self.candidate in self.progress.verified)

    def is_over(self):
        return self.progress.asking is None and not self.progress.is_checking

    def cells(self, tier):
        rows = verified_block(self.progress, self.progress.verified[self.candidate][1])["rows"]
        row = next(each for each in rows if each["key"] == tier)
        return [each["text"] if isinstance(each, dict) else each for each in row["cells"]]


def plan_figures(plan):
    from workbench.search.search_figures import evaluate_plan

    return evaluate_plan(plan)


@pytest.fixture
def stage(plan):
    verifying = Verifying(plan)
    yield verifying
    verifying.finder.close()


def waiting(stage):
    return waiting_text(stage.progress, stage.candidate, stage.finder.compilers.stage)


def test_the_partitioner_is_asked_and_then_the_compiler_and_each_answer_is_shown(stage):
    stage.ask()
    assert waiting(stage) == "Asking XLA's partitioner…"
    assert verify_act(stage.progress, stage.candidate, "0")["label"] == "Stop verifying"
    assert not hasattr(stage.runner, "plan"), "the compiler comes second"
    stage.answer()
    stage.pump(lambda: hasattr(stage.runner, "plan"))
    assert stage.cells("partitioned")[-1] == "XLA of a script"
    assert stage.cells("compiled")[1:] == ["…", "", "…", "", ""]
    stage.runner.tell(Waiting(1))
    stage.pump(lambda: "1 job ahead" in waiting(stage))
    stage.runner.tell(Progress("compiling", 0.5, 3.0))
    stage.pump(lambda: waiting(stage) == "Asking the compiler of TPU v5e 2x4: compiling · 3 s…")
    stage.runner.tell(CompileDone(compiled(stage.runner.plan)))
    stage.pump(stage.is_over)
    verified = stage.progress.verified[stage.candidate][1]
    assert verified.difference("memory", "compiled") == pytest.approx(0.5, abs=1e-3)
    assert stage.cells("compiled")[4:] == ["+50%", "XLA of a script"]
    assert verified.compiled.seconds == pytest.approx(0.002, rel=0.5), "the kernels' 2 ms"
    assert waiting(stage) == ""
    assert verify_act(stage.progress, stage.candidate, "0")["gesture"] == {"verb": "verify_found", "plan": "0"}


def test_stop_gives_up_the_question_under_way_and_keeps_the_answers(stage):
    stage.ask()
    stage.finder.stop_verifying()
    stage.pump(stage.is_over)
    assert stage.partitioner.cancelled == [answer for _, answer in stage.partitioner.asked]
    assert stage.cells("partitioned")[1:] == ["–", "", "–", "", STOPPED]
    assert not hasattr(stage.runner, "plan")
    stage.finder.verify("0")
    stage.pump(lambda: len(stage.partitioner.asked) == 2)
    stage.partitioner.asked[-1][1].set_result(ANSWER)
    stage.pump(lambda: hasattr(stage.runner, "plan"))
    stage.finder.stop_verifying()
    stage.pump(stage.is_over)
    assert stage.runner.cancels == 1
    verified = stage.progress.verified[stage.candidate][1]
    assert (verified.partitioned.compiler, verified.compiled.reason) == ("XLA of a script", STOPPED)
    stage.runner.tell(CompileDone(compiled(stage.runner.plan)))
    assert stage.progress.verified[stage.candidate][1] is verified


def test_stop_gives_up_the_plan_that_was_asked_for_and_not_the_one_that_is_ahead(stage, plan):
    other, figures = replace(stage.candidate, zero="zero_1"), plan_figures(plan)
    process = stage.find(plan, within=PATIENCE, stages="1", micro_batches="1")
    stage.update(process, (stage.candidate, figures), (other, figures), is_over=True)
    stage.pump(lambda: len(stage.partitioner.asked) == 1)
    ahead = stage.progress.contenders[0][0]
    stage.finder.verify(stage.progress.number_of(other if ahead == stage.candidate else stage.candidate))
    assert stage.progress.asking[0] != ahead
    stage.finder.stop_verifying()
    assert (stage.partitioner.cancelled, stage.progress.asking) == ([], (ahead, "partitioned"))
    stage.partitioner.asked[0][1].set_result(ANSWER)
    stage.pump(lambda: ahead in stage.progress.verified)
    assert stage.progress.verified[ahead][1].partitioned.compiler == "XLA of a script"


def test_refusals_and_failures_are_said_and_the_compiler_is_asked_all_the_same(stage, caplog):
    for error, text in (
        (PartitionError("It crashed.", ["revert the layout"]), "It crashed. Try: revert the layout."),
        (ValueError("odd"), "The workbench itself failed: ValueError: odd"),
    ):
        count = len(stage.partitioner.asked)
        stage.finder.verify("0")
        stage.pump(lambda before=count: len(stage.partitioner.asked) > before)
        stage.partitioner.asked[-1][1].set_exception(error)
        stage.pump(lambda: waiting(stage).startswith("Asking the compiler") and hasattr(stage.runner, "tell"))
        stage.runner.tell(Failed("It has no room.", ("take more devices",)))
        stage.pump(stage.is_over)
        assert stage.cells("partitioned")[1:] == ["–", "", "–", "", text]
        assert stage.cells("compiled")[1:] == ["–", "", "–", "", "It has no room. Try: take more devices."]
        del stage.runner.tell  # the next compilation has its own
    assert "A compiler's answer failed" in caplog.text


def test_a_compiler_that_is_not_there_says_so_and_so_does_a_board_without_a_partitioner(plan):
    class Refusing(HeldRunner):
        def compile(self, *_args, **_options):
            raise EngineError("No compiler is installed.", ["pip install one"])

    stage = Verifying(plan, Refusing())
    stage.finder.compilers.partitioner = None
    stage.finder.verify("0")
    stage.pump(lambda: stage.candidate in stage.progress.verified and stage.is_over())
    assert stage.cells("partitioned")[-1] == NO_PARTITIONER
    assert stage.cells("compiled")[-1] == "No compiler is installed. Try: pip install one."
    stage.finder.close()
