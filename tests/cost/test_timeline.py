"""The simulated step: closed forms, and the laws that hold for any program."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.machines import flat
from workbench.analysis.analyze import analyze
from workbench.cost.simulate_turn import Send, simulate
from workbench.models import build
from workbench.public_plan import Plan
from workbench.reports.kernel import COMPUTE
from workbench.tracing import trace

KERNELS = (2.0, 3.0, 5.0)
SECONDS = st.floats(0.0, 10.0)


def test_without_overlap_a_step_is_the_plain_sum():
    sends = [Send(1, 2, 4.0, ("data",), overlaps=False), Send(0, 3, 7.0, ("model",), overlaps=False)]
    turn = simulate(KERNELS, sends)
    assert turn.seconds == sum(KERNELS) + 4.0 + 7.0
    assert turn.waits == (4.0, 7.0)


def test_what_is_needed_late_is_hidden():
    turn = simulate(KERNELS, [Send(1, 3, 8.0, ("data",), overlaps=True)])
    assert (turn.seconds, turn.exposed) == (sum(KERNELS), 0.0)


def test_what_is_needed_at_once_is_waited_for():
    assert simulate(KERNELS, [Send(1, 1, 4.0, ("data",), overlaps=True)]).seconds == sum(KERNELS) + 4.0


def test_only_what_computation_does_not_cover_is_exposed():
    assert simulate(KERNELS, [Send(0, 2, 9.0, ("data",), overlaps=True)]).waits == (9.0 - 2.0 - 3.0,)


def test_collectives_on_the_same_links_follow_each_other_and_on_others_they_do_not():
    one = [Send(0, 3, 8.0, ("data",), overlaps=True), Send(0, 3, 8.0, ("data",), overlaps=True)]
    two = [Send(0, 3, 8.0, ("data",), overlaps=True), Send(0, 3, 8.0, ("model",), overlaps=True)]
    assert simulate(KERNELS, one).seconds == 16.0
    assert simulate(KERNELS, two).seconds == sum(KERNELS)


@st.composite
def steps(draw):
    kernels = draw(st.lists(SECONDS, min_size=1, max_size=6))
    place = st.integers(0, len(kernels))
    links = st.sampled_from([("data",), ("model",), ("data", "model")])
    return kernels, draw(st.lists(st.builds(Send, place, place, SECONDS, links, st.booleans()), max_size=6))


@given(steps())
def test_a_step_is_at_least_its_work_and_at_most_the_sum(step):
    kernels, sends = step
    turn = simulate(kernels, sends)
    busiest = max((sum(send.seconds for send in sends if link in send.links) for link in ("data", "model")), default=0.0)
    assert turn.seconds >= sum(kernels) - 1e-9
    assert turn.seconds >= busiest - 1e-9
    assert turn.seconds <= sum(kernels) + sum(send.seconds for send in sends) + 1e-9
    assert turn.seconds == pytest.approx(sum(kernels) + turn.exposed)


@pytest.mark.parametrize("arguments", [{}, {"scan": False, "layers": 2}, {"remat": True}])
@pytest.mark.parametrize("hardware", ["TPU v5e 2x4", "8 H100"])
def test_the_parts_of_a_step_are_its_length_and_the_events_are_in_it(arguments, hardware):
    plan = Plan(build("gpt", **arguments), "data:4 model:2", "batch:data; d_ff:model; heads:model", hardware=hardware)
    report = plan.report()
    time, timeline = report.step_time, report.timeline
    assert timeline.seconds == pytest.approx(time.total)
    assert max(event.end for event in timeline.events) <= time.total * (1 + 1e-9)
    assert sum(event.seconds * event.count for event in timeline.events if event.stream != COMPUTE) == pytest.approx(time.communication)
    assert sum(event.exposed * event.count for event in timeline.events) == pytest.approx(time.exposed)
    for stream in timeline.streams:
        spans = [(event.start, event.end) for event in timeline.events if event.stream == stream]
        assert all(end <= start + 1e-12 for (_, end), (start, _) in itertools.pairwise(spans))


def test_nothing_overlaps_on_a_device_without_a_compiler_that_does():
    plan = Plan(build("gpt"), "data:4 model:2", "batch:data; d_ff:model; heads:model")
    assert analyze(plan, flat("plain")).step_time.hidden == 0.0


def test_a_kernel_with_a_product_is_shown_as_that():
    program = trace(lambda x: jnp.tanh(x @ x) + 1, jax.ShapeDtypeStruct((256, 256), "float32"))
    events = analyze(Plan(program, "x:1"), flat("test")).timeline.events
    assert [each.kind for each in events] == ["dot_general"]


@pytest.mark.parametrize("hardware", ["8 H100", "TPU v5p 2x2x2"])
@pytest.mark.parametrize("passes_on_first", [True, False])
def test_what_a_loop_passes_on_is_awaited_at_the_end_of_an_iteration(hardware, passes_on_first):
    """Wherever the program says it: nothing in the iteration reads what arrives."""

    def ring(block, weights):
        def step(carry, _):
            block, found = carry
            passed = jnp.roll(block, 1, axis=0) if passes_on_first else None
            found = found + jnp.einsum("rab,bc->rac", block, weights)
            return (passed if passes_on_first else jnp.roll(block, 1, axis=0), found), None

        return jax.lax.scan(step, (block, jnp.zeros((8, 4096, 8192), block.dtype)), None, length=8)[0][1]

    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((8, 4096, 4096), (4096, 8192))]
    time = Plan(trace(ring, *shapes, dims={"block": "r a b", "weights": "b c"}), "ring:8", "r:ring", hardware=hardware).report().step_time
    assert time.exposed < 0.14 * time.communication  # on a GPU, what kernels lose beside it
    assert time.hidden > 0.0


def test_what_an_iteration_reads_is_awaited_there():
    def step(block, _):
        return jnp.tanh(jnp.roll(block, 1, axis=0)) @ block[0], None

    program = trace(lambda block: jax.lax.scan(step, block, None, length=8)[0], jax.ShapeDtypeStruct((8, 512, 512), jnp.bfloat16))
    time = Plan(program, "ring:8", f"{program.arguments[0].dims[0]}:ring", hardware="8 H100").report().step_time
    assert time.exposed > 0.0
