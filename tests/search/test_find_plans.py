"""The search from end to end, against every plan of small spaces."""

import re

import pytest

from workbench.errors import HardwareError, SearchError, WorkbenchError
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.candidate_plans import candidate_plan
from workbench.search.evaluator import Evaluator
from workbench.search.find_plans import find_plans, read_requirements
from workbench.search.make_space import make_space
from workbench.search.requirements import allows_candidate, allows_figures
from workbench.search.run_search import run_search
from workbench.search.search_figures import NOMINAL_SECONDS, Figures, ParetoFront, evaluate_plan
from workbench.search.search_result import search_text
from workbench.search.search_state import progress_text

HARDWARE = "TPU v5e 2x4"
FEW = {"axes": ("data", "model"), "layouts": ("replicated", "megatron")}
SMALL = {"remats": ("none", "full"), "zeros": ("no ZeRO", "zero_1"), "schedules": ("1f1b",), "most_examples": 2}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(build("gpt"), "", hardware=HARDWARE)


@pytest.fixture(scope="module")
def result(plan):
    return find_plans(plan, within=600, layouts=("replicated", "megatron"), **SMALL)


def enumerate_plainly(space):
    """Each candidate's figures from the planner; illegal ones are left out."""
    found = {}
    for candidate in space.candidates():
        try:
            found[candidate] = evaluate_plan(candidate_plan(space, candidate))
        except WorkbenchError:
            continue
    return found


@pytest.mark.compile
def test_the_search_finds_what_enumeration_finds(result):
    figures = enumerate_plainly(result.space)
    front = ParetoFront()
    for candidate, each in figures.items():
        if allows_candidate(result.requirements, candidate) and allows_figures(result.requirements, each):
            front = front.with_item(candidate, each)
    assert result.state.is_proved
    assert result.state.is_complete
    assert result.state.best[1].seconds == min(each.seconds for each in figures.values())
    assert result.state.least == result.state.best[1].seconds
    assert re.search(r"\n +the best is +proved +and the front is complete\n", search_text(result))
    assert " devices " not in search_text(result).splitlines()[0]
    assert len(figures) > 60 > result.state.evaluated > len(front)
    assert {each for each, _ in result.front} <= figures.keys()
    assert all(any(found.dominates(each, 0.005) for _, found in result.front) for _, each in front)


@pytest.mark.compile
def test_no_bound_is_above_the_truth(plan):
    space = make_space(plan, layouts=("megatron", "heads + d_ff"), axes=("data", "model"), remats=("none", "selective"))
    least = min(each.seconds for each in enumerate_plainly(space).values())
    states = list(run_search(space, within=600))
    assert all(state.least <= least * (1 + 1e-9) for state in states)
    assert states[0].best is not None
    assert states[-1].gap == 0.0
    assert [state.evaluated for state in states] == sorted(state.evaluated for state in states)


def test_what_is_pinned_stays_and_what_is_limited_keeps_the_limit(plan):
    result = find_plans(plan, within=600, pins={"model": 2, "zero": "zero_1"}, at_most={"memory": "1.5 MiB"}, **FEW, **SMALL)
    assert result.front
    for candidate, figures in result.front:
        assert candidate.size("model") == 2
        assert candidate.zero == "zero_1"
        assert figures.memory <= 1.5 * 2**20
    best = result.best
    assert best.mesh["model"] == 2
    assert evaluate_plan(best) == result.state.best[1]


def test_a_limit_on_the_step_is_read_with_its_unit(plan):
    space = make_space(plan, **FEW, **SMALL)
    same = [read_requirements(space, {"seconds": each}, {}) for each in (0.25, "0.25", "250 ms", "250000 us")]
    assert same == [same[0]] * 4


@pytest.mark.compile
def test_what_the_layout_states_stays(plan):
    stated = Plan(plan.program, "data:2 model:4", "d_ff:model", hardware=HARDWARE)
    kept = find_plans(stated, within=600, keep=True, **FEW, **SMALL)
    assert all(dict(kept.plan(number).layout.rules)["d_ff"] == ("model",) for number in range(len(kept.front)))
    assert any("d_ff" not in dict(each.layout.rules) for each in (find_plans(stated, within=600, **FEW, **SMALL).best,))


def test_a_search_of_the_same_space_goes_on_from_the_last(plan, result):
    again = find_plans(plan, within=600, pins={"zero": "no ZeRO"}, again=result, layouts=("replicated", "megatron"), **SMALL)
    assert again.evaluator is result.evaluator
    assert all(candidate.zero == "no ZeRO" for candidate, _ in again.front)


