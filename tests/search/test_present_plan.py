"""Where the plan that a search starts from lies: found in the space by its decisions, planned first, and compared in words."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.errors import SearchError, WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.candidate_plans import candidate_plan
from workbench.search.find_plans import find_plans
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import drop_unit_axes, find_candidate, move_to_searched_hardware, outside_decision
from workbench.search.requirements import AtMost, Pin, against_best_text, present_text
from workbench.search.run_search import list_first_candidates, run_search
from workbench.search.search_figures import Figures, evaluate_plan
from workbench.search.search_space import SearchSpace

HARDWARE = "TPU v5e 2x4"
FEW = {"axes": ("data", "model"), "layouts": ("replicated", "megatron"), "remats": ("none", "full"), "zeros": ("no ZeRO", "zero_1")}


@cache
def gpt() -> Plan:
    return Plan(build("gpt", layers=2), "data:4 model:2", "batch:data", hardware=HARDWARE)


@cache
def space() -> SearchSpace:
    return make_space(gpt(), layouts=("replicated", "megatron", "megatron + sequence"))


@cache
def legal() -> tuple[PlanCandidate, ...]:
    """One candidate of each mesh, schedule and remat that has a plan."""
    kinds: dict[object, PlanCandidate] = {}
    for each in space().candidates():
        kinds.setdefault((each.mesh, each.schedule, each.remat, each.zero), each)
    return tuple(kinds.values())


@pytest.mark.compile
@given(st.data())
def test_the_plan_of_every_candidate_is_found_again_with_and_without_its_axes_of_one_device(data):
    candidate = data.draw(st.sampled_from(legal()))
    try:
        plan = candidate_plan(space(), candidate)
    except WorkbenchError:
        return
    for each in (plan, drop_unit_axes(plan)):
        found = find_candidate(space(), each)
        assert found is not None
        assert drop_unit_axes(candidate_plan(space(), found)) == drop_unit_axes(plan)


def test_a_plan_made_by_hand_in_another_order_is_the_candidate_with_the_same_decisions():
    plan = Plan(gpt().program, "data:4 model:2", "vocab:model; d_ff:model; heads:model; batch:data", hardware=HARDWARE)
    assert str(find_candidate(space(), plan)) == "data:4 model:2, megatron, no ZeRO, remat none"
    staged = plan.updated(mesh="stage:2 data:2 model:2", pipeline="stages:2 micro_batches:4 schedule:1f1b remat:never")
    assert str(find_candidate(space(), staged)) == "stage:2 data:2 model:2, megatron, no ZeRO, remat none, 4 micro-batches, 1f1b"


STAGED = "stage:2 data:4"


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, ""),  # an axis that nothing is split over
        ({"mesh": "data:4 other:2"}, "mesh axis `other`"),
        ({"mesh": "model:2 data:4", "layout": "batch:data; heads:model; d_ff:model; vocab:model"}, "mesh `model:2 data:4`"),
        ({"mesh": "data:8", "hardware": "TPU v5p 2x2x2"}, "hardware `TPU v5p 2x2x2`"),
        ({"mesh": "data:4", "hardware": None}, "4 devices, not 8 devices"),
        ({"mesh": "data:8", "layout": "batch:data; d_ff:data"}, ""),
        ({"mesh": "pipe:2 data:4", "pipeline": "stages:2 micro_batches:4 axis:pipe remat:never"}, "mesh axis `pipe`"),
        ({"mesh": STAGED, "pipeline": "stages:2 micro_batches:4 schedule:eager_1f1b remat:never"}, "schedule `eager_1f1b`"),
    ],
    ids=str,
)
def test_a_plan_outside_the_space_is_no_candidate_and_its_decision_is_named(changes, decision):
    plan = gpt().updated(**changes)
    assert find_candidate(space(), plan) is None
    assert outside_decision(space(), plan) == decision


def test_the_program_and_its_micro_batches_are_decisions_too():
    staged = gpt().updated(mesh=STAGED, pipeline="stages:2 micro_batches:2 schedule:1f1b remat:never")
    assert outside_decision(space(), staged) == ""
    assert outside_decision(replace(space(), most_examples=1), staged) == "2 micro-batches"
    program = gpt().program
    for other, decision in (
        (program.variant(precision=Precision.parse("bfloat16")), "precision `bfloat16`"),
        (program.variant(remat=Remat("dots")), "remat `dots`"),
    ):
        assert outside_decision(space(), gpt().updated(program=other, mesh="data:8")) == decision


def test_a_plan_of_the_space_has_no_decision_outside_it():
    for candidate in legal()[::7]:
        try:
            plan = candidate_plan(space(), candidate)
        except WorkbenchError:
            continue
        assert outside_decision(space(), plan) == outside_decision(space(), drop_unit_axes(plan)) == ""


def test_figures_are_those_of_the_searched_hardware_where_the_plan_names_none():
    plan = Plan(gpt().program, "data:8", "batch:data")
    assert move_to_searched_hardware(space(), plan).hardware.name == HARDWARE
    assert find_candidate(space(), plan) == find_candidate(space(), plan.updated(hardware=HARDWARE)) != None  # noqa: E711
    assert move_to_searched_hardware(space(), plan.updated(mesh="data:4")) is None, "on four devices there is nothing to compare with"
    assert move_to_searched_hardware(space(), Plan(gpt().program, "", hardware=HARDWARE)) is None, "without a mesh it is no plan yet"
    assert move_to_searched_hardware(make_space(gpt(), devices=(1, 8)), Plan(gpt().program, "")) is not None, "but on one device"
    nominal = make_space(plan, layouts="replicated")
    assert move_to_searched_hardware(nominal, gpt()).hardware is None


def test_the_present_plan_is_the_first_candidate_where_the_pins_allow_it():
    present = find_candidate(space(), gpt().updated(mesh="data:8"))
    assert list_first_candidates(space(), (), present)[0] == present
    assert list_first_candidates(space(), (), present).count(present) == 1
    others = list_first_candidates(space(), (Pin("data", (4,)),), present)
    assert others == list_first_candidates(space(), (Pin("data", (4,)),))
    first = next(run_search(space(), present=present))
    assert [each for each, _ in first.front] == [present]


@pytest.mark.compile
def test_a_search_knows_its_present_plan_in_the_space_and_outside_it():
    inside = find_plans(gpt().updated(mesh="data:8"), within=60, **FEW)
    assert inside.present.figures == evaluate_plan(gpt().updated(mesh="data:8"))
    assert inside.evaluator.evaluate(inside.present.candidate) == inside.present.figures
    assert "  the present plan" in str(inside)
    outside = find_plans(gpt(), within=60, **FEW)
    assert (outside.present.candidate, outside.present.figures) == (None, evaluate_plan(gpt()))
    assert outside.state.best == inside.state.best, "where one begins does not change what is best"


@pytest.mark.compile
def test_until_proved_ends_with_the_proof_and_finds_the_same_best():
    staged = {"layouts": ("replicated", "megatron"), "zeros": ("no ZeRO",), "remats": ("none", "full"), "schedules": ("1f1b",)}
    whole, proved = [], []
    first = find_plans(gpt(), within=600, on_progress=whole.append, **staged)
    second = find_plans(gpt(), within=600, on_progress=proved.append, until="proved", **staged)
    assert second.state.best == first.state.best
    assert second.state.is_proved
    assert not second.state.is_complete
    assert not any(state.is_proved for state in proved[:-1])
    assert len(proved) < len(whole)
    with pytest.raises(SearchError) as caught:
        find_plans(gpt(), until="bored", **FEW)
    assert str(caught.value) == ("There is no end of a search `bored`; there are `complete`, `proved`.\n  Try: use one of these names.")


BEST = Figures(10.0, 8 << 30, 8, 4.0)
AGAINST_BEST = [
    (Figures(12.3, 41 << 30, 8), "seconds", "23% slower than the best found"),
    (Figures(10.4, 41 << 30, 8), "seconds", "4.0% slower than the best found"),
    (Figures(9.0, 41 << 30, 8), "seconds", "10% faster than the best found; it violates `at most 40.0 GiB a device`"),
    (Figures(34.0, 9 << 30, 8), "seconds", "3.4 times the step time of the best found"),
    (Figures(12_000.0, 9 << 30, 8), "seconds", "1,200 times the step time of the best found"),
    (Figures(10.0, 9 << 30, 8), "seconds", "as fast as the best found"),
    (BEST, "seconds", "equal to the best found"),
    (Figures(10.0, 10 << 30, 8), "memory", "25% more memory than the best found"),
    (Figures(10.0, 8 << 30, 12), "devices", "50% more devices than the best found"),
    (Figures(10.0, 8 << 30, 8, 5.0), "dollars", "25% dearer than the best found"),
    (Figures(12.0, 8 << 30, 8), "dollars", "20% slower than the best found"),
]


@pytest.mark.parametrize(("present", "objective", "text"), AGAINST_BEST, ids=lambda each: str(each)[:40])
def test_where_the_present_plan_stands_is_said_in_words(present, objective, text):
    limits = (AtMost("memory", 40 << 30),) if "violates" in text else ()
    assert against_best_text(present, BEST, objective, limits) == text


def test_the_present_plan_has_its_figures_in_words_before_anything_was_found_too():
    limits = (AtMost("seconds", 4.0),)
    assert present_text(Figures(12.3, 41 << 30, 8), None, "seconds", ()) == "12.3 s, 41.0 GiB"
    assert present_text(Figures(12.3, 41 << 30, 8), None, "seconds", limits) == ("12.3 s, 41.0 GiB: it violates `at most 4.00 s a step`")


@pytest.mark.parametrize("changes", [{"mesh": "data:8"}, {"mesh": "stage:2 data:4", "pipeline": "stages:2 micro_batches:4"}], ids=str)
def test_the_parts_of_a_step_add_up_to_it(changes):
    figures = evaluate_plan(gpt().updated(**changes))
    assert sum(seconds for _, seconds in figures.parts) == pytest.approx(figures.seconds)
    assert len(figures.parts) >= 2
    assert figures.with_seconds(1.0).parts == ()
    assert evaluate_plan(gpt().updated(**changes, hardware=None)).parts == ()
