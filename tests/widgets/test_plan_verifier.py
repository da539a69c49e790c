"""Asking the compilers about a plan found: the partitioner, then the compiler, in the background; stopped, refused, and shown."""

import threading
import time
from concurrent.futures import Future
from dataclasses import replace

import pytest

from tests.support.scripted import HeldRunner, compiled
from workbench.analysis.verify_plan import MICRO_BATCHES, PIPELINED_REASON, STAGES
from workbench.errors import EngineError, PartitionError, SearchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.partitioned import Partitioned
from workbench.reports.run_events import Cancelled, CompileDone, Failed, Progress, Waiting
from workbench.reports.verified_plan import TierFigures
from workbench.search.plan_candidate import PlanCandidate
from workbench.widgets.find.found_pictures import verified_blocks, verify_act, waiting_text
from workbench.widgets.find.plan_verifier import NO_PARTITIONER, PlanVerifier
from workbench.widgets.find.verification import PENDING, STOPPED

ONE = PlanCandidate("", (("data", 8),), "replicated")
OTHER = PlanCandidate("", (("data", 4), ("model", 2)), "megatron")


class HeldPartitioner:
    """Answers when the test says so."""

    def __init__(self):
        self.asked, self.cancelled = [], []

    def ask(self, _plan, _hardware):
        self.asked.append(Future())
        return self.asked[-1]

    def cancel(self, answer):
        self.cancelled.append(answer)


class Stage:
    """A verifier whose deferred work is done at once, under a lock, as a board does it."""

    def __init__(self, runner=None):
        self.runner, self.partitioner, self.lock, self.changes = runner or HeldRunner(), HeldPartitioner(), threading.RLock(), 0
        self.verifier = PlanVerifier(self.runner, self._defer, self._changed)
        self.verifier.partitioner = self.partitioner

    def _defer(self, work):
        with self.lock:
            work()

    def _changed(self):
        self.changes += 1

    @property
    def progress(self):
        return self.verifier.progress

    def ask(self, plan, candidate=ONE):
        report = plan.report()
        self.verifier.ask(candidate, plan, TierFigures(report.step_time.total, report.memory.peak))

    def answer(self, answer=None, place=-1):
        """The partitioner's answer; waits for the compiler to be asked."""
        if isinstance(answer, Exception):
            self.partitioner.asked[place].set_exception(answer)
        else:
            self.partitioner.asked[place].set_result(answer or Partitioned("tpu", 8, "XLA of a script", ()))
        self.wait_for(lambda: self.progress.tier != "partitioned")

    def wait_for(self, is_so):
        until = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < until, self.progress
            time.sleep(0.01)


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture(scope="module")
def plan():
    return Plan(build("mnist", batch=64), "data:8", "batch:data", hardware=parse_hardware("TPU v5e 2x4"))


def cells(progress, tier, candidate=ONE):
    [block] = verified_blocks(progress, candidate)
    row = next(each for each in block["rows"] if each["key"] == tier)
    return [each["text"] if isinstance(each, dict) else each for each in row["cells"]]


def test_the_partitioner_is_asked_and_then_the_compiler_and_each_answer_is_shown(stage, plan):
    stage.ask(plan)
    assert waiting_text(stage.progress, ONE) == "Asking XLA's partitioner…"
    assert verify_act(stage.progress, ONE, "3")["label"] == "Stop verifying"
    assert cells(stage.progress, "partitioned")[1:3] == ["…", ""]
    assert not hasattr(stage.runner, "plan"), "the compiler comes second"
    stage.answer()
    assert stage.runner.plan is plan
    assert cells(stage.progress, "partitioned")[-1] == "XLA of a script"
    assert cells(stage.progress, "partitioned")[4] == "same"
    stage.runner.tell(Waiting(1))
    assert waiting_text(stage.progress, ONE) == "Asking the compiler of TPU v5e 2x4: waiting: 1 job ahead…"
    stage.runner.tell(Progress("compiling", 0.5, 3.0))
    assert waiting_text(stage.progress, ONE) == "Asking the compiler of TPU v5e 2x4: compiling · 3 s…"
    stage.runner.tell(CompileDone(compiled(plan)))
    stage.wait_for(lambda: stage.progress.tier is None)
    verified = stage.progress.of(ONE)
    assert verified.difference("memory", "compiled") == pytest.approx(0.5, abs=1e-3)
    assert cells(stage.progress, "compiled")[4:] == ["+50%", "XLA of a script"]
    assert verified.compiled.seconds == pytest.approx(0.002, rel=0.5), "the kernels' 2 ms"
    assert waiting_text(stage.progress, ONE) == ""
    assert verify_act(stage.progress, ONE, "3")["gesture"] == {"verb": "verify_found", "plan": "3"}


