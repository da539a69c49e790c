"""Programs of a search traced in several ways: optimizer's state in the host's memory, never in pipelines, with bounds that hold."""

from contextlib import suppress
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.search_bounds import enumerate_figures, verify_bounds
from workbench.core.offload import Offload
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.errors import OffloadError, PrecisionError, SearchError, WorkbenchError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.public_plan import Plan
from workbench.search.evaluator import Evaluator
from workbench.search.explain import list_counterfactuals, make_ledger
from workbench.search.find_plans import find_plans
from workbench.search.make_space import make_space
from workbench.search.neighbours import is_of_space
from workbench.search.plan_candidate import PlanCandidate
from workbench.search.present_plan import find_candidate
from workbench.search.search_figures import Figures, evaluate_plan
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import OFFLOADS, TracedAs, trace_programs

EXACT = 1 + 1e-9
HARDWARE = "TPU v5e 2x2"
FEW = {"axes": ("data", "model"), "layouts": ("replicated", "megatron"), "offloads": OFFLOADS}


@cache
def gpt() -> Plan:
    return Plan(build("gpt"), "", hardware=HARDWARE)


@cache
def enumerated() -> tuple[SearchSpace, Evaluator, dict[PlanCandidate, Figures]]:
    """A small space with the figures of every plan of it."""
    space = make_space(gpt(), **FEW)
    evaluator = Evaluator(space)
    return space, evaluator, enumerate_figures(evaluator)


@cache
def staged_space() -> tuple[SearchSpace, Evaluator, tuple[PlanCandidate, ...]]:
    space = make_space(gpt(), offloads=OFFLOADS, remats=("none", "full"), schedules=("1f1b",))
    return space, Evaluator(space), tuple(space.candidates())


def test_bounds_hold_with_and_without_state_on_the_host():
    _, evaluator, found = enumerated()
    assert {each.offload for each in found} == {*OFFLOADS}
    for candidate, truth in found.items():
        bounds = evaluator.bound_core(candidate.core()).bounds
        assert bounds.seconds <= truth.seconds * EXACT
        assert bounds.memory <= truth.memory * EXACT


@settings(max_examples=8)
@given(data=st.data())
def test_no_pipeline_has_its_state_on_the_host(data):
    space, evaluator, candidates = staged_space()
    assert space.size == len(candidates)
    assert {each.schedule for each in candidates if each.offload == "optimizer_state"} == {""}
    candidate = data.draw(st.sampled_from(candidates))
    try:
        plan = evaluator.plan(candidate)
    except WorkbenchError:
        return
    assert str(plan.program.offload) == candidate.offload
    (bounds,) = (
        each.bounds for each in evaluator.bound_candidates(candidate.core(), candidate.micro_batches) if each.candidate == candidate
    )
    truth = evaluator.evaluate(candidate)
    assert bounds.memory <= truth.memory * EXACT
    assert bounds.seconds <= truth.seconds * EXACT


def test_under_a_limit_of_memory_the_best_plan_may_keep_state_on_the_host():
    _, _, found = enumerated()
    limit = min(each.memory for candidate, each in found.items() if candidate.offload == "nothing") * 0.99
    best = min(each.seconds for each in found.values() if each.memory <= limit)
    result = find_plans(gpt(), at_most={"memory": limit}, within=600, **FEW)
    assert result.state.is_proved
    candidate, figures = result.state.best
    assert figures.seconds == best
    assert candidate.offload == "optimizer_state"
    assert result.best.program.offload == Offload(optimizer_state=True)
    assert "optimizer state offloaded" in str(candidate)


def test_a_wide_search_offloads_where_the_program_allows_it():
    assert make_space(gpt(), wide=True, remats=("none",)).offloads == OFFLOADS
    assert make_space(gpt(), remats=("none",)).offloads == ("nothing",)
    assert make_space(Plan(build("mnist"), "", hardware=HARDWARE), wide=True).offloads == ("nothing",)
    with pytest.raises(OffloadError, match="The optimizer of `mnist` keeps only scalars as state"):
        make_space(Plan(build("mnist"), "", hardware=HARDWARE), offloads=OFFLOADS)
    with pytest.raises(SearchError) as caught:
        make_space(gpt(), offloads=("weights",))
    assert str(caught.value) == "There is no offload `weights`; there are `nothing`, `optimizer_state`.\n  Try: use one of these names."