@pytest.mark.compile
def test_the_fewest_devices_for_a_step_time(plan):
    wanted = {"devices": (1, 2, 4, 8), "axes": ("data", "model"), "layouts": ("replicated", "megatron"), **SMALL}
    fastest = {size: find_plans(plan, within=600, **{**wanted, "devices": size}).state.best[1].seconds for size in wanted["devices"]}
    limit = sorted(fastest.values())[1]
    result = find_plans(plan, within=600, objective="devices", at_most={"seconds": limit}, **wanted)
    assert result.state.is_proved
    fewest = result.state.best[1].devices
    assert fewest == min(size for size, seconds in fastest.items() if seconds <= limit)
    text = search_text(result)
    assert re.match(r" +step +tokens/s +MFU +memory +devices +(1,000 steps +)?tier +plan +changes\n", text)
    assert text.count(f"   {fewest}   ") >= 1
    assert "all meshes of 1, 2, 4 or 8 devices" in text
    assert f" · {fewest} devices, " in progress_text(result.state)


def test_dollars_are_seconds_times_the_price(plan):
    result = find_plans(plan, within=600, objective="dollars", hardware="TPU v5e 2x4, 1.5 $/h", **FEW, **SMALL)
    best = result.state.best[1]
    assert best.dollars == pytest.approx(1000 * best.seconds / 3600 * 8 * 1.5)


@pytest.mark.compile
def test_it_can_be_cancelled_and_ends_after_so_many_evaluations(plan):
    seen = []
    result = find_plans(plan, within=600, on_progress=seen.append, is_cancelled=lambda: len(seen) >= 2, axes=("data", "model"))
    assert [each.ending for each in seen] == ["", "", "cancelled"]
    assert seen[2].evaluated == seen[1].evaluated
    assert not result.state.is_complete
    some = find_plans(plan, within=600, most_evaluations=9, axes=("data", "model")).state
    assert (some.evaluated, some.ending) == (9, "evaluations")


def test_a_plan_that_its_arguments_alone_exclude_is_never_planned(plan):
    space = make_space(plan, **FEW, **SMALL)
    states = list(run_search(space, read_requirements(space, {"memory": "1 KiB"}, {}), within=600))
    assert states[-1].is_complete
    assert states[-1].best is None
    assert states[-1].evaluated == 0


def test_the_seconds_of_a_search_end_it_where_the_first_candidates_do_not_fit(plan):
    space = make_space(plan, **FEW, **SMALL)
    limit = 1.01 * min(
        Evaluator(space).bound_core(core).bounds.memory for core in space.cores()
    )  # above what arguments need, below any step
    states = list(run_search(space, read_requirements(space, {"memory": limit}, {}), within=0))
    assert states[0].evaluated == 1
    assert states[-1].evaluated == 1
    assert states[-1].best is None


def test_any_traced_function_can_be_searched():
    result = find_plans(Plan(build("two_layer"), "", hardware=HARDWARE), within=600)
    assert result.state.is_complete
    assert result.space.batch == 0
    assert NOMINAL_SECONDS.split(",")[0] not in search_text(result)
    nowhere = find_plans(Plan(build("two_layer"), "data:4"), within=600)
    assert NOMINAL_SECONDS in " ".join(search_text(nowhere).split())
    assert result.space.size > 5
    assert isinstance(result.state.best[1], Figures)


