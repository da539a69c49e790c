"""What a session shows settles to what XLA's partitioner says: without it waiting for anything, and whatever becomes of the question."""

from concurrent.futures import Future
from unittest.mock import Mock

import pytest

from tests.support.machines import flat
from workbench.analysis.verify_plan import MICRO_BATCHES_REASON, ONE_DEVICE_REASON, PIPELINED_REASON
from workbench.core.mesh import Mesh
from workbench.errors import PartitionError
from workbench.models import build
from workbench.plan.edits import ShardDim
from workbench.plan.mesh_edits import SetMesh
from workbench.public_plan import Plan
from workbench.reports.partitioned import Partitioned, PartitionedCollective
from workbench.session.figure_tiers import ANALYZE_DELAY, MOST_QUESTION_SECONDS, Settler, SettlingState
from workbench.session.plan_history import Session

HARDWARE = flat("test", flops=1e12, memory_bandwidth=1e11, sent_bandwidth=1e10, latency=1e-6, memory=1 << 34)
SETTLING, SETTLED = SettlingState("planned", is_settling=True), SettlingState("partitioned")
EDITS = [ShardDim("hidden", ("cols",)), ShardDim("batch", ()), ShardDim("io", ("rows",))]


def answer_of(payload=1000):
    collective = PartitionedCollective("all-reduce", ("cols",), payload, payload, 1)
    return Partitioned("", 8, "XLA", (collective,), seconds=0.1, asked_devices=8)


class Bench:
    """A session that settles on a loop of the test's own, by answers of the test's own."""

    def __init__(self, plan=None, **options):
        self.session = Session(plan or Plan(build("two_layer"), "rows:2 cols:4", "batch:rows"))
        self.waiting, self.asked, self.cancelled, self.told = [], [], [], []
        self.now, self.changed = 0.0, Mock()
        self.later = []
        self.settler = Settler(
            self.session,
            self,
            defer=self.waiting.append,
            on_change=self.changed,
            clock=lambda: self.now,
            call_later=lambda seconds, work: self.later.append((seconds, work)),
            **options,
        )
        self.session.listen(lambda _plan, report: self.told.append(report))

    def ask(self, plan, hardware):
        future = Future()
        self.asked.append((plan, hardware, future))
        return future

    def cancel(self, answer):
        self.cancelled.append(answer)
        answer.set_exception(PartitionError("The question was cancelled."))

    def turn(self):
        """What is due on the loop, once the hand has rested."""
        self.run()
        while due := [each for each in self.later if each[0] < ANALYZE_DELAY + 0.01]:
            self.later.remove(due[0])
            due[0][1]()
            self.run()
        return self

    def run(self):
        while self.waiting:
            self.waiting.pop(0)()

    def answer(self, number=-1, outcome=None):
        future = self.asked[number][2]
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome or answer_of())
        return self.turn()

    @property
    def plans(self):
        return [plan for plan, _, _ in self.asked]

    @property
    def settling_state(self):
        return self.settler.settling_state


@pytest.fixture
def bench():
    return Bench()


def test_the_planned_figures_settle_to_the_partitioned_ones(bench):
    assert bench.settling_state == SETTLING
    assert bench.asked == [], "what made the plan goes first"
    bench.turn()
    assert (bench.plans, bench.settling_state) == ([bench.session.plan], SETTLING)
    bench.answer()
    assert (bench.settling_state, bench.session.report.tier) == (SETTLED, "partitioned")
    assert bench.session.report.collectives[0].payload == 1000
    assert bench.told == [bench.session.report]


def test_an_edit_shows_planned_figures_at_once_and_asks_anew(bench):
    bench.turn().answer()
    bench.session.apply(EDITS[0])
    assert (bench.settling_state, bench.session.report.tier, len(bench.asked)) == (SETTLING, "planned", 1)
    bench.turn().answer()
    assert (bench.settling_state, len(bench.asked)) == (SETTLED, 2)


def test_while_one_question_runs_only_the_latest_plan_waits(bench):
    bench.turn()
    for edit in EDITS:
        bench.session.apply(edit)
        bench.turn()
    assert len(bench.asked) == 1
    assert bench.cancelled == [], "it is young"
    bench.answer()
    assert bench.plans[1:] == [bench.session.plan]


def test_the_answer_to_a_plan_that_was_left_is_kept_and_analysed_when_it_is_undone(bench, monkeypatch):
    bench.turn()
    bench.session.apply(EDITS[0])
    bench.turn()
    bench.told.clear()
    with monkeypatch.context() as patched:
        patched.setattr("workbench.session.plan_history.analyze", Mock(side_effect=AssertionError("not now")))
        bench.answer(0)
    assert (bench.told, bench.session.report.tier) == ([], "planned")
    bench.session.undo()
    assert (bench.session.report.tier, bench.settling_state) == ("partitioned", SETTLED)
    bench.answer(1)
    assert bench.session.redo().tier == "partitioned"
    assert len(bench.asked) == 2


def test_an_old_question_that_was_overtaken_is_cancelled_and_its_failure_is_no_news(bench):
    bench.turn()
    bench.now = MOST_QUESTION_SECONDS + 0.1
    bench.session.apply(EDITS[0])
    bench.turn()
    assert bench.cancelled == [bench.asked[0][2]]
    assert (bench.plans[1:], bench.settling_state) == ([bench.session.plan], SETTLING)


def test_a_plan_gone_back_to_while_its_question_was_cancelled_is_asked_about_again(bench):
    bench.cancel = bench.cancelled.append  # it takes a while to end
    bench.turn()
    bench.now = MOST_QUESTION_SECONDS + 0.1
    bench.session.apply(EDITS[0])
    bench.turn()
    bench.session.undo()
    bench.turn().answer(0, PartitionError("The question was cancelled."))
    assert (bench.plans, bench.settling_state) == ([bench.session.plan] * 2, SETTLING)


