"""Every schedule, under every law; the pictures in their files are what they yield."""

import ast
import inspect
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.core.schedules import ALL_SCHEDULES, PipelineShape, round_robin_schedules, schedule_named, v_schedules
from workbench.core.schedules.schedule import Kind, Task
from workbench.core.schedules.stage_cost import StageCost, equal_stages
from workbench.errors import PipelineError
from workbench.pipeline.simulate_pipeline import diagram, simulate_orders
from workbench.pipeline.stage_transfer import Transfer

every_schedule = pytest.mark.parametrize("schedule", ALL_SCHEDULES, ids=lambda each: each.name)
laws = settings(max_examples=25)


@st.composite
def shapes(draw: st.DrawFn, schedule) -> PipelineShape:
    devices, chunks = draw(st.integers(1, 6)), draw(st.integers(1, 3)) if schedule.loops else schedule.chunks
    rounds = schedule.whole_rounds and chunks > 1
    return PipelineShape(devices, draw(st.integers(1, 4)) * devices if rounds else draw(st.integers(1, 13)), chunks)


def picture_of(name: str) -> str:
    """The string after the schedule's definition."""
    for module in (round_robin_schedules, v_schedules):
        for before, after in pairwise(ast.parse(inspect.getsource(module)).body):
            if isinstance(before, ast.Assign) and isinstance(before.value, ast.Call) and getattr(before.value.args[0], "value", "") == name:
                return after.value.value
    raise LookupError(name)


def tasks_of(schedule, shape):
    return schedule.tasks(shape.devices, shape.micro_batches, shape.chunks)


@every_schedule
def test_the_diagram_in_the_docstring_is_the_schedule(schedule):
    text = picture_of(schedule.name)
    devices, micro_batches = (int(re.search(rf"{letter} = (\d+)", text)[1]) for letter in "pm")
    chunks = int(found[1]) if (found := re.search(r"v = (\d+) chunks", text)) else 1
    drawn = [line.strip() for line in text.splitlines() if line.strip().startswith("device ")]
    assert drawn == diagram(schedule, devices, micro_batches, chunks).splitlines()


@every_schedule
@laws
@given(data=st.data())
def test_each_micro_batch_goes_forward_then_backward_once_on_every_stage(schedule, data):
    shape = data.draw(shapes(schedule))
    homes = [schedule.device_of(stage, shape) for stage in range(shape.stages)]
    assert Counter(homes) == dict.fromkeys(range(shape.devices), shape.chunks)
    kinds = [Kind.FORWARD, *((Kind.BACKWARD_INPUT, Kind.BACKWARD_WEIGHT) if schedule.splits_backward else (Kind.BACKWARD,))]
    for device, order in enumerate(tasks_of(schedule, shape)):
        assert {schedule.device_of(task.stage, shape) for task in order} == {device}
        place = {task: number for number, task in enumerate(order)}
        assert len(place) == len(order) == len(kinds) * shape.chunks * shape.micro_batches
        for stage in {task.stage for task in order}:
            for micro_batch in range(shape.micro_batches):
                places = [place[Task(kind, stage, micro_batch)] for kind in kinds]
                assert places == sorted(places)


@every_schedule
@laws
@given(data=st.data(), cost=st.sampled_from([StageCost(2, 2, 2), StageCost(1, 2, 1), StageCost(3, 1, 1)]))
def test_equal_stages_idle_as_long_as_the_closed_form_says(schedule, data, cost):
    shape = data.draw(shapes(schedule))
    idle = simulate_orders(tasks_of(schedule, shape), (cost,) * shape.stages).makespan - shape.micro_batches * shape.chunks * cost.work
    expected = schedule.idle(shape, cost)
    assert expected is None or idle == pytest.approx(expected)


@every_schedule
def test_a_closed_form_is_there_for_a_full_pipeline_of_equal_tasks(schedule):
    """In tasks of a chunk, of which 1F1B with stages of two chunks idles 18."""
    expected = {"zero_bubble": 3, "zb_v": 3, "dualpipe_v": 3, "v_half": 9, "v_min": 11}
    assert schedule.idle(PipelineShape(4, 8, schedule.chunks), StageCost(1, 1, 1)) == expected.get(schedule.name, 9)


@every_schedule
@laws
@given(data=st.data())
def test_a_device_keeps_as_many_micro_batches_as_the_closed_form_says(schedule, data):
    shape = data.draw(shapes(schedule))
    simulated = simulate_orders(tasks_of(schedule, shape), (StageCost(1, 1, 1),) * shape.stages)
    expected = [schedule.in_flight(device, shape) for device in range(shape.devices)]
    assert [simulated.in_flight(device) for device in range(shape.devices)] == expected


