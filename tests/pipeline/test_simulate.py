"""The simulation of a step: laws over random stages under every schedule, and answers known beforehand."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support import pipelines
from workbench.core.pipeline_spec import REMAT, PipelineSpec, first_remat
from workbench.core.schedules import ALL_SCHEDULES, schedule_named
from workbench.core.schedules.schedule import Kind, Task
from workbench.core.schedules.stage_cost import AtWork, Halves, StageCost, equal_stages, receives
from workbench.errors import PipelineError
from workbench.pipeline.simulate_pipeline import simulate, simulate_orders
from workbench.pipeline.stage_transfer import Transfer, transfer_of
from workbench.public_plan import Plan
from workbench.reports.simulated_pipeline import Moment, SimulatedPipeline

every_schedule = pytest.mark.parametrize("schedule", ALL_SCHEDULES, ids=lambda each: each.name)
laws = settings(max_examples=20)
seconds = st.integers(0, 5).map(float)
GRADIENTS = (Kind.BACKWARD, Kind.BACKWARD_INPUT)


@st.composite
def stages(draw: st.DrawFn, count: int) -> tuple[StageCost, ...]:
    """Costs in whole seconds and bytes, with skips now and then."""
    return tuple(
        StageCost(
            *(draw(seconds) for _ in range(3)),
            *(draw(st.integers(0, 9)) for _ in range(4)),
            sends=tuple((later, draw(st.integers(1, 9))) for later in range(stage + 1, count) if later == stage + 1 or draw(st.booleans())),
            update=draw(seconds),
        )
        for stage in range(count)
    )


@st.composite
def steps(draw: st.DrawFn, schedule) -> tuple[PipelineSpec, tuple[StageCost, ...], Transfer]:
    devices, chunks = draw(st.integers(1, 4)), draw(st.integers(1, 3)) if schedule.loops else schedule.chunks
    micro_batches = draw(st.integers(1, 4)) * devices if schedule.whole_rounds and chunks > 1 else draw(st.integers(1, 9))
    remat = draw(st.sampled_from((*REMAT, *(f"first_{count}" for count in range(1, devices)))))
    spec = PipelineSpec(devices, micro_batches, schedule.name, chunks, remat=remat)
    transfer = Transfer.at(draw(st.sampled_from([0.5, 4.0])), draw(seconds), overlapped=draw(st.booleans()))
    return spec, draw(stages(spec.virtual_stages)), transfer


def simulated(step) -> SimulatedPipeline:
    return simulate(*step)


@every_schedule
@laws
@given(data=st.data())
def test_a_device_does_one_task_at_a_time_each_after_what_it_waits_for(schedule, data):
    step = spec, costs, transfer = data.draw(steps(schedule))
    found = simulated(step)
    for spans in found.devices:
        assert all(one.end <= other.start for one, other in pairwise(spans))
    ends = {(span.task.kind in GRADIENTS, span.task.stage, span.task.micro_batch): span.end for span in found.spans}
    ends |= {(span.task.kind, *span.task[1:]): span.end for span in found.spans}
    for span in found.spans:
        kind, stage, i = span.task
        at = span.start
        for source, count in receives(costs)[stage] if kind is Kind.FORWARD else ():
            wait = transfer.seconds(count) if spec.device_of(source) != span.device else 0.0
            assert ends[Kind.FORWARD, source, i] + wait <= at
        if kind in GRADIENTS:
            assert ends[Kind.FORWARD, stage, i] <= at
            assert all(ends[True, later, i] <= at for later, _ in costs[stage].sends)
        if kind is Kind.BACKWARD_WEIGHT:
            assert ends[Kind.BACKWARD_INPUT, stage, i] <= span.start


@every_schedule
@laws
@given(data=st.data())
def test_a_step_takes_at_least_the_busiest_device_and_the_longest_chain(schedule, data):
    step = spec, costs, _ = data.draw(steps(schedule))
    found = simulated(step)
    assert found.makespan >= max(found.busy)
    again = [cost.forward if spec.recomputes(0, spec.device_of(k)) else 0.0 for k, cost in enumerate(costs)]
    assert found.makespan >= sum(cost.forward + cost.backward_input + more for cost, more in zip(costs, again, strict=True))
    assert found.seconds >= found.makespan
    assert 0 <= found.bubble <= 1


@every_schedule
@laws
@given(data=st.data())
def test_the_critical_path_has_no_slack_where_nothing_is_sent(schedule, data):
    spec, costs, _ = data.draw(steps(schedule))
    assume(sum(cost.work for cost in costs))
    found = simulate(spec, costs)
    path = found.critical_path
    assert path[0].start == 0.0
    assert path[-1].end == found.makespan
    assert all(one.end == other.start for one, other in pairwise(path))


@every_schedule
@laws
@given(data=st.data())
def test_a_device_ends_with_what_it_holds_and_never_has_less(schedule, data):
    step = spec, costs, _ = data.draw(steps(schedule))
    found = simulated(step)
    for device in range(spec.stages):
        held = sum(costs[stage].resident for stage in found.stages_of(device))
        moments = found.memory(device)
        assert moments[-1].bytes == held
        assert min(moment.bytes for moment in moments) >= held
        assert found.peaks[device] >= held + max(
            (costs[stage].transient for stage in found.stages_of(device) if costs[stage].forward), default=0
        )


@pytest.mark.compile
@every_schedule
@laws
@given(data=st.data())
def test_where_the_first_stages_recompute_they_hold_what_they_do_if_all_do_and_the_others_what_they_do_if_none_does(schedule, data):
    """In all chunks of a device; when its tasks begin does not matter, only their order."""
    spec, costs, transfer = data.draw(steps(schedule))
    kinds = ("forward", "backward_input", "backward_weight")
    costs = tuple(replace(cost, **{kind: 1 + getattr(cost, kind) for kind in kinds}) for cost in costs)  # else tasks begin at one time
    all_again, none = (simulate(replace(spec, remat=remat), costs, transfer).peaks for remat in ("always", "never"))
    count = data.draw(st.integers(0, spec.stages))
    found = simulate(replace(spec, remat=first_remat(count, spec.stages)), costs, transfer)
    assert found.peaks == (*all_again[:count], *none[count:])
    assert [any(span.recompute for span in spans) for spans in found.devices] == [device < count for device in range(spec.stages)]


def test_the_first_stages_of_1f1b_hold_the_most_and_their_recomputation_costs_less_than_that_of_all():
    """Of 4 stages with 4, 3, 2 and 1 micro-batches of 10 B: the first one recomputing brings the fullest from 40 B to 30 B."""
    costs = tuple(StageCost(1, 1, 1, residuals=10, input_activations=1, sends=((k + 1, 0),) if k < 3 else ()) for k in range(4))
    found = [simulate(PipelineSpec(4, 8, remat=remat), costs) for remat in ("never", "first_1", "first_2", "always")]
    assert [step.peaks for step in found] == [(40, 30, 20, 10), (14, 30, 20, 10), (14, 13, 20, 10), (14, 13, 12, 11)]
    assert [sum(span.recompute for span in step.spans) for step in found] == [0, 8, 16, 32]
    assert [step.seconds for step in found] == sorted(step.seconds for step in found)


@every_schedule
def test_slower_links_never_make_a_step_shorter(schedule):
    costs = equal_stages(4 * schedule.chunks, sent=8)
    spec = PipelineSpec(4, 8, schedule.name, schedule.chunks)
    times = [simulate(spec, costs, Transfer.at(bandwidth)).seconds for bandwidth in (1e9, 80.0, 8.0, 1.0)]
    assert times == sorted(times)
    assert times[-1] > times[0]
    waiting = [simulate(spec, costs, Transfer.at(80.0, overlapped=overlapped)).seconds for overlapped in (True, False)]
    assert waiting[0] < waiting[1]


@pytest.mark.parametrize("times", [[1.0], [1.0] * 4, [1.0, 2.0, 1.5], [3.0, 1.0, 1.0, 2.0]])
@pytest.mark.parametrize("micro_batches", [1, 2, 7, 32])
def test_unequal_stages_fill_and_drain_over_the_slowest(times, micro_batches):
    """sum t + (M - 1) max t, forwards and backwards alike."""
    costs = [StageCost(time, time, time) for time in times]
    forward = sum(times) + (micro_batches - 1) * max(times)
    assert simulate(PipelineSpec(len(times), micro_batches, "gpipe", remat="never"), costs).makespan == pytest.approx(3 * forward)
    one = simulate(PipelineSpec(len(times), micro_batches, "1f1b", remat="never"), costs).makespan
    assert one >= micro_batches * 3 * max(times)


def test_a_skip_is_waited_for_and_goes_straight_to_its_reader():
    """Stage 0 sends 40 bytes to stage 2 over its own link, at 10 bytes a second."""
    costs = (StageCost(1, 1, 1, sends=((1, 0), (2, 40))), StageCost(1, 1, 1), StageCost(1, 1, 1))
    found = simulate(PipelineSpec(3, 1, "gpipe", remat="never"), costs, Transfer.at(10.0))
    at = {span.task: span.start for span in found.spans}
    assert at[Task(Kind.FORWARD, 1, 0)] == 1.0
    assert at[Task(Kind.FORWARD, 2, 0)] == 5.0
    assert at[Task(Kind.BACKWARD, 0, 0)] == 8.0 + 4.0


def test_behind_a_switch_a_skip_shares_its_senders_port_with_what_the_next_stage_waits_for():
    """The next stage is sent to first; the second micro-batch of 2 s waits until the skip of the first, 4 s, is through as well."""
    costs = StageCost(1, 1, 1, sends=((1, 20), (2, 40))), StageCost(1, 1, 1, sends=((2, 0),)), StageCost(1, 1, 1)
    spec = PipelineSpec(3, 2, "gpipe", remat="never")
    one, shared = (
        {span.task: span.start for span in simulate(spec, costs, Transfer.at(10.0, shared_port=each)).spans} for each in (False, True)
    )
    first, second, skip = Task(Kind.FORWARD, 1, 0), Task(Kind.FORWARD, 1, 1), Task(Kind.FORWARD, 2, 0)
    assert (one[first], one[second], one[skip]) == (3.0, 5.0, 5.0)
    assert (shared[first], shared[second], shared[skip]) == (3.0, 9.0, 7.0)


def test_the_port_of_a_switch_is_shared_and_the_links_of_a_torus_are_not():
    program = pipelines.skips()
    on = {name: Plan(program, "stage:4", hardware=name, pipeline="stages:4 micro_batches:2") for name in ("4 P40", "8 H100", "TPU v5e 2x2")}
    assert {name: transfer_of(plan).shared_port for name, plan in on.items()} == {"4 P40": True, "8 H100": True, "TPU v5e 2x2": False}


def test_memory_over_a_small_step_is_known_moment_by_moment():
    costs = (StageCost(1, 1, 0, resident=100, residuals=10, transient=1, input_activations=4),)
    kept = simulate(PipelineSpec(1, 2, "gpipe", remat="never"), costs)
    assert kept.memory(0) == (Moment(0.0, 111), Moment(1.0, 121), Moment(3.0, 111), Moment(4.0, 100))
    again = simulate(PipelineSpec(1, 2, "gpipe", remat="always"), costs)
    assert again.memory(0) == (Moment(0.0, 105), Moment(1.0, 109), Moment(2.0, 119), Moment(4.0, 115), Moment(6.0, 100))
    assert (kept.peaks, again.peaks) == ((121,), (119,))


def test_what_waits_between_the_halves_of_a_backward_task_is_counted_until_the_second():
    halves = Halves(input=40, waiting=20, weight=25)
    costs = (
        StageCost(1, 1, 1, resident=100, residuals=10, transient=1),
        StageCost(1, 1, 1, resident=100, residuals=10, transient=1, halves=(halves, halves)),
    )
    found = simulate(PipelineSpec(2, 1, "zero_bubble", remat="never"), costs)
    assert found.memory(1) == (Moment(0.0, 100), Moment(1.0, 111), Moment(2.0, 140), Moment(3.0, 125), Moment(4.0, 100))
    assert found.peaks == (111, 140)  # without figures for the halves all that is kept waits


def test_what_is_sent_before_another_task_is_dispatched_waits_on_the_device_that_will_read_it():
    """One process dispatches in turns: with 1F1B the second micro-batch is sent before the backward task of the first, and has its place
    there; with GPipe each is read by the task that is dispatched next, however long the device takes to come to it."""
    costs = StageCost(1, 1, 1, sends=((1, 8),)), StageCost(9, 1, 1)
    found = simulate(PipelineSpec(2, 3, "1f1b", remat="never"), costs, Transfer.at(8.0))
    first, second = (span for span in found.devices[1] if span.task.kind is Kind.BACKWARD and span.task.micro_batch < 2)
    assert {moment.start for moment in found.memory(1) if moment.bytes == 8} == {first.start, second.start}
    in_turns = simulate(PipelineSpec(2, 3, "gpipe", remat="never"), costs, Transfer.at(8.0))
    assert in_turns.peaks[1] == 0


def test_batch_data_is_there_from_the_start_until_the_task_that_reads_it_last():
    costs = (
        StageCost(
            1, 1, 0, resident=100, residuals=10, batch_inputs=4, at_work=(AtWork(forward=14, backward=12), AtWork(forward=14, backward=12))
        ),
    )
    found = simulate(PipelineSpec(1, 2, "1f1b", remat="never"), costs)
    assert found.memory(0) == (Moment(0.0, 118), Moment(1.0, 116), Moment(2.0, 114), Moment(3.0, 112), Moment(4.0, 100))


def test_sums_of_gradients_that_other_stages_send_are_there_in_the_update():
    found = simulate(
        PipelineSpec(2, 1), (StageCost(1, 1, 1, resident=100, borrowed_grads=50), StageCost(1, 1, 1, resident=100, residuals=20))
    )
    assert found.peaks == (150, 120)


def test_orders_that_wait_for_each_other_are_refused():
    forward, backward = Kind.FORWARD, Kind.BACKWARD
    orders = ((Task(forward, 0, 0), Task(backward, 0, 0)), (Task(backward, 1, 0), Task(forward, 1, 0)))
    with pytest.raises(PipelineError, match="deadlocks, at B0, B0"):
        simulate_orders(orders, equal_stages(2))


def test_costs_of_other_pieces_than_the_pipelines_are_refused():
    with pytest.raises(PipelineError, match="4 stages x 2 chunks = 8 virtual stages, and 4 have a cost"):
        simulate(PipelineSpec(4, 4, "circular", 2), equal_stages(4))


def test_a_device_updates_its_parameters_without_waiting_for_the_others():
    costs = (StageCost(1, 1, 1, update=5), StageCost(1, 1, 1, update=1))
    found = simulate(PipelineSpec(2, 1, remat="never"), costs)
    assert (found.update_span(0), found.update_span(1), found.seconds) == ((6.0, 11.0), (4.0, 5.0), 11.0)


def test_one_device_walks_several_hundred_micro_batches_without_growing_stacks():
    found = simulate(PipelineSpec(16, 256, "interleaved", 2, remat="never"), equal_stages(32))
    assert found.makespan == 256 * 2 * 3 + 15 * 3
    assert len(schedule_named("interleaved").tasks(16, 256, 2)[0]) == 1024


def test_what_goes_from_one_virtual_stage_to_the_next_on_the_same_device_is_not_sent():
    """In a V of two devices stages 1 and 2 are neighbours on device 1; only what goes from 0 to 1 and from 2 to 3 takes a link."""
    found = simulate(PipelineSpec(2, 1, "zb_v", 2, remat="never"), equal_stages(4, sent=8), Transfer.at(1.0))
    at = {span.task: span.start for span in found.spans}
    assert [at[Task(Kind.FORWARD, stage, 0)] for stage in range(4)] == [0.0, 9.0, 10.0, 19.0]
    assert {(arrival.task.stage, arrival.stage) for arrival in found.arrivals} == {(0, 1), (2, 3), (3, 2), (1, 0)}
    assert (found.stages_of(0), found.stages_of(1)) == ((0, 3), (1, 2))