def test_offloading_stands_in_what_ifs_and_is_pinned():
    space, evaluator, found = enumerated()
    here = next(each for each in found if each.offload == "nothing")
    (other,) = (each for each in list_counterfactuals(evaluator, here) if each.decision == "offload")
    assert other.change == "optimizer state offloaded instead of nothing offloaded"
    assert other.figures.memory < found[here].memory
    assert "offloaded nothing or optimizer state" in space.describe()
    result = find_plans(gpt(), pins={"offload": "optimizer_state"}, within=600, **FEW)
    assert {each.offload for each, _ in result.front} == {"optimizer_state"}


def test_to_more_stages_the_state_comes_back_to_the_devices():
    space, evaluator, candidates = staged_space()
    here = next(each for each in candidates if each.offload == "optimizer_state" and each.size("data") == 4 and each.layout == "replicated")
    others = [each.candidate for each in list_counterfactuals(evaluator, here) if each.candidate.size("stage") > 1]
    assert others
    assert {each.offload for each in others} == {"nothing"}
    assert space.offloads_of(others[0].mesh) == ("nothing",)


def test_activations_are_on_the_host_where_that_is_asked_for_and_for_whole_steps():
    assert "offloaded" not in make_space(gpt()).remats
    assert make_space(gpt(), wide=True).remats[:4] == ("none", "selective", "offloaded", "full")
    assert "offloaded" not in make_space(Plan(build("mnist"), "", hardware=HARDWARE), wide=True).remats
    space = make_space(gpt(), remats=("none", "offloaded"), schedules=("1f1b",))
    candidates = list(space.candidates())
    assert space.size == len(candidates) == len(set(candidates))
    hosted = [each for each in candidates if each.remat == "offloaded"]
    assert {(each.size("stage"), each.micro_batches) for each in hosted} == {(1, 1)}
    assert "remat none, offloaded" in space.describe()
    assert "remat with activations on the host" in str(hosted[0])
    assert all(is_of_space(space, each) for each in hosted)


def test_activations_on_the_host_take_less_of_the_device_and_their_time_is_told():
    plan = Plan(build("gpt", layers=4, seq=256, batch=32), "data:4", "batch:data", hardware="4 H100")
    space = make_space(plan, remats=("none", "selective", "offloaded"), axes=("data",), layouts=("replicated",), zeros=("no ZeRO",))
    evaluator = Evaluator(space)
    found = {each.remat: each for each in space.candidates() if each.schedule == ""}
    figures = {remat: evaluator.evaluate(each) for remat, each in found.items()}
    assert figures["offloaded"].memory < figures["selective"].memory < figures["none"].memory
    assert figures["offloaded"].seconds > figures["selective"].seconds
    ledger = make_ledger(evaluator, found["selective"], found["offloaded"])
    (line,) = ledger.lines
    assert (line.before, line.after) == ("remat selective", "remat with activations on the host")
    assert line.seconds == figures["offloaded"].seconds - figures["selective"].seconds
    changes = {each.change: each for each in list_counterfactuals(evaluator, found["offloaded"])}
    assert changes["remat selective instead of remat with activations on the host"].figures == figures["selective"]
    report = evaluator.plan(found["offloaded"]).report()
    assert report.host_traffic == 2 * report.memory.host > 0


def test_a_plan_with_activations_on_the_host_is_its_candidate_and_is_found_by_a_pin():
    result = find_plans(
        gpt(), remats=("none", "offloaded"), pins={"remat": "offloaded"}, within=600, axes=("data",), layouts=("replicated",)
    )
    assert {each.remat for each, _ in result.front} == {"offloaded"}
    assert result.best.program.remat == Remat("offload_dots_no_batch")
    again = make_space(result.best, remats=("none", "offloaded"), axes=("data",), layouts=("replicated",))
    assert find_candidate(again, result.best) == result.front[0][0]


def test_a_present_plan_that_offloads_is_its_candidate():
    space, evaluator, found = enumerated()
    here = next(each for each in found if each.offload == "optimizer_state")
    assert find_candidate(space, evaluator.plan(here)) == here
    alone = make_space(evaluator.plan(here), axes=FEW["axes"], layouts=FEW["layouts"])
    assert alone.offloads == ("optimizer_state",)
    assert find_candidate(alone, evaluator.plan(here)) == here
    assert Evaluator(alone).bound_core(here.core()).bounds.memory <= found[here].memory * EXACT


def test_more_than_the_host_has_is_no_plan():
    hardware = parse_hardware(HARDWARE)
    small = replace(hardware, chip=replace(hardware.chip, host_memory=1024))
    _, evaluator, found = enumerated()
    plan = evaluator.plan(next(each for each in found if each.offload == "optimizer_state" and each.mesh == (("data", 1), ("model", 4))))
    with pytest.raises(SearchError) as caught:
        evaluate_plan(plan.updated(hardware=small))
    assert str(caught.value) == (
        "One device would keep 452 KiB in host memory; its share of the TPU v5e host is 1.00 KiB: 452.50 times as much.\n"
        "  Try: keep it on the devices, offload `nothing`."
    )