def test_the_forward_passes_of_gpipe_are_the_clock_cycles_of_torchgpipe():
    """`clock_cycles(3, 3)` of torchgpipe (pipeline.py): (micro-batch, stage) pairs that run at a time."""
    simulated = simulate_orders(schedule_named("gpipe").tasks(3, 3), (StageCost(1, 1, 1),) * 3)
    cycles = [[] for _ in range(5)]
    for span in simulated.spans:
        if span.task.kind is Kind.FORWARD:
            cycles[int(span.start)].append((span.task.micro_batch, span.task.stage))
    assert [sorted(each, reverse=True) for each in cycles] == [
        [(0, 0)],
        [(1, 0), (0, 1)],
        [(2, 0), (1, 1), (0, 2)],
        [(2, 1), (1, 2)],
        [(2, 2)],
    ]


@pytest.mark.parametrize(
    ("stages", "bubbles"),
    [(2, {1: 0.5, 4: 0.2, 32: 0.0303}), (4, {1: 0.75, 4: 0.4286, 32: 0.0857}), (8, {1: 0.875, 4: 0.6364, 32: 0.1795})],
)
def test_the_bubble_of_gpipe_is_that_of_its_formula(stages, bubbles):
    for micro_batches, bubble in bubbles.items():
        simulated = simulate_orders(schedule_named("gpipe").tasks(stages, micro_batches), (StageCost(1, 1, 1),) * stages)
        assert simulated.bubble == pytest.approx(bubble, abs=5e-5)


@pytest.mark.parametrize("name", ["circular", "breadth_first"])
def test_going_round_several_times_shortens_the_bubble(name):
    """(K - 1) / (R M + K - 1): MaxText's documentation."""
    for rounds in (1, 2, 3):
        simulated = simulate_orders(schedule_named(name).tasks(4, 8, rounds), (StageCost(1, 1, 1),) * (4 * rounds))
        assert simulated.bubble == pytest.approx(3 / (rounds * 8 + 3))


def test_maxtexts_example_has_two_runs_of_layers_on_its_first_stage():
    """24 layers, 4 stages, 2 repeats: stage 0 has layers 0, 1, 2 and 12, 13, 14."""
    first = {task.stage for task in schedule_named("circular").tasks(4, 4, 2)[0]}
    assert [layer for stage in sorted(first) for layer in range(3 * stage, 3 * stage + 3)] == [0, 1, 2, 12, 13, 14]


@pytest.mark.parametrize(
    ("stages", "micro_batches", "chunks", "bubble"), [(8, 64, 3, 7 / 192), (35, 280, 3, 34 / 840), (64, 512, 1, 63 / 512)]
)
def test_the_bubble_of_the_published_runs_is_the_papers(stages, micro_batches, chunks, bubble):
    """Narayanan et al. 2021b, section 2.2: idle over working time, (p - 1) / (v m)."""
    idle = schedule_named("interleaved").idle(PipelineShape(stages, micro_batches, chunks), StageCost(1, 1, 1))
    assert idle / (3 * micro_batches * chunks) == pytest.approx(bubble)


def test_interleaving_keeps_as_much_more_as_korthikanti_says():
    """1 + (p - 1) / (p v) times as much on the first device (Korthikanti et al. 2022, section 4.2.3), in layers of a whole device."""
    for p, v in ((4, 2), (8, 3), (12, 4)):
        assert schedule_named("interleaved").in_flight(0, PipelineShape(p, 8 * p, v)) / v == pytest.approx(p * (1 + (p - 1) / (p * v)))


def test_a_zero_bubble_keeps_no_more_than_one_forward_one_backward_does():
    simple, zero = (max(schedule_named(name).in_flight(d, PipelineShape(6, 12)) for d in range(6)) for name in ("1f1b", "zero_bubble"))
    assert zero == simple == 6


def test_no_device_keeps_more_micro_batches_than_there_are():
    assert [schedule_named("1f1b").in_flight(device, PipelineShape(4, 2)) for device in range(4)] == [2, 2, 2, 1]


def chunks_held(name: str, devices: int, micro_batches: int) -> int:
    return max(schedule_named(name).in_flight(device, PipelineShape(devices, micro_batches, 2)) for device in range(devices))


