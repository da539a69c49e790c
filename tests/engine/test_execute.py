"""A run in this process: what it measures, and what it says when it cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.run_programs import LAYOUT, MESH, batch_of, mlp, plan, weights
from workbench.core.mesh import Mesh
from workbench.documents import measurement_record
from workbench.engine import execute
from workbench.engine.spmd import against_unsharded
from workbench.engine.spmd.compiled_step import compile_step
from workbench.engine.spmd.device_mesh import attach, real_shard_shape
from workbench.errors import EngineError
from workbench.public_plan import Plan
from workbench.reports.run_events import Progress, StepDone
from workbench.search.per_operation.choose_layout import choose_layout
from workbench.tracing import trace

pytestmark = pytest.mark.compile


def test_a_run_measures_its_steps_and_finds_the_plan_true():
    events = []
    measured = execute(plan(), steps=12, on_event=events.append, check=True)
    assert (measured.devices, measured.processes, len(measured.step_seconds)) == (8, 1, 12)
    assert measured.losses[-1] < measured.losses[0]
    assert measured.shards_agree
    assert len(measured.shards) == len(mlp().arguments) + len(mlp().results)
    assert measured.max_error < 1e-5
    assert measured.compiled_peak > 0
    assert measured.predicted_seconds > 0
    assert dict(measured.compiled) == plan().report().by_axis_and_kind
    steps = [each for each in events if isinstance(each, StepDone)]
    assert [(each.step, each.of) for each in steps] == [(i, 12) for i in range(1, 13)]
    assert tuple(each.loss for each in steps) == measured.losses
    assert {type(each) for each in events} == {Progress, StepDone}
    fractions = [each.fraction for each in events if isinstance(each, Progress)]
    assert fractions == sorted(fractions)


def test_warm_up_neither_counts_nor_trains():
    assert execute(plan(), steps=3, warmup=1).losses == execute(plan(), steps=3, warmup=4).losses


def test_the_arrays_a_user_gave_survive_the_donation_of_their_shards():
    program = mlp()
    first = execute(Plan(program, MESH, LAYOUT), steps=3)
    assert execute(Plan(program, MESH, LAYOUT), steps=3).losses == first.losses
    for given, expected in zip(program.step.given, weights().values(), strict=True):
        np.testing.assert_array_equal(given, expected)


def test_every_layout_trains_alike():
    expected = execute(plan(""), steps=4).losses
    for layout in ("batch:data+model", "d_ff:data+model", "batch:data; d_model:model", "batch:model; d_ff:data; @tanh=[?, data]"):
        np.testing.assert_allclose(execute(plan(layout), steps=4).losses, expected, rtol=1e-5)


def test_a_step_whose_operations_are_split_each_by_itself_trains_alike():
    found = choose_layout(plan("batch:data").updated(hardware="8 A100"), "model")
    assert "model" in str(found)
    np.testing.assert_allclose(execute(plan("").updated(layout=found), steps=4).losses, execute(plan(""), steps=4).losses, rtol=1e-5)


def test_state_is_born_in_shards():
    step = compile_step(plan("batch:data; d_ff:data+model"))
    assert [real_shard_shape(each) for each in step.arguments(0)[:2]] == [(16, 4), (4, 16)]


def test_a_data_function_is_asked_for_the_steps_of_the_run_only():
    asked = []

    def data(step):
        asked.append(step)
        return batch_of(step)

    execute(plan(data=data), steps=3)
    assert set(asked) == {0, 1, 2}


def test_two_states_that_begin_as_one_array_are_donated_apart():
    from optax import GradientTransformation

    slow = GradientTransformation(
        init=lambda params: params,  # the average begins as the parameters themselves
        update=lambda updates, state, params: (
            jax.tree.map(lambda g: -0.1 * g, updates),
            jax.tree.map(lambda a, p: 0.9 * a + 0.1 * p, state, params),
        ),
    )
    measured = execute(plan(optimizer=slow), steps=4, check=True)
    assert measured.losses[-1] < measured.losses[0]
    assert measured.max_error < 1e-5


def test_a_function_that_does_not_train_runs_on_its_examples():
    program = trace(lambda x, key: {"y": x @ x.T, "noise": jax.random.normal(key, (8, 8))}, jnp.ones((16, 8)), jax.random.key(3))
    measured = execute(Plan(program, MESH, f"{program.arguments[0].dims[0]}:data"), steps=2, check=True)
    assert measured.losses == ()
    assert measured.shards_agree
    assert measured.max_error < 1e-6


@pytest.mark.parametrize(
    ("fn", "count"),
    [
        (lambda x: jnp.log(x - 2.0), 128),
        (lambda x: jnp.sqrt(x).at[0, :4].set(jnp.nan), 4),
        (lambda x: (x / jnp.where(x > 2, x, 0.0), x.astype("complex64").at[1, 1].set(jnp.nan)), 1),
    ],
)
def test_what_is_no_number_on_both_sides_is_equal_and_counted(fn, count):
    program = trace(fn, jnp.ones((16, 8)))
    measured = execute(Plan(program, MESH, f"{program.arguments[0].dims[0]}:data"), steps=2, check=True)
    assert (measured.max_error, measured.not_numbers, measured.is_wrong) == (0.0, count, False)
    assert f"; {count} element{'s are' if count > 1 else ' is'} not a number in both" in str(measured)
    assert measurement_record(measured)["not_numbers"] == count


def test_the_check_finds_a_sharded_step_that_computes_something_else(monkeypatch):
    true_state = against_unsharded.host_value
    monkeypatch.setattr(against_unsharded, "host_value", lambda array: true_state(array) * (1.5 if array.dtype == jnp.float32 else 1))
    assert execute(plan(), steps=1, check=True).max_error > 0.1


def test_the_check_is_left_out_aloud_where_one_device_cannot_hold_the_step(monkeypatch):
    monkeypatch.setattr(against_unsharded, "free_bytes", lambda _: 1000)
    events = []
    assert execute(plan(), steps=1, on_event=events.append, check=True).max_error is None
    (said,) = [each.stage for each in events if isinstance(each, Progress) and each.stage.startswith("not checked")]
    assert said.endswith("on one device, which has 1000 B free")


def test_a_mesh_larger_than_the_devices_is_explained():
    with pytest.raises(EngineError) as caught:
        execute(plan(mesh="data:16 model:2"))
    assert str(caught.value) == (
        "The mesh data:16 model:2 cannot be run here: data 16 x model 2 = 32 devices, and 8 cpu devices are attached. "
        "Planning needs no devices.\n"
        "  Try: make `data` 4 · simulate them with XLA_FLAGS=--xla_force_host_platform_device_count=32 · "
        "run on a machine or a cluster with 32 devices."
    )


def test_a_smaller_mesh_uses_the_first_devices():
    assert [device.id for device in attach(Mesh("x:3")).devices.flat] == [0, 1, 2]


def test_a_batch_of_another_shape_is_named():
    with pytest.raises(EngineError) as caught:
        execute(plan(data=lambda step: batch_of(step, batch=16 if step < 2 else 8)), steps=4)
    assert caught.value.message == "The batch of step 2 has float32[8, 16] for `batch/x: float32[batch=16, d_model=16]`."


def test_a_user_function_that_raises_is_named_with_its_line():
    def data(step):
        if step == 1:
            raise FileNotFoundError("no shard 1")
        return batch_of(step)

    with pytest.raises(
        EngineError, match=r"^The run of mlp stopped while running in `data` \(test_execute.py:\d+\): FileNotFoundError: no shard 1"
    ):
        execute(plan(data=data), steps=3)


def test_a_run_of_no_steps_is_refused():
    with pytest.raises(EngineError, match="`steps` is 0; it should be a whole number from 1"):
        execute(plan(), steps=0)
