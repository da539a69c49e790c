"""Plans by the best tier known: which ones the compilers are asked about, and what follows from their answers."""

import threading
import time
from dataclasses import replace

import pytest

from tests.support.searches import GIB, candidate_on, make_result
from workbench.analysis import verify_plan
from workbench.analysis.verify_plan import Compilers
from workbench.errors import PartitionError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.verified_plan import TierFigures, VerifiedPlan
from workbench.search import background_verifier
from workbench.search.find_plans import find_plans
from workbench.search.requirements import AtMost
from workbench.search.search_figures import Figures
from workbench.search.search_result import search_text
from workbench.search.tier_ranks import FASTEST, KnownFigures, best_known, list_contenders, rank_plan, with_utilisation

NOBODY = TierFigures(reason="Nobody was asked.")
FOUND = tuple((candidate_on(f"stage:1 data:{16 // size} model:{size}"), Figures(size / 4, (9.0 - size) * GIB, 16)) for size in (1, 2, 4))


def verified(
    planned: Figures, partitioned: float | None = None, compiled: float | None = None, memory: float | None = None
) -> VerifiedPlan:
    tiers = [NOBODY if each is None and memory is None else TierFigures(each, memory) for each in (partitioned, compiled)]
    return VerifiedPlan(None, "a plan", TierFigures(planned.seconds, planned.memory), *tiers)


def test_each_figure_is_of_the_best_tier_that_has_it():
    planned = Figures(1.0, 8.0, 4, 2.0)
    assert best_known(planned, None) == KnownFigures(planned)
    assert best_known(planned, verified(planned)) == KnownFigures(planned)
    assert best_known(planned, verified(planned, 1.5)) == KnownFigures(Figures(1.5, 8.0, 4, 3.0), "partitioned")
    assert best_known(planned, verified(planned, 1.5, 2.0, 9.0)) == KnownFigures(Figures(2.0, 9.0, 4, 4.0), "compiled")
    only_memory = VerifiedPlan(None, "a pipeline", TierFigures(1.0, 8.0), NOBODY, TierFigures(None, 9.0, "stage by stage"))
    assert best_known(planned, only_memory) == KnownFigures(Figures(1.0, 9.0, 4, 2.0), "planned")


def test_the_fastest_near_ties_the_present_plan_and_each_kind_are_asked_about():
    fast = {candidate_on(f"stage:1 data:{count} model:1"): Figures(1.0 + count / 1000, 8.0, 16) for count in range(1, 16)}
    slow = {replace(candidate_on("stage:1 data:2 model:1"), zero=zero): Figures(3.0, 9.0, 16) for zero in ("zero_1", "zero_2")}
    present = replace(candidate_on("stage:1 data:16 model:1"), remat="full")
    found = {**slow, present: Figures(9.0, 9.0, 16), **fast}
    assert list_contenders(found, (), "seconds", most=3) == tuple(fast.items())[:3]
    asked = [each for each, _ in list_contenders(found, (), "seconds", present)]
    assert asked[:FASTEST] == list(fast)[:FASTEST]
    assert {*asked} == {*found}
    assert {each for each, _ in list_contenders(found, (AtMost("memory", 8.5),), "seconds")} == {*fast}
    assert list_contenders({}, (), "seconds") == ()


def test_a_present_plan_on_another_chip_says_nothing_about_the_utilisation_of_pipelines():
    whole, pipeline = (candidate_on(mesh) for mesh in ("stage:1 data:16 model:1", "stage:2 data:8 model:1"))
    known = (whole, Figures(1.0, 8.0, 16, mfu=0.4)), (pipeline, Figures(2.0, 8.0, 16)), (None, Figures(4.0, 8.0, 16, mfu=0.5))
    rows = with_utilisation(rank_plan("", candidate, KnownFigures(figures), None) for candidate, figures in known)
    assert [row.known.figures.mfu for row in rows] == [0.4, 0.2, 0.5]


def entries(result, *known):
    """Of the plans of a front what was planned and what the compilers say of them, in seconds."""
    return {
        candidate: (figures, verified(figures, seconds))
        for (candidate, figures), seconds in zip(result.front, known, strict=False)
        if seconds is not None
    }


