"""Boundaries by memory, and as fast as fits: the best of all partitions by the tables, whose bytes are those that the planner states."""

from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.pipeline_spec import PipelineSpec, first_remat
from workbench.errors import PipelineError
from workbench.models import build
from workbench.pipeline.estimate_stage_costs import partition_costs, plan_starts
from workbench.pipeline.pipeline_report import pipeline_report
from workbench.pipeline.staged_program import StagedProgram, staged_program
from workbench.public_plan import Plan
from workbench.search.per_stage.stage_tables import StageTables, make_stage_tables
from workbench.search.uneven_boundaries import choose_boundaries, find_uneven_starts, least_of_largest

SCHEDULES = ("gpipe", "1f1b", "eager_1f1b", "zero_bubble")


@cache
def staged(name: str = "gpt", stages: int = 2, remat: str = "never", schedule: str = "1f1b", **model) -> StagedProgram:
    pipeline = f"stages:{stages} micro_batches:4 schedule:{schedule} remat:{remat}"
    return staged_program(
        Plan(build(name, **model), f"stage:{stages} data:{8 // stages}", "batch:data", pipeline=pipeline, hardware="8 H100")
    )


def figures_of(tables: StageTables, spec: PipelineSpec, starts: tuple[int, ...]) -> tuple[float, float]:
    """Bytes of the fullest device, seconds of the slowest stage."""
    bounds = (0, *starts, len(tables.forward))
    places = list(enumerate(pairwise(bounds)))
    memory = max(tables.peaks(spec, device)[place] for device, place in places)
    return float(memory), float(max(tables.seconds(recomputed=spec.recomputes(0, device))[place] for device, place in places))


@st.composite
def random_tables(draw: st.DrawFn) -> StageTables:
    count = draw(st.integers(1, 6))
    outside = np.tri(count, count + 1, dtype=bool)

    def table(nothing: float = 0.0) -> np.ndarray:
        values = draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
        sums = np.concatenate(([0], np.cumsum(values)))
        return np.where(outside, nothing, np.subtract.outer(-sums[:-1], -sums)).astype(float)

    return StageTables(table(np.inf), *(table() for _ in range(5)), (table(), table()), (table(), table()), *(table() for _ in range(3)))


@given(data=st.data())
def test_no_partition_is_better_than_the_one_found(data):
    tables = data.draw(random_tables())
    count = len(tables.forward)
    stages = data.draw(st.integers(1, count))
    remat = first_remat(data.draw(st.integers(0, stages)), stages)
    spec = PipelineSpec(stages, data.draw(st.integers(1, 6)), data.draw(st.sampled_from(SCHEDULES)), remat=remat)
    every = [figures_of(tables, spec, starts) for starts in combinations(range(1, count), stages - 1)]
    limit = data.draw(st.sampled_from(every))[0] * data.draw(st.sampled_from((0.0, 0.99, 1.0)))
    memory, seconds = figures_of(tables, spec, find_uneven_starts(tables, spec, limit))
    least = min(each for each, _ in every)
    assert memory <= max(limit, least)
    assert seconds == min(slowest for held, slowest in every if held <= max(limit, least))


@settings(max_examples=12)
@given(data=st.data())
def test_the_bytes_of_the_tables_are_those_that_the_planner_states(data):
    """Up to what arrives before it is read, and what other stages send for the update; never more, with halves of backward tasks too."""
    stages = data.draw(st.sampled_from((2, 4)))
    program = staged(
        data.draw(st.sampled_from(("gpt", "mixture"))),
        stages,
        first_remat(data.draw(st.integers(0, stages)), stages),
        data.draw(st.sampled_from(SCHEDULES)),
    )
    tables, count = make_stage_tables(program), len(program.network.paths)
    starts = data.draw(st.sampled_from(list(combinations(range(1, count), stages - 1))))
    whole = pipeline_report(program.plan)
    assert whole.partition_at is not None
    stated = whole.partition_at(starts).simulated.peaks
    bounds = (0, *starts, count)
    for device, (place, cost) in enumerate(zip(pairwise(bounds), partition_costs(program, starts), strict=True)):
        assert tables.resident[place] == pytest.approx(cost.resident)
        assert tables.residuals[place] == pytest.approx(cost.residuals, abs=8)
        assert tables.received[place] == pytest.approx(cost.input_activations, abs=8)
        assert tables.batch[place] == pytest.approx(cost.batch_inputs, abs=8)
        assert tables.seconds(recomputed=True)[place] == pytest.approx(cost.work + cost.forward)
        assert 0.6 * stated[device] <= tables.peaks(program.spec, device)[place] <= stated[device] * 1.001


def test_stages_that_recompute_get_fewer_blocks():
    program = staged(stages=2, remat="first_1", layers=12)
    spec = choose_boundaries(program, "fit")
    uneven, even = (pipeline_report(program.plan.updated(pipeline=each)) for each in (spec, program.spec))
    sizes = [[len(each.blocks) for each in report.virtual_stages] for report in (uneven, even)]
    assert sizes[0][0] < sizes[1][0]
    assert uneven.seconds < even.seconds


def test_boundaries_by_memory_hold_less_and_are_named():
    program = staged(stages=2)
    spec = choose_boundaries(program, "memory")
    assert len(spec.boundaries) == 1
    assert spec.boundaries[0] in program.network.paths
    by_memory, by_time = (pipeline_report(program.plan.updated(pipeline=each)).simulated for each in (spec, program.spec))
    assert max(by_memory.peaks) < max(by_time.peaks)
    assert choose_boundaries(program, "fit", max(by_memory.peaks)) == spec


def test_where_time_is_balanced_anyway_no_boundary_is_named():
    program = staged(stages=2)
    assert choose_boundaries(program, "time") == program.spec
    assert choose_boundaries(program, "fit") == program.spec
    assert len(plan_starts(program)) == 1


def test_the_least_of_the_largest_of_one_stage_is_all_of_it():
    assert least_of_largest(lambda _: np.array([[np.inf, 1.0, 3.0], [np.inf, np.inf, 2.0]]), 1) == (3.0, ())


def test_an_unknown_rule_names_those_there_are():
    with pytest.raises(PipelineError) as caught:
        choose_boundaries(staged(), "luck")
    assert str(caught.value) == (
        "There is no rule for boundaries `luck`; there are `time`, `memory`, `fit`.\n  Try: use one of these names."
    )


def test_several_chunks_a_device_have_no_boundaries_by_memory():
    plan = Plan(build("gpt"), "stage:2 data:4", "batch:data", pipeline="stages:2 micro_batches:4 schedule:interleaved chunks:2")
    with pytest.raises(PipelineError) as caught:
        choose_boundaries(staged_program(plan), "memory")
    assert str(caught.value) == (
        "Boundaries by memory need one chunk per device; the pipeline has 2.\n  Try: use boundaries by time · take chunks:1."
    )