def test_stop_cancels_whoever_is_asked_keeps_what_was_answered_and_hears_no_more(stage, plan):
    stage.ask(plan)
    stage.verifier.stop()
    assert stage.partitioner.cancelled == stage.partitioner.asked
    assert cells(stage.progress, "partitioned")[1:] == ["–", "", "–", "", STOPPED]
    stage.partitioner.asked[0].set_result(Partitioned("tpu", 8, "late", ()))
    assert not hasattr(stage.runner, "plan")
    stage.ask(plan)
    stage.answer()
    stage.verifier.stop()
    assert stage.runner.cancels == 1
    assert stage.progress.of(ONE).partitioned.compiler == "XLA of a script"
    assert stage.progress.of(ONE).compiled.reason == STOPPED
    before = stage.progress
    stage.runner.tell(CompileDone(compiled(plan)))
    stage.runner.tell(Cancelled())
    assert stage.progress is before


def test_another_plan_stops_the_one_before_and_both_stay_known_until_another_search(stage, plan):
    stage.ask(plan)
    stage.answer()
    stage.ask(plan, OTHER)
    assert stage.runner.cancels == 1
    assert stage.progress.is_asking(OTHER)
    assert not stage.progress.is_asking(ONE)
    assert verify_act(stage.progress, ONE, "0")["label"] == "Verify with compilers"
    assert stage.progress.of(ONE).partitioned.compiler == "XLA of a script"
    stage.verifier.forget()
    assert (stage.progress.of(ONE), stage.progress.of(OTHER)) == (None, None)


def test_a_refusal_of_the_partitioner_is_said_and_the_compiler_is_asked_all_the_same(stage, plan):
    stage.ask(plan)
    stage.answer(PartitionError("It crashed.", ["revert the layout"]))
    assert cells(stage.progress, "partitioned")[1:] == ["–", "", "–", "", "It crashed. Try: revert the layout."]
    stage.runner.tell(Failed("It has no room.", ("take more devices",)))
    assert cells(stage.progress, "compiled")[1:] == ["–", "", "–", "", "It has no room. Try: take more devices."]
    assert stage.progress.tier is None


def test_what_fails_in_the_workbench_itself_is_a_sentence(stage, plan, caplog):
    stage.ask(plan)
    stage.answer(ValueError("odd"))
    assert stage.progress.of(ONE).partitioned.reason == "The workbench itself failed: ValueError: odd"
    assert "A plan could not be verified" in caplog.text


def test_a_compiler_that_is_not_there_says_so_at_once(plan):
    class Refusing(HeldRunner):
        def compile(self, *_args, **_options):
            raise EngineError("No compiler is installed.", ["pip install one"])

    stage = Stage(Refusing())
    stage.ask(plan)
    stage.answer()
    assert stage.progress.of(ONE).compiled == TierFigures(reason="No compiler is installed.", ways_out=("pip install one",))
    assert stage.progress.tier is None
    assert stage.changes


def test_a_pipeline_and_a_board_without_a_partitioner_go_to_the_compiler_at_once(stage, plan):
    pipelined = Plan(build("gpt", layers=2), "stage:2", "", hardware=parse_hardware("2 H100"), pipeline="stages:2 micro_batches:2")
    stage.verifier.ask(ONE, pipelined, TierFigures(0.01, 1 << 20))
    assert stage.progress.of(ONE).partitioned.reason == PIPELINED_REASON
    assert stage.runner.plan is pipelined
    part = compiled(plan)
    for stages, reason in (((part, part), STAGES), ((part,), MICRO_BATCHES)):
        stage.verifier.ask(ONE, pipelined, TierFigures(0.01, 1 << 20))
        stage.runner.tell(CompileDone(replace(part, stages=stages)))
        stage.wait_for(lambda: stage.progress.tier is None)
        assert stage.progress.of(ONE).compiled == TierFigures(None, part.memory.peak, reason, (), part.compiler)
    stage.verifier.partitioner = None
    stage.ask(plan)
    assert (stage.progress.tier, stage.progress.of(ONE).partitioned.reason) == ("compiled", NO_PARTITIONER)
    assert stage.progress.of(ONE).compiled is PENDING


def test_a_board_that_compiles_nothing_refuses(plan):
    with pytest.raises(SearchError, match=r"^This board cannot compile\.$"):
        PlanVerifier(None, lambda work: work(), lambda: None).ask(ONE, plan, TierFigures())