def test_the_best_the_front_and_the_text_follow_the_compilers():
    result = make_result(FOUND, ())
    assert result.with_verified({}) is result
    ranked = result.with_verified(entries(result, 0.9, 0.8))
    assert ranked.state.best[0] == FOUND[1][0]
    assert [figures.seconds for _, figures in ranked.front] == [0.8, 1.0]
    assert [ranked.tier(each) for each, _ in ranked.front] == ["partitioned", "planned"]
    assert ranked.proof == result.state
    text = search_text(ranked)
    assert "tier" in text.splitlines()[0]
    assert "2 partitioned; the proof is of planned step times" in text
    assert ranked.title.endswith("2 plans on the front, the best by its partitioned step; as planned proved, and the front is complete")
    again = ranked.with_tried([])
    assert again.front == ranked.front


def test_a_plan_that_nobody_was_asked_about_is_not_the_best_by_its_planned_figure():
    result = make_result(FOUND, ())
    ranked = result.with_verified(entries(result, None, 0.8))
    assert [each for each, _ in ranked.front] == [FOUND[1][0], FOUND[2][0]]


def test_a_plan_that_does_not_fit_as_compiled_is_no_plan():
    result = make_result(FOUND[:2], (AtMost("memory", 8.5 * GIB),))
    first, figures = FOUND[0]
    ranked = result.with_verified({first: (figures, verified(figures, 0.2, 0.2, 9.0 * GIB))})
    assert [each for each, _ in ranked.front] == [FOUND[1][0]]


@pytest.fixture
def compilers(monkeypatch):
    """A partitioner that doubles the step of plans with ZeRO, and has the others as planned; a compiler that refuses."""
    asked = []

    def ask(plan, _compilers):
        asked.append(plan)
        shares = any(each.role.value == "optimizer_state" and plan.layout.overrides for each in plan.program.arguments)
        return TierFigures(2.0 if shares else 1.0, 1.0), None

    monkeypatch.setattr(background_verifier, "ask_partitioner", ask)
    monkeypatch.setattr(background_verifier, "ask_compiler", lambda *_: NOBODY)
    return Compilers(asked.append, asked.append)


def test_the_compilers_are_asked_while_the_search_goes_on(compilers):
    heard = []
    plan = Plan(build("two_layer"), "data:4", "batch:data", hardware="TPU v5e 2x2")
    result = find_plans(plan, within=60, compilers=compilers, verify=None, on_verified=heard.append)
    assert result.state.is_complete
    assert {each.title for each in heard} == {str(each) for each in result.verified}
    assert result.present.candidate in result.verified
    assert all(figures.seconds == 1.0 for _, figures in result.front)
    assert {result.tier(each) for each, _ in result.front} == {"partitioned"}
    assert find_plans(plan, within=60, compilers=compilers).verified == {}


def test_an_answer_is_not_waited_for_when_the_time_is_over(monkeypatch, compilers):
    release = threading.Event()
    monkeypatch.setattr(background_verifier, "ask_partitioner", lambda *_: (release.wait(60), None))
    plan = Plan(build("two_layer"), "", hardware="TPU v5e 2x2")
    find_plans(plan, within=60)  # traced
    begin = time.perf_counter()
    result = find_plans(plan, within=1.0, until="proved", compilers=compilers, verify=2)
    assert time.perf_counter() - begin < 20
    assert result.verified == {}
    assert result.state.best is not None
    release.set()


def test_a_plan_whose_question_fails_is_left_out_and_the_others_are_asked_about(monkeypatch, compilers, caplog):
    asked = []

    def ask(plan, _compilers):
        asked.append(plan)
        if len(asked) == 1:
            raise RuntimeError("a bug")
        return TierFigures(1.0, 1.0), None

    monkeypatch.setattr(background_verifier, "ask_partitioner", ask)
    plan = Plan(build("two_layer"), "data:4", "batch:data", hardware="TPU v5e 2x2")
    begin = time.perf_counter()
    result = find_plans(plan, within=600, compilers=compilers, verify=3)
    assert time.perf_counter() - begin < 60
    assert len(result.verified) == len(asked) - 1 > 0
    assert [each.exc_text.splitlines()[-1] for each in caplog.records] == ["RuntimeError: a bug"]


def test_a_refusal_is_an_answer():
    def refuse(_plan):
        raise PartitionError("XLA refuses.")

    plan = Plan(build("two_layer"), "data:4", "batch:data", hardware="TPU v5e 2x2")
    assert verify_plan.ask_partitioner(plan, Compilers(refuse, refuse))[0].reason == "XLA refuses."
    assert verify_plan.ask_compiler(plan, None, Compilers(refuse, refuse)).reason == "XLA refuses."