@pytest.mark.parametrize("devices", [2, 3, 4, 6, 8, 12, 16])
def test_v_schedules_keep_as_many_micro_batches_as_published(devices):
    """Qi et al., "Pipeline Parallelism with Controllable Memory" (the authors' table, in micro-batches of a whole device; 1F1B keeps p):
    V-ZB p, V-Half (p + 2) div 2, V-Min (p + 4) div 3. DualPipeV: one chunk more than 1F1B (deepseek-ai/DualPipe, PP + 1 for PP = 2 p)."""
    held = {name: chunks_held(name, devices, 4 * devices) for name in ("zb_v", "v_half", "v_min", "dualpipe_v")}
    assert held == {
        "zb_v": 2 * devices,
        "v_half": 2 * ((devices + 2) // 2),
        "v_min": 2 * ((devices + 4) // 3),
        "dualpipe_v": 2 * devices + 1,
    }
    assert schedule_named("1f1b").in_flight(0, PipelineShape(devices, 4 * devices)) == devices


@pytest.mark.parametrize(("name", "share"), [("v_half", 1 / 2), ("v_min", 2 / 3), ("zb_v", 1 / 6)])
def test_v_schedules_idle_for_the_published_share_of_the_bubble(name, share):
    """The same table, for F, B and W that take equally long: 1F1B p / m, V-Half p / 2 m, V-Min 2 p / 3 m. ZB-V: none between a device's
    first task and its last; counted from the start of the step, the forward passes that the last device waits for."""
    shape, chunk = PipelineShape(32, 64, 2), StageCost(1, 1, 1)
    simple = schedule_named("1f1b").idle(PipelineShape(32, 64), StageCost(2, 2, 2))
    assert schedule_named(name).idle(shape, chunk) / simple == pytest.approx(share, abs=0.02)


def test_no_device_of_zb_v_waits_between_its_first_task_and_its_last():
    """Qi et al. 2024, section 6: no bubble where all tasks take equally long."""
    simulated = simulate_orders(schedule_named("zb_v").tasks(4, 12, 2), (StageCost(1, 1, 1),) * 8)
    for spans in simulated.devices:
        assert spans[-1].end - spans[0].start == sum(span.seconds for span in spans)


def test_the_bubble_of_dualpipe_v_is_no_longer_than_published():
    """(PP / 2 - 1) (F&B + B - 3 W) for PP = 2 p stages (deepseek-ai/DualPipe); here F&B is F + B, and gradients are sent before W."""
    for cost in (StageCost(1, 1, 1), StageCost(2, 3, 2), StageCost(10, 11, 9), StageCost(2, 2, 1)):
        for devices in (2, 4, 8):
            simulated = simulate_orders(schedule_named("dualpipe_v").tasks(devices, 3 * devices, 2), (cost,) * (2 * devices))
            published = (devices - 1) * (cost.forward + 2 * cost.backward - 3 * cost.backward_weight)
            assert simulated.makespan - 3 * devices * 2 * cost.work <= published


@pytest.mark.parametrize(
    ("name", "cost", "grows"),
    [
        ("v_half", StageCost(4, 5, 3), False),
        ("v_half", StageCost(10, 11, 9), False),
        ("v_half", StageCost(3, 1, 1), True),
        ("v_min", StageCost(1, 1, 1), False),
        ("v_min", StageCost(10, 11, 9), True),
    ],
)
def test_the_bubble_of_v_half_stays_while_that_of_v_min_grows_with_unequal_tasks(name, cost, grows):
    """The authors' condition for V-Half: W + 2 B >= 2 F and W + 2 F >= 2 B."""
    idle = [simulate_orders(schedule_named(name).tasks(4, m, 2), (cost,) * 8).makespan - 2 * m * cost.work for m in (8, 16)]
    assert (idle[1] > idle[0]) is grows


@pytest.mark.parametrize("latency", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_eager_warm_up_hides_transfers_that_take_up_to_half_of_a_stage(latency):
    """Zhuang et al. 2022, section 4: with F + B = 3 only fill and drain wait for transfers of 1.5; 1F1B waits for them in every round."""
    eager, simple = (
        simulate_orders(schedule_named(name).tasks(4, 12), equal_stages(4, sent=8), Transfer.at(1e30, latency)).makespan
        for name in ("eager_1f1b", "1f1b")
    )
    filled = 12 * 3 + 3 * (3 + 2 * latency)
    assert eager == pytest.approx(filled) if latency <= 1.5 else eager > filled
    assert simple >= eager + 8 * latency


@pytest.mark.parametrize(
    ("name", "chunks", "says", "ways"),
    [
        ("zb_v", 1, "has 2 chunks of layers a device; the pipeline has chunks:1", ["set chunks:2", "with one chunk, schedule:zero_bubble"]),
        (
            "v_min",
            3,
            "has 2 chunks of layers a device; the pipeline has chunks:3",
            ["set chunks:2", "with several chunks, schedule:interleaved"],
        ),
        (
            "1f1b",
            2,
            "has one chunk of layers a device; the pipeline has chunks:2",
            ["set chunks:1", "with several chunks, schedule:interleaved"],
        ),
    ],
)
def test_a_schedule_with_so_many_chunks_has_no_others(name, chunks, says, ways):
    with pytest.raises(PipelineError) as error:
        schedule_named(name).tasks(4, 8, chunks)
    assert error.value.message == f"Schedule `{name}` {says}."
    assert error.value.ways_out == (ways[0], f"use a schedule {ways[1]}")
