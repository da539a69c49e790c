"""Wide spaces: remat on the first stages alone, more axes and schedules; their plans are those of people, their bounds hold."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.search_bounds import verify_bounds
from workbench.errors import RematError, SearchError
from workbench.models import build
from workbench.pipeline.staged_program import find_whole_axes
from workbench.public_plan import Plan
from workbench.search import best_first
from workbench.search.candidate_plans import candidate_plan
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import RECOMPUTING, PlanCandidate
from workbench.search.run_search import run_search
from workbench.search.search_nodes import Descent
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import OF_SOME_LAYERS
from workbench.search.worker_questions import InProcess, answer


@cache
def wide_space(name: str, hardware: str) -> tuple[SearchSpace, Evaluator, tuple]:
    space = make_space(Plan(build(name), "", hardware=hardware), wide=True, most_examples=4)
    return space, Evaluator(space), tuple(space.candidates())


@pytest.mark.share(2)
@pytest.mark.parametrize(("name", "hardware"), [("gpt", "8 H100"), ("mixture", "TPU v5e 2x4")])
@settings(max_examples=3)
@given(data=st.data())
def test_no_plan_of_a_wide_space_is_better_than_its_bounds(name, hardware, data):
    space, evaluator, candidates = wide_space(name, hardware)
    partly = [each for each in candidates if RECOMPUTING.get(each.remat, 1) < 1]
    some = [each for each in candidates if each.remat in OF_SOME_LAYERS]
    candidate = data.draw(st.one_of(*map(st.sampled_from, (candidates, partly, some))))
    verify_bounds(evaluator, candidate)
    assert space.size == len(candidates)


TELLING = [
    "data:2 expert:2 model:2, megatron, expert parallel, no ZeRO, remat none, 8 micro-batches, 1f1b",  # no part for each replica
    "stage:2 data:4, replicated, no ZeRO, remat none, 2 micro-batches, gpipe",  # as many examples as experts
]


def test_layers_may_be_recomputed_in_part_where_they_are_so_many():
    space, _, candidates = wide_space("gpt", "8 H100")
    assert set(OF_SOME_LAYERS) <= set(space.remats)
    one = next(each for each in candidates if each.remat == "full_1/2" and each.size("stage") == 2)
    assert one.describe("remat") == "remat full on 1 of every 2 layers"
    plan = candidate_plan(space, one)
    assert (str(plan.program.remat), plan.pipeline.remat) == ("full layers:1/2", "never")
    two = make_space(Plan(build("gpt", layers=2, scan=True), "", hardware="8 H100"), wide=True, axes=("data",))
    assert [each for each in two.remats if each in OF_SOME_LAYERS] == ["full_1/2"]
    with pytest.raises(RematError, match="A loop runs through 2 layers, no multiple of 4"):
        make_space(two.start, remats=("full_1/4",))
    assert not set(OF_SOME_LAYERS) & set(make_space(Plan(build("gpt"), "", hardware="8 H100")).remats)


@pytest.mark.parametrize("text", TELLING)
def test_bounds_hold_where_few_replicas_are_another_program(text):
    _, evaluator, candidates = wide_space("mixture", "TPU v5e 2x4")
    chosen = [each for each in candidates if str(each) == text]
    assert chosen
    for each in chosen:
        verify_bounds(evaluator, each)


def test_gradients_are_bounded_over_the_links_that_the_planner_sums_them_over():
    start = Plan(build("mixture"), "", hardware="TPU v5e 2x4")
    evaluator = Evaluator(make_space(start, wide=True, axis_assignments=True, remats=("none",)))
    mesh = (("stage", 1), ("data", 2), ("context", 1), ("expert", 2), ("model", 2))
    candidate = PlanCandidate(
        *("TPU v5e 2x4", mesh, "megatron, expert parallel"), micro_batches=4, schedule="1f1b", axis_assignment="model:y; data:y; expert:x"
    )
    assert find_whole_axes(evaluator.plan(candidate)) == ("data", "expert")
    verify_bounds(evaluator, candidate)
    (bounded,) = (each for each in evaluator.bound_partitions(candidate) if each.candidate == candidate)
    assert bounded.bounds.seconds == pytest.approx(evaluator.evaluate(candidate).seconds, rel=1e-6)  # not only no more: one stage is exact


def test_a_part_of_the_stages_recomputes():
    space, _, candidates = wide_space("gpt", "8 H100")
    chosen = (each for each in candidates if (each.remat, each.boundaries) == ("first_half", "time") and each.layout != "two-dimensional")
    of_each_size = {each.size("stage"): each for each in chosen}
    found = {stages: str(candidate_plan(space, each).pipeline) for stages, each in of_each_size.items()}
    assert 1 not in found
    assert "remat:first_1" in found[2]
    assert "remat:first_2" in found[4]
    quarter = next(each for each in candidates if each.remat == "first_quarter")
    assert quarter.size("stage") == 4
    assert quarter.describe("remat") == "remat full on the first quarter of the stages"


def test_a_wide_space_has_the_axes_that_a_layout_uses():
    assert wide_space("gpt", "8 H100")[0].axes == ("stage", "data", "context", "model")
    assert wide_space("mixture", "TPU v5e 2x4")[0].axes == ("stage", "data", "context", "expert", "model")
    narrow = make_space(Plan(build("gpt"), "", hardware="8 H100"), remats=("none", "first_half"))
    assert narrow.remats == ("none", "first_half")
    assert narrow.size < wide_space("gpt", "8 H100")[0].size


def test_an_unknown_remat_names_those_of_stages():
    with pytest.raises(SearchError, match="There is no remat `first_tenth`") as caught:
        make_space(Plan(build("gpt"), "", hardware="8 H100"), remats=("first_tenth",))
    assert "first_quarter" in str(caught.value)


def test_neighbours_of_the_best_are_tried_and_the_proof_stays_the_same(monkeypatch):
    space = make_space(Plan(build("two_layer"), "", hardware="8 A100"), axis_assignments=True)
    asked = []

    class Asked(InProcess):
        def submit(self, question):
            def wait():
                asked.extend([question.candidate] if question.kind == "figures" else [])
                return answer(self.evaluator, question)

            return wait

    best, counts = {}, {}
    for most in (0, 1000):
        monkeypatch.setattr(best_first, "MANY_GROUPS", most - 1)
        asked.clear()
        *_, last = run_search(space, within=600, answerer=Asked(Evaluator(space)))
        assert last.is_complete
        best[most], counts[most] = last.best[1].seconds, len(asked)
        assert len(asked) == len({*asked})
    assert best[0] == best[1000]
    assert counts[0] >= counts[1000]


def test_before_all_of_a_space_is_in_groups_its_bound_is_that_of_the_flops(monkeypatch):
    space, evaluator, _ = wide_space("gpt", "8 H100")
    monkeypatch.setattr(best_first, "CORES", 20)
    monkeypatch.setattr(Descent, "next_candidate", lambda _: None)
    states = []
    for state in run_search(space, evaluator=evaluator, within=600):
        states.append(state)
        if state.bounded:
            break
    forming = [state for state in states if state.least == states[0].least]
    assert len(forming) > len(list(space.cores())) // 20 > 5
    assert {(state.is_proved, state.is_complete) for state in forming} == {(False, False)}
    assert 0 < forming[0].least <= states[-1].least < states[-1].best[1].seconds
    assert 0 < states[-1].gap <= forming[-1].gap < 1


@pytest.mark.parametrize("ends", ["cancelled", "time is over"])
def test_a_search_ends_while_its_space_is_put_into_groups(monkeypatch, ends):
    space, evaluator, _ = wide_space("gpt", "8 H100")
    monkeypatch.setattr(best_first, "CORES", 20)
    looked = []
    monkeypatch.setattr(evaluator, "bound_core", lambda core: looked.append(core) or Evaluator.bound_core(evaluator, core))
    within, is_cancelled = (600, lambda: len(looked) > 30) if ends == "cancelled" else (0, lambda: False)
    *_, last = run_search(space, evaluator=evaluator, within=within, is_cancelled=is_cancelled)
    assert last.best is not None
    assert len(looked) <= 40 < len(list(space.cores()))
    assert not last.is_complete