def test_of_edits_in_quick_succession_only_the_last_plan_is_asked_about(bench):
    bench.turn().answer()
    for edit in EDITS:
        bench.session.apply(edit)
    assert bench.turn().plans[1:] == [bench.session.plan]


def test_a_question_that_was_overtaken_is_looked_at_again_when_it_is_old(bench):
    bench.turn()
    bench.now = MOST_QUESTION_SECONDS - 0.5
    for edit in EDITS:
        bench.session.apply(edit)
        bench.turn()
    ((seconds, look),) = bench.later
    assert seconds == pytest.approx(0.5)
    bench.now = MOST_QUESTION_SECONDS
    look()
    bench.turn()
    assert bench.cancelled == [bench.asked[0][2]]


def test_a_plan_that_xla_refuses_stays_planned_and_says_why(bench):
    planned = bench.session.report
    bench.turn().answer(outcome=PartitionError("XLA refuses this plan: no.", ["change it"]))
    assert bench.settling_state == SettlingState("planned", reason="XLA refuses this plan: no.")
    assert (bench.session.report, bench.told) == (planned, [])
    bench.changed.assert_called_once_with()
    bench.session.name(0, "mine")
    assert len(bench.turn().asked) == 1, "a name is no reason to ask again"
    bench.session.apply(EDITS[0])
    assert bench.turn().answer().settling_state == SETTLED


def test_what_breaks_in_the_asking_is_a_reason_and_no_traceback(bench):
    bench.ask = Mock(side_effect=OSError("no processes left"))
    bench.turn()
    assert bench.settling_state.reason == "XLA's partitioner could not be run: OSError: no processes left"


def test_what_breaks_in_reading_an_answer_is_a_reason_and_the_plan_can_be_gone_back_to(bench, monkeypatch):
    bench.turn()
    with monkeypatch.context() as patched:
        patched.setattr("workbench.session.plan_history.analyze", Mock(side_effect=ValueError("strange")))
        bench.answer()
    assert "ValueError: strange" in bench.settling_state.reason
    bench.session.apply(EDITS[0])
    assert bench.session.undo().tier == "planned"


def test_a_gesture_that_waits_goes_before_the_answer():
    idle = [False, False, True]
    bench = Bench(is_idle=lambda: idle.pop(0) if idle else True)
    bench.turn()
    bench.asked[0][2].set_result(answer_of())
    bench.run()
    assert bench.session.report.tier == "planned"
    bench.turn()
    assert (idle, bench.session.report.tier, len(bench.asked)) == ([], "partitioned", 1)


def test_a_hand_that_edits_quickly_finds_nobody_at_work(bench):
    bench.turn()
    bench.session.undo()
    bench.now = 0.1
    bench.asked[0][2].set_result(answer_of())
    bench.run()
    ((seconds, _),) = bench.later
    assert (seconds, bench.session.report.tier) == (pytest.approx(ANALYZE_DELAY - 0.1), "planned")
    assert bench.turn().settling_state == SETTLED


def test_an_answer_that_waits_for_the_hand_to_rest_keeps_no_newer_question_waiting(bench):
    bench.turn()
    bench.asked[0][2].set_result(answer_of())
    bench.run()
    late = bench.later.pop()[1]
    bench.session.apply(EDITS[0])
    bench.turn()
    assert bench.plans[1:] == [bench.session.plan]
    late()
    bench.run()
    assert bench.answer(1).settling_state == SETTLED
    assert bench.session.undo().tier == "partitioned"


def test_nobody_is_told_of_an_answer_that_is_known(bench):
    bench.turn().answer()
    bench.told.clear()
    bench.session.use_partitioned(0, answer_of())
    assert bench.told == []


def test_other_hardware_is_another_question(bench):
    bench.turn()
    bench.session.use_hardware(HARDWARE)
    bench.answer(0)
    assert bench.session.report.tier == "planned", "that was about other hardware"
    assert [hardware for _, hardware, _ in bench.asked] == [None, HARDWARE]
    bench.answer(1)
    assert bench.session.report.tier == "partitioned"


@pytest.mark.compile
@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (
            lambda: Plan(build("gpt", layers=4), "stage:2 data:2", "batch:data", pipeline="stages:2 micro_batches:2 axis:stage"),
            PIPELINED_REASON,
        ),
        (lambda: Plan(build("gpt", layers=4), "stage:1 data:2", "batch:data", pipeline="stages:1 micro_batches:2"), MICRO_BATCHES_REASON),
        (lambda: Plan(build("two_layer"), "rows:1", ""), ONE_DEVICE_REASON),
    ],
)
def test_there_are_plans_that_nothing_is_asked_about(plan, reason):
    bench = Bench(plan()).turn()
    assert (bench.asked, bench.settling_state) == ([], SettlingState("planned", reason=reason))


def test_a_mesh_that_becomes_large_enough_is_asked_about():
    bench = Bench(Plan(build("two_layer"), "rows:1", "")).turn()
    bench.session.apply(SetMesh(Mesh("rows:2")))
    assert (bench.turn().plans, bench.settling_state) == ([bench.session.plan], SETTLING)


def test_a_settler_that_is_closed_asks_no_more(bench):
    bench.turn()
    bench.settler.close()
    assert bench.cancelled == [bench.asked[0][2]]
    bench.session.apply(EDITS[0])
    bench.turn()
    assert (len(bench.asked), bench.session.report.tier) == (1, "planned")
