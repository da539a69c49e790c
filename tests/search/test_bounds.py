"""Bounds are never above the truth: those of a pipeline's stages against its simulation, those of candidates against the planner."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.pipeline_spec import PipelineSpec, first_remat
from workbench.core.schedules import ALL_SCHEDULES
from workbench.core.schedules.stage_cost import StageCost
from workbench.cost.estimate import estimate
from workbench.errors import WorkbenchError
from workbench.models import build
from workbench.pipeline.estimate_stage_costs import partition_costs
from workbench.pipeline.simulate_pipeline import simulate
from workbench.pipeline.stage_transfer import FREE_TRANSFER, Transfer
from workbench.pipeline.staged_program import staged_program
from workbench.public_plan import Plan
from workbench.search.bounds.program_bounds import partition_figures
from workbench.search.bounds.relaxed_blocks import total_blocks
from workbench.search.bounds.stage_bounds import BlockTotals, least_figures, least_slowdown
from workbench.search.candidate_plans import candidate_plan
from workbench.search.evaluator import Evaluator
from workbench.search.make_space import make_space
from workbench.search.plan_candidate import SHARING, WHOLE
from workbench.search.run_search import run_search
from workbench.search.search_figures import evaluate_plan
from workbench.search.search_space import SearchSpace
from workbench.search.traced_programs import OF_SOME_LAYERS

EXACT = 1 + 1e-9
every_schedule = pytest.mark.parametrize("schedule", ALL_SCHEDULES, ids=lambda each: each.name)
seconds = st.integers(1, 9).map(float)
sizes = st.integers(0, 9)
BANDWIDTH = 4.0


@st.composite
def specs(draw: st.DrawFn, schedule) -> PipelineSpec:
    devices, chunks = draw(st.integers(1, 5)), draw(st.integers(1, 3)) if schedule.loops else schedule.chunks
    micro_batches = draw(st.integers(1, 4)) * devices if schedule.whole_rounds and chunks > 1 else draw(st.integers(1, 12))
    remat = first_remat(draw(st.integers(0, devices)), devices)
    return PipelineSpec(devices, micro_batches, schedule.name, chunks, remat=remat)


@st.composite
def networks(draw: st.DrawFn, stages: int) -> tuple[BlockTotals, tuple[int, ...]]:
    """Random blocks, equal ones now and then, and which of them begin a virtual stage."""
    lengths = draw(st.lists(st.integers(1, 3), min_size=stages, max_size=stages))
    count = sum(lengths)

    def column(values: st.SearchStrategy[float]) -> np.ndarray:
        few = st.lists(values, min_size=count, max_size=count)
        return np.array(draw(st.one_of(values.map(lambda each: [each] * count), few)), float)

    rows = [column(seconds) for _ in range(3)] + [column(sizes) for _ in range(4)]
    return BlockTotals(*rows), tuple(np.cumsum(lengths)[:-1].tolist())


def sum_seconds(count: int) -> float:
    return 0.5 + count / 2 if count else 0.0


def costs_of(blocks: BlockTotals, starts: tuple[int, ...], more: int) -> tuple[StageCost, ...]:
    """The stages' costs, `more` bytes and a transfer above what the bounds know."""
    bounds = (0, *starts, len(blocks.forward))
    found = []
    for number, (a, b) in enumerate(pairwise(bounds)):
        resident, summed = int(blocks.resident[a:b].sum()), int(blocks.summed[a:b].sum())
        found.append(
            StageCost(
                *(float(each[a:b].sum()) for each in (blocks.forward, blocks.backward_input, blocks.backward_weight)),
                resident=resident,
                residuals=int(blocks.kept[a:b].sum()) + more,
                transient=more,
                input_activations=int(blocks.received[a]),
                sends=((number + 1, 1 + more),) if b < len(blocks.forward) else (),
                update=2 * resident / BANDWIDTH + sum_seconds(summed),
            )
        )
    return tuple(found)


@pytest.mark.compile
@every_schedule
@settings(max_examples=60)
@given(data=st.data())
def test_no_simulated_step_is_better_than_the_bounds_of_its_stages(schedule, data):
    spec = data.draw(specs(schedule))
    blocks, starts = data.draw(networks(spec.virtual_stages))
    transfer = data.draw(st.sampled_from((FREE_TRANSFER, Transfer.at(2.0, 0.5), Transfer.at(4.0, overlapped=False))))
    least = least_figures(spec, blocks, BANDWIDTH, sum_seconds)
    step = simulate(spec, costs_of(blocks, starts, data.draw(st.integers(0, 2))), transfer)
    assert least.seconds <= step.seconds * EXACT
    assert least.memory <= max(step.peaks)
    mean = spec.micro_batches * float(blocks.work.sum()) / spec.stages
    assert mean * least_slowdown(spec.schedule, spec.stages, spec.micro_batches, spec.chunks) <= step.seconds * EXACT
    known = partition_figures(spec, starts, blocks, BANDWIDTH, sum_seconds)
    assert least.seconds <= known.seconds * EXACT
    assert known.seconds <= step.seconds * EXACT
    assert known.memory <= max(step.peaks)