@pytest.mark.parametrize(
    ("wanted", "kind", "text"),
    [
        (
            {"devices": "8"},
            SearchError,
            "`devices` is '8'; it should be a whole number or several.\n  Try: write 256 · write (64, 128,",
        ),
        ({"devices": True}, SearchError, "`devices` is True; it should be a whole number or several."),
        ({"within": "60s"}, SearchError, "`within` is '60s'; it should be seconds.\n  Try: write `within=60`."),
        ({"within": float("nan")}, SearchError, "`within` is nan; it should be seconds."),
        (
            {"at_most": {"seconds": "4 hours"}},
            SearchError,
            '`at_most["seconds"]` is \'4 hours\'; it should be seconds.\n  Try: write 4.0 or "250 ms".',
        ),
        ({"devices": 0}, SearchError, "0 devices cannot hold a plan.\n  Try: search with 1 device or more."),
        ({"objective": "speed"}, SearchError, "There is no objective `speed`"),
        ({"zeros": ("zero_4",)}, SearchError, "There is no ZeRO stage `zero_4`"),
        ({"layouts": ("megatrom",)}, SearchError, "There is no layout `megatrom`"),
        ({"pins": {"colour": 1}}, SearchError, "There is no decision `colour`"),
        ({"pins": {"model": 0}}, SearchError, '`pins["model"]` is 0'),
        (
            {"pins": {"model": 3}},
            SearchError,
            "No plan in the search space has `model=3`: 3 does not divide 8 devices.\n"
            "  Try: pin `model` to 1, 2, 4 or 8 · leave the pin out.",
        ),
        ({"pins": {"model": (3, 5)}}, SearchError, "No plan in the search space has `model=3 or 5`: none of 3 or 5 divides 8 devices."),
        ({"layouts": "spatial"}, SearchError, "The layout `spatial` does not apply: "),
        ({"pins": {"layout": "spatial"}}, SearchError, "The layout `spatial` does not apply: "),
        ({"pins": {"zero": "zero_9"}}, SearchError, "There is no zero `zero_9`"),
        ({"at_most": {"memory": "lots"}}, SearchError, "`at_most[\"memory\"]` is 'lots'"),
        ({"at_most": {"seconds": -1}}, SearchError, "A limit of -1 seconds excludes every plan.\n  Try: give more than 0 seconds."),
        ({"hardware": "Laptop", "devices": 3}, HardwareError, "Laptop"),
        ({"hardware": "TPU v7", "at_most": {"dollars": 3}, "devices": 8}, HardwareError, "The hourly cost of TPU v7 1x2x2 is unknown"),
        ({"hardware": "TPU v7", "objective": "dollars", "devices": 8}, HardwareError, "The hourly cost of TPU v7 1x2x2 is unknown"),
        (
            {"pins": {"stage": 2}},
            SearchError,
            "No plan in the search space has a mesh axis `stage`: its program cannot be divided into stages and "
            "micro-batches, or the axis was excluded.\n  Try: pin `stage` to 1 · remove the pin.",
        ),
        (
            {"pins": {"expert": (2, 4)}},
            SearchError,
            "No plan in the search space has a mesh axis `expert`: none of its layouts uses it.\n"
            "  Try: pin `expert` to 1 · remove the pin · search the wide space.",
        ),
    ],
)
def test_what_cannot_be_searched_is_said(plan, wanted, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        find_plans(plan, axes=("data", "model"), **wanted)


def test_an_axis_that_a_search_does_not_know_is_said(plan):
    text = "There is no mesh axis `colour`; there are `stage`, `data`, `context`, `expert`, `model`.\n  Try: use one of these names."
    with pytest.raises(SearchError, match=re.escape(text)):
        find_plans(plan, axes=("data", "colour"))


def test_a_search_without_compilers_verifies_nothing():
    result = find_plans(Plan(build("two_layer"), "", hardware=HARDWARE), within=600, most_evaluations=1)
    text = "This search has no compilers to verify plans.\n  Try: search with `plan.search(...)`."
    with pytest.raises(SearchError, match=f"^{re.escape(text)}$"):
        result.verify()


def test_dollars_of_unnamed_hardware_are_not_known():
    text = 'The cost of a step is unknown: the plan has no hardware.\n  Try: search with hardware, "TPU v5p 8x16x16".'
    for wanted in ({"objective": "dollars"}, {"at_most": {"dollars": 3}}):
        with pytest.raises(SearchError, match=re.escape(text)):
            find_plans(Plan(build("gpt"), "data:8"), axes=("data", "model"), **wanted)


def test_no_pipeline_can_be_pinned_where_there_can_be_none():
    free, pinned = (find_plans(Plan(build("two_layer"), "", hardware=HARDWARE), within=600, pins=pins) for pins in ({}, {"stage": 1}))
    assert pinned.state.best == free.state.best
    assert pinned.state.is_complete


def test_a_program_without_a_batch_has_no_replicas():
    import jax
    import jax.numpy as jnp

    from workbench.tracing import trace

    program = trace(lambda w: jnp.sin(w) @ w.T, jax.ShapeDtypeStruct((8, 8), "float32"))
    assert find_plans(Plan(program, "", hardware=HARDWARE), within=60).state.is_complete


@pytest.mark.compile
def test_pins_that_contradict_each_other_are_known_before_anything_is_planned(plan):
    few = {**SMALL, "layouts": ("replicated",), "remats": ("none",), "schedules": ("1f1b", "zero_bubble")}
    result = find_plans(plan, within=600, **few, pins={"stage": 1, "schedule": "zero_bubble", "zero": "zero_1"})
    assert (result.state.evaluated, result.state.bounded, result.state.is_complete) == (0, 0, True)
    assert result.no_plan_error().message.startswith("No plan meets `stage 1` and `schedule zero_bubble` together.")
