"""Models of frameworks through their adapters: names, state that is carried, sharded as unsharded, nothing allocated to be planned."""

import os

import jax
import numpy as np
import pytest

from tests.support.adapter_models import (
    PROGRAMS,
)
from workbench.core.tensor import Role
from workbench.plan.plan import Plan

pytestmark = [pytest.mark.compile, pytest.mark.filterwarnings("default")]  # the frameworks warn of each other
os.environ.setdefault("KERAS_BACKEND", "jax")

STATE = {
    "linen": {"batch_stats/norm/mean", "batch_stats/norm/var", "key"},
    "nnx": {"drop/rngs/count", "drop/rngs/key", "norm/mean", "norm/var"},
    "equinox": {"key"},
    "keras": {"norm/moving_mean", "norm/moving_variance", "seed_generator/seed_generator_state"},
}
KERNELS = {
    **dict.fromkeys(("linen", "nnx", "nnx_step", "keras", "keras_compiled"), "params/up/kernel"),
    "train_state": "params/layers_0/kernel",
    "equinox": "params/net/layers/0/weight",
    "equinox_state": "params/up/weight",
    "equinox_step": "params/layers/0/weight",
    "haiku": "params/linear/w",
}
LAYOUTS = {"features": "batch:data; hidden:model", "d32": "batch:data; d32:model"}


def program_of(name):
    module, build = PROGRAMS[name]
    pytest.importorskip(module)
    return build()


def layout_of(program):
    return "batch:data; hidden:model" if "hidden" in program.dims else "batch:data; d32:model"


def state_paths(program):
    return {each.path.removeprefix("state/") for each in program.arguments if each.role is Role.MODEL_STATE}


def steps_of(program, count):
    """The state by path after each of some steps in this process, from the first one on."""
    step = program.step
    leaves = jax.jit(step.initialize)(jax.random.key(0), step.given)
    call = jax.jit(step.call)
    found = []
    for number in range(count + 1):
        found.append({program.arguments[i].path: leaf for i, leaf in zip(program.state, leaves, strict=True)})
        results = call(*leaves, *step.feed(number))
        leaves = [results[result] for result, _ in program.carried]
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_parameters_are_called_as_their_users_call_them_and_state_is_carried(name):
    program = program_of(name)
    paths = {each.path: each for each in program.arguments}
    assert paths[KERNELS[name]].role is Role.PARAMETER
    assert {each for each in paths[KERNELS[name]].dims} <= {"features", "hidden", "d32"}
    assert any(path.startswith("opt_state/") and path.endswith(KERNELS[name].removeprefix("params/")) for path in paths)
    assert state_paths(program) == STATE.get(name, state_paths(program))
    assert program.results[program.step.loss].path.rpartition("/")[2] in ("loss", "result")
    carried = {program.arguments[i].path for _, i in program.carried}
    assert carried == {program.arguments[i].path for i in program.state}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_changes_what_the_model_carries(name):
    program = program_of(name)
    before, after, later = steps_of(program, 2)
    changing = {path for path in before if not path.endswith(("key", "learning_rate")) or path == "state/key"}
    still = {
        path
        for path in changing
        if str(np.asarray(jax.random.key_data(before[path]) if _is_key(before[path]) else before[path])) == _text(after[path])
    }
    assert not {path for path in still if _text(later[path]) == _text(before[path])} - {path for path in changing if path.endswith("bias")}


def _is_key(array):
    return jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)


def _text(array):
    return str(np.asarray(jax.random.key_data(array) if _is_key(array) else array))


@pytest.mark.worker
@pytest.mark.third
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sharded_run_equals_the_unsharded_one_and_has_the_values_of_this_process(name):
    program = program_of(name)
    measurement = Plan(program, "data:2 model:2", layout_of(program)).run(steps=3, check=True, profile=False)
    assert measurement.shards_agree
    assert measurement.max_error == pytest.approx(0, abs=2e-5)
    call, leaves = jax.jit(program.step.call), jax.jit(program.step.initialize)(jax.random.key(0), program.step.given)
    losses = []
    for number in range(3):
        results = call(*leaves, *program.step.feed(number))
        leaves = [results[result] for result, _ in program.carried]
        losses.append(float(results[program.step.loss]))
    assert measurement.losses == pytest.approx(losses, rel=1e-4)
