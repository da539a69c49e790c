"""State in the host's memory: the same numbers, other memory, time for the way; which of it shares a loop."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import workbench as wb
from workbench.core.offload import Offload
from workbench.core.precision import Precision
from workbench.core.remat import Remat
from workbench.core.tensor import Role
from workbench.documents import dump_plan, parse_plan
from workbench.errors import OffloadError, PipelineError
from workbench.hardware.catalogue import parse_hardware
from workbench.models import build
from workbench.plan.edits import SetOffload
from workbench.public_plan import Plan
from workbench.reports.diagnostic import DOES_NOT_FIT, UNKNOWN_TRIP_COUNT

HOST = Offload(optimizer_state=True)
WIDTH = 8
OPTIMIZERS = {
    "adam": optax.adam(1e-2),
    "adamw, clipped": optax.chain(optax.clip_by_global_norm(0.1), optax.adamw(1e-2)),
    "momentum": optax.sgd(1e-2, momentum=0.9),
    "lamb": optax.lamb(1e-2),
    "adafactor": optax.adafactor(1e-2, min_dim_size_to_factor=4),
    "an average of the weights": optax.chain(optax.adam(1e-2), optax.ema(0.9)),
    "accumulated": optax.MultiSteps(optax.adam(1e-2), 2).gradient_transformation(),
    "one norm of all momenta": optax.chain(optax.trace(0.9), optax.clip_by_global_norm(0.1)),
}


def loss(params, batch):
    hidden = jnp.tanh(batch @ params["w"] + params["b"])
    return ((hidden @ params["v"]) ** 2).mean()


def step(optimizer=OPTIMIZERS["adam"], width=WIDTH):
    params = {"w": jnp.ones((width, 2 * width)) / 3, "b": jnp.zeros(2 * width), "v": jnp.ones((2 * width, width)) / 2}
    return wb.trace_training(loss, params, jnp.ones((16, width)), optimizer=optimizer, dims={"batch": "batch in"})


def values_after(program, steps=3):
    run = jax.jit(program.step.call)
    state = list(program.step.initialize(jax.random.key(0), program.step.given))
    for number in range(steps):
        results = run(*state, *program.step.feed(number))
        state = list(results[: len(state)])
    return [np.asarray(each) for each in results]


def loops(program):
    return [each for each in program.operations if each.kind == "while" and each.path.endswith("from_host")]


@pytest.mark.compile
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_computes_the_same_wherever_the_state_is(name):
    program = step(OPTIMIZERS[name])
    for one, other in zip(values_after(program), values_after(program.variant(offload=HOST)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_so_does_one_with_the_state_in_another_type():
    program = step().variant(precision=Precision(params="bfloat16", moments="float32"))
    for one, other in zip(values_after(program), values_after(program.variant(offload=HOST)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("name", "count"), [("adam", 3), ("adamw, clipped", 3), ("lamb", 3), ("one norm of all momenta", 1)])
def test_each_parameter_has_a_loop_of_its_own_unless_their_states_meet(name, count):
    assert len(loops(step(OPTIMIZERS[name]).variant(offload=HOST))) == count
    assert loops(step(OPTIMIZERS[name])) == []


def test_the_state_is_the_hosts_but_for_scalars_and_comes_and_goes_once_a_step():
    program = step(width=256)
    there, here = (Plan(each, "data:2 model:2", "batch:data").report() for each in (program.variant(offload=HOST), program))
    moments = 2 * (256 * 512 + 512 + 512 * 256) * 4
    count = here.memory.by_role[Role.OPTIMIZER_STATE] - moments
    assert (here.memory.host, here.host_traffic) == (0, 0)
    assert (there.memory.host, there.host_traffic) == (moments, 2 * moments)
    assert there.memory.by_role[Role.OPTIMIZER_STATE] == count == 4
    in_flight = 2 * 256 * 512 * 4 + 64  # the moments of one parameter and a few scalars, no more
    assert here.memory.peak - moments <= there.memory.peak <= here.memory.peak - moments + in_flight
    assert [each.kind for each in there.notes if each.kind == UNKNOWN_TRIP_COUNT] == []


def test_what_is_split_is_split_on_the_host():
    program = build("gpt").variant(offload=HOST)
    plans = [Plan(program, "data:4", f"batch:data{split}") for split in ("", "; d_ff:data; vocab:data")]
    whole, split = (each.report().memory.host for each in plans)
    assert split < whole / 2


def test_the_step_waits_for_all_of_it_over_the_host_link():
    reports = [Plan(each, "data:1", hardware="1 H100").report() for each in (step(width=512).variant(offload=HOST), step(width=512))]
    there, here = (each.step_time for each in reports)
    assert there.exposed - here.exposed == pytest.approx(reports[0].host_traffic / 64e9, rel=1e-6)
    assert "offloaded" in str(reports[0])


def test_the_choice_is_kept_in_documents_and_taken_back():
    plan = Plan(build("gpt", layers=1), "data:4", "batch:data")
    offloaded = plan.apply(SetOffload(HOST))
    assert '"offload": "optimizer_state"' in dump_plan(offloaded)
    assert "offload" not in dump_plan(plan)
    assert parse_plan(dump_plan(offloaded)) == offloaded != plan
    assert offloaded.apply(SetOffload(Offload())) == plan
    assert [str(each.kind) for each in offloaded.diff(plan).changes] == ["offload"]


def test_it_is_suggested_where_all_but_the_state_fits_and_the_host_has_room():
    program, hardware = step(width=1024), parse_hardware("1 P100")

    def suggested(memory, host_memory=64e9):
        chip = replace(hardware.chip, memory=memory, host_memory=host_memory)
        notes = Plan(program, "data:1", hardware=replace(hardware, chip=chip)).report().notes
        return [edit for note in notes if note.kind == DOES_NOT_FIT for edit in note.edits if isinstance(edit, SetOffload)]

    peak = Plan(program, "data:1", hardware=hardware).report().memory.peak
    assert suggested(peak) == suggested(peak // 4) == suggested(peak - 1, host_memory=1) == []
    assert suggested(peak - 1) == [SetOffload(HOST)]


def test_what_the_host_has_no_room_for_is_said():
    hardware = parse_hardware("1 P100")
    small = replace(hardware, chip=replace(hardware.chip, host_memory=1 << 20))
    plan = Plan(step(width=512).variant(offload=HOST), "data:1", hardware=small)
    (note,) = (each for each in plan.report().notes if each.kind == "host memory too small")
    assert note.message == ("One device would keep 8.01 MiB in host memory; its share of the P100 host is 1.00 MiB: 8.01 times as much.")
    assert note.edits == (SetOffload(Offload()),)
    assert all(each.kind != note.kind for each in plan.updated(hardware=hardware).report().notes)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: step(optax.sgd(1.0)).variant(offload=HOST),
            OffloadError,
            "The optimizer of `loss` keeps only scalars as state, so there is nothing to keep in host memory.\n"
            "  Try: leave `offload` out · choose an optimizer with moments, `optax.adamw(3e-4)`.",
        ),
        (
            lambda: wb.trace(lambda x: x + 1, jnp.ones(2), name="add").variant(offload=HOST),
            OffloadError,
            "`add` has no optimizer, so no state can be in host memory.\n"
            "  Try: trace a training step, `wb.trace_training(loss, params, batch, optimizer=...)` · leave `offload` out.",
        ),
        (
            lambda: Offload.parse("params"),
            OffloadError,
            "`params` cannot be kept in host memory; choose `optimizer_state` or `nothing`.\n"
            "  Try: write `optimizer_state` · offload activations by remat, `offload_dots_no_batch`.",
        ),
        (
            lambda: Plan(build("gpt").variant(offload=HOST), "stages:2", "", pipeline="stages:2 micro_batches:4"),
            PipelineError,
            "Pipeline stages keep the optimizer's state on their own devices; host memory requires a step without "
            "a pipeline.\n"
            "  Try: keep it on the devices, offload `nothing` · shard it over the data-parallel devices, recipe `zero_1` · "
            "remove the pipeline.",
        ),
        (
            lambda: Plan(build("gpt").variant(remat=Remat("offload_dots_no_batch")), "stage:2", "", pipeline="stages:2 micro_batches:4"),
            PipelineError,
            "Pipeline stages keep activations on their own devices until the backward pass, but remat "
            "`offload_dots_no_batch` keeps them in host memory, which requires a step without a pipeline.\n"
            "  Try: keep them on the devices, remat `dots_no_batch` · recompute the forward pass in each stage, "
            "`remat:always` of the pipeline · remove the pipeline.",
        ),
    ],
)
def test_what_cannot_be_offloaded_is_refused_with_ways_out(make, error, message):
    with pytest.raises(error) as found:
        make()
    assert str(found.value) == message