def test_a_stage_may_leave_to_the_next_what_does_not_fit_it():
    """Block 3 fits the last device alone, which keeps one micro-batch where the others keep three."""
    spec = PipelineSpec(4, 3, "eager_1f1b", remat="always")
    ones, zeros = np.ones(5), np.zeros(5)
    blocks = BlockTotals(ones, ones, ones, zeros, ones, np.array([0.0, 0.0, 0.0, 2.0, 0.0]), zeros)
    least = least_figures(spec, blocks, BANDWIDTH, sum_seconds)
    step = simulate(spec, costs_of(blocks, (1, 2, 3), 0), FREE_TRANSFER)
    assert least.memory <= max(step.peaks) == 4
    assert least.memory == pytest.approx(3, rel=2e-4)


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@given(data=st.data())
def test_with_equal_stages_and_free_transfers_the_bound_is_reached(name, data):
    devices, micro_batches = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 12))
    spec = PipelineSpec(devices, micro_batches, name, remat="never")
    forward, first, second = (data.draw(seconds) for _ in range(3))
    ones, zeros = np.ones(devices), np.zeros(devices)
    blocks = BlockTotals(forward * ones, first * ones, second * ones, *(zeros for _ in range(4)))
    least = least_figures(spec, blocks, BANDWIDTH, sum_seconds)
    assert least.seconds == pytest.approx((micro_batches + devices - 1) * (forward + first + second), rel=2e-4)
    assert least.seconds == pytest.approx(simulate(spec, costs_of(blocks, tuple(range(1, devices)), 0)).seconds, rel=2e-4)


SPACES = {
    "gpt": ("gpt", {}, "TPU v5e 2x4", {"most_examples": 4, "schedules": ("gpipe", "1f1b", "interleaved", "zb_v", "v_half")}),
    "gpt, switch": ("gpt", {}, "8 H100", {"most_examples": 4, "schedules": ("1f1b", "zero_bubble", "breadth_first")}),
    "mixture": ("mixture", {}, "8 H100", {"axes": ("data", "model", "expert")}),
    "mnist": ("mnist", {}, "TPU v5e 2x2", {}),
    "gpt, some layers": (
        "gpt",
        {"scan": True},
        "TPU v5e 2x4",
        {"most_examples": 4, "remats": OF_SOME_LAYERS, "schedules": ("1f1b", "zb_v")},
    ),
    "gpt, host": ("gpt", {}, "TPU v5e 2x4", {"most_examples": 16, "remats": ("offloaded", "full"), "schedules": ("1f1b",)}),
    "mixture, host": ("mixture", {}, "TPU v5e 2x2", {"axes": ("data", "model", "expert"), "remats": ("selective", "offloaded")}),
    "two_layer": ("two_layer", {}, "8 A100", {}),
}


@cache
def space_of(name: str) -> tuple[SearchSpace, Evaluator]:
    model, arguments, hardware, choices = SPACES[name]
    space = make_space(Plan(build(model, **arguments), "", hardware=hardware), **choices)
    return space, Evaluator(space)


@cache
def candidates_of(name: str) -> tuple:
    return tuple(space_of(name)[0].candidates())


@pytest.mark.share(2)
@pytest.mark.compile
@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=5)
@given(data=st.data())
def test_no_plan_is_better_than_the_bounds_of_its_candidate(name, data):
    space, evaluator = space_of(name)
    candidate = data.draw(st.sampled_from(candidates_of(name)))
    try:
        truth = evaluate_plan(candidate_plan(space, candidate))
    except WorkbenchError:
        return
    core = candidate.core()
    bounds = [evaluator.bound_core(core).bounds]
    bounds += [each.bounds for each in evaluator.bound_candidates(core, candidate.micro_batches) if each.candidate == candidate]
    if candidate.schedule != WHOLE:
        bounds += [each.bounds for each in evaluator.bound_partitions(candidate) if each.candidate == candidate]
    assert len(bounds) == (2 if candidate.schedule == WHOLE else 3)
    for each in bounds:
        assert each.seconds <= truth.seconds * EXACT
        assert each.memory <= truth.memory * EXACT
    if candidate.size("stage") > 1:
        work = evaluator.bound_work(core, candidate.micro_batches)
        group = candidate.micro_batches * work.seconds(recomputed=candidate.remat == "full") / candidate.size("stage")
        assert group * evaluator.least_slowdown(candidate) <= truth.seconds * EXACT
        assert evaluator.least_slowdown(replace(core, micro_batches=candidate.micro_batches)) <= evaluator.least_slowdown(candidate)