def test_programs_are_traced_in_every_combination():
    found = trace_programs(build("gpt"), ("none", "full"), (), OFFLOADS)
    assert [traced for traced, _ in found] == [TracedAs(remat, offload=offload) for offload in OFFLOADS for remat in ("none", "full")]
    for traced, program in found:
        assert str(program.offload) == traced.offload
    assert trace_programs(build("two_layer"), None) == ((TracedAs("none"), build("two_layer")),)


PRECISIONS = ("as traced", "bfloat16", "params=bfloat16,moments=float32")


@cache
def precise_space(hardware: str) -> tuple[SearchSpace, Evaluator, tuple[PlanCandidate, ...]]:
    plan = Plan(build("gpt"), "", hardware=hardware)
    space = make_space(plan, precisions=PRECISIONS, remats=("none", "full"), schedules=("1f1b", "zb_v"), most_examples=4)
    return space, Evaluator(space), tuple(space.candidates())


@pytest.mark.share(2)
@pytest.mark.parametrize("hardware", ["8 H100", "TPU v5e 2x2"])
@settings(max_examples=8)
@given(data=st.data())
def test_bounds_hold_in_every_precision(hardware, data):
    space, evaluator, candidates = precise_space(hardware)
    candidate = data.draw(st.sampled_from(candidates))
    verify_bounds(evaluator, candidate)
    with suppress(WorkbenchError):
        assert str(evaluator.plan(candidate).program.precision) == candidate.precision
    assert space.size == len(candidates)


def test_a_bound_of_half_as_many_bytes_goes_with_parameters_of_half_as_many():
    _, evaluator, candidates = precise_space("8 H100")
    first = next(each for each in candidates if each.mesh[1:] == (("data", 8), ("model", 1)) and each.micro_batches == 1)
    least = {each: evaluator.bound_core(replace(first, precision=each).core()).bounds for each in PRECISIONS}
    assert least["bfloat16"].memory == least["as traced"].memory
    assert least["params=bfloat16,moments=float32"].memory < least["as traced"].memory
    assert least["bfloat16"].seconds < least["as traced"].seconds


def test_the_search_finds_the_fastest_precision_of_all():
    few = {"axes": ("data", "model"), "layouts": ("replicated", "megatron"), "remats": ("none",), "zeros": ("no ZeRO", "zero_1")}
    plan = Plan(build("gpt"), "", hardware="8 H100")
    space = make_space(plan, precisions=PRECISIONS, **few)
    found = enumerate_figures(Evaluator(space))
    result = find_plans(plan, precisions=PRECISIONS, within=600, **few)
    assert result.state.is_complete
    assert result.state.best[1].seconds == min(each.seconds for each in found.values())
    assert "precision as traced or bfloat16 or params=bfloat16,moments=float32" in space.describe()
    best = result.state.best[0]
    assert find_candidate(result.space, result.best) == best
    others = {each.candidate.precision for each in result.what_if() if each.decision == "precision"}
    assert others == {*PRECISIONS} - {best.precision}
    pinned = find_plans(plan, precisions=PRECISIONS, pins={"precision": "as traced"}, within=600, **few)
    assert {each.precision for each, _ in pinned.front} == {"as traced"}


def test_results_change_only_where_a_precision_is_named():
    assert make_space(gpt(), wide=True, remats=("none",)).precisions == ("as traced",)
    own = Plan(build("gpt").variant(precision=Precision("bfloat16")), "", hardware=HARDWARE)
    assert make_space(own, remats=("none",)).precisions == ("bfloat16",)
    assert make_space(own, remats=("none",), precisions=("bfloat16", "compute=bfloat16")).precisions == ("bfloat16",)
    with pytest.raises(PrecisionError, match="`float7` is not a compute type"):
        make_space(gpt(), precisions=("float7",))


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_a_bound_holds_where_zero_2_changes_what_replicas_send_within_a_micro_batch(micro_batches):
    _, evaluator, candidates = precise_space("8 H100")
    wanted = {"layout": "two-dimensional", "zero": "zero_2", "remat": "none", "precision": "bfloat16", "micro_batches": micro_batches}
    has = lambda each: all(getattr(each, name) == value for name, value in wanted.items())  # noqa: E731
    (candidate,) = (each for each in candidates if has(each) and dict(each.mesh) == {"stage": 1, "data": 4, "model": 2})
    verify_bounds(evaluator, candidate)