@pytest.mark.compile
@pytest.mark.parametrize("name", ["gpt", "gpt, switch"])
def test_few_replicas_hold_and_are_sent_what_many_are(name):
    """What a block is sent and shares decides the memory bound where stages recompute: it was twice the truth with two replicas."""
    space, evaluator = space_of(name)
    found = {each.core(): each for each in candidates_of(name) if each.size("data") > 2 and each.size("stage") > 1}
    assert found
    for core, candidate in found.items():
        staged = staged_program(candidate_plan(space, candidate))
        relaxed = evaluator._relax(staged.plan)
        totals = total_blocks(relaxed, relaxed.block_costs(), staged.plan, (candidate.zero,))[candidate.zero]
        stages = partition_costs(staged, range(1, len(staged.network.paths)))
        assert totals.received.tolist() == [each.input_activations - each.batch_inputs for each in stages], core


@pytest.mark.compile
@given(data=st.data())
@settings(max_examples=10)
def test_no_plan_whose_replicas_share_parameters_is_faster_than_its_largest_blocks(data):
    evaluator = space_of("gpt")[1]
    sharing = [each for each in candidates_of("gpt") if each.zero == SHARING and each.schedule != WHOLE]
    candidate = data.draw(st.sampled_from(sharing))
    work = evaluator.bound_sharing(candidate.core(), candidate.micro_batches).seconds(recomputed=candidate.remat == "full")
    alone = evaluator.bound_work(candidate.core(), candidate.micro_batches).seconds(recomputed=candidate.remat == "full")
    assert candidate.micro_batches * work / candidate.size("stage") <= evaluator.evaluate(candidate).seconds * EXACT
    assert work >= alone / EXACT


@pytest.mark.compile
def test_what_a_search_states_is_below_what_it_finds():
    space, evaluator = space_of("mnist")
    states = list(run_search(space, within=600, evaluator=evaluator))
    best = states[-1].best[1].seconds
    assert states[-1].is_complete
    assert all(state.least <= best * EXACT and isfinite(state.elapsed) for state in states)


def test_few_replicas_are_as_near_to_each_other_as_many():
    space, evaluator = space_of("gpt")
    found = [each for each in candidates_of("gpt") if each.mesh == (("stage", 2), ("data", 2), ("model", 2)) and each.micro_batches == 8]
    for candidate in [each for each in found if each.schedule == "1f1b" and each.layout == "megatron"]:
        (bounds,) = (each.bounds for each in evaluator.bound_candidates(candidate.core(), 8) if each.candidate == candidate)
        assert bounds.seconds <= evaluator.evaluate(candidate).seconds * EXACT
    assert space.size > len(found) > 10


@pytest.mark.parametrize("hardware", ["TPU v5e 2x2", "4 H100"])
def test_a_step_without_a_pipeline_is_bounded_by_the_arguments_of_its_zero_stage(hardware):
    """Without it, plans that cannot fit are planned one by one: 30 of 72 of GPT-3's on 2,048 chips."""
    evaluator = Evaluator(make_space(Plan(build("gpt"), "", hardware=hardware), axes=("data",)))
    core = next(each for each in evaluator.space.cores() if each.size("data") == 4 and each.layout == "replicated")
    bounds = {each.candidate: each.bounds.memory for each in evaluator.bound_candidates(core, 1)}
    plans = {candidate: candidate_plan(evaluator.space, candidate) for candidate in bounds}
    assert bounds == {each: estimate(plan).memory.argument_bytes for each, plan in plans.items()}
    assert len({*bounds.values()}) == 3, "ZeRO 1 and 2 differ in the gradients alone"


LARGE_DOTS = {
    "decoder": {"layers": 1, "batch": 8, "seq": 2048, "d_model": 4096, "d_ff": 8192, "vocab": 512},
    "decoder, fused": {"layers": 1, "batch": 8, "seq": 8192, "d_model": 2048, "d_ff": 2048, "vocab": 512, "fused": "attention"},
    "unet": {"preset": "mesh-tensorflow"},
}


@pytest.mark.compile
@pytest.mark.parametrize("chip", ["TPU v5e 1x1", "1 H100", "1 A100", "1 V100", "1 P100"])
@pytest.mark.parametrize("name", LARGE_DOTS)
def test_no_large_dot_is_faster_than_the_rate_of_the_bounds(name, chip):
    """On one device, where dots are most of a step, or are convolutions."""
    program = build(name.partition(",")[0], **LARGE_DOTS[name])
    plan = Plan(program, "data:1", hardware=chip)
    space = make_space(plan, layouts="replicated", axes=("data",), remats=("none",))
    (core,) = space.cores()
    bound, truth = Evaluator(space).bound_core(core).bounds.seconds, evaluate_plan(plan).seconds
    assert (0.07 if name == "unet" else 0.3) * truth <= bound <= truth * EXACT
