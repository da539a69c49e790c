"""Models of frameworks through their adapters: names, state that is carried, sharded as unsharded, nothing allocated to be planned."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import workbench as wb
from benchmarks.corpus.adapted import ADAPTED, adapter_of, lines_of_glue
from benchmarks.corpus.third_party import PROGRAMS as THIRD_PARTY
from tests.support.adapter_models import OPTIMIZER, PROGRAMS, S, cross_entropy, plain_loss, training_loss
from workbench.adapters import ADAPTERS, AdapterError
from workbench.core.installation import install_command
from workbench.core.tensor import Role
from workbench.errors import TraceError
from workbench.public_plan import Plan

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
    assert set(paths[KERNELS[name]].dims) <= {"features", "hidden", "d_ff"}
    assert any(path.startswith("opt_state/") and path.endswith(KERNELS[name].removeprefix("params/")) for path in paths)
    assert state_paths(program) == STATE.get(name, state_paths(program))
    assert program.results[program.step.loss].path.rpartition("/")[2] in ("loss", "result")
    carried = {program.arguments[i].path for _, i in program.carried}
    assert carried == {program.arguments[i].path for i in program.state}


STAYS = {"state/drop/rngs/key", "opt_state/learning_rate"}
"""What these models carry and do not change: a key that is folded with a count, the learning rate of Keras."""


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_step_changes_what_the_model_carries(name):
    before, after = steps_of(program_of(name), 3)[::3]
    assert {path for path in before if text_of(before[path]) == text_of(after[path])} <= STAYS


def text_of(array):
    return str(np.asarray(jax.random.key_data(array) if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key) else array))


@pytest.mark.worker
@pytest.mark.share(6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sharded_run_equals_the_unsharded_one_and_has_the_values_of_this_process(name):
    program = program_of(name)
    measurement = Plan(program, "data:2 model:2", layout_of(program)).run(steps=3, check=True, profile=False)
    assert measurement.shards_agree
    assert measurement.max_error == pytest.approx(0, abs=2e-5)
    losses = [float(each[program.results[program.step.loss].path]) for each in results_of(program, 3)]
    assert measurement.losses == pytest.approx(losses, rel=1e-4)


def test_a_linen_model_learns_as_in_its_own_loop():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, *, train):
            return nn.Dense(4)(nn.BatchNorm(use_running_average=not train)(nn.Dense(32)(x)))

    net = Net()
    batch = {"x": jax.random.normal(jax.random.key(1), (16, 8)), "y": jnp.arange(16) % 4}
    variables = net.init(jax.random.key(0), batch["x"], train=False)
    program = wb.from_flax(net, training_loss, batch, variables=variables, optimizer=OPTIMIZER)
    params, stats = variables["params"], variables["batch_stats"]
    moments = OPTIMIZER.init(params)

    def loss_of(params, stats):
        logits, changed = net.apply({"params": params, "batch_stats": stats}, batch["x"], train=True, mutable=["batch_stats"])
        return cross_entropy(logits, batch["y"]), changed["batch_stats"]

    for _ in range(3):
        (_, stats), grads = jax.value_and_grad(loss_of, has_aux=True)(params, stats)
        updates, moments = OPTIMIZER.update(grads, moments, params)
        params = optax.apply_updates(params, updates)
    found = steps_of(program, 3)[-1]
    expected = {f"params/{layer}/{name}": leaf for layer, leaves in params.items() for name, leaf in leaves.items()}
    expected |= {f"state/batch_stats/BatchNorm_0/{name}": leaf for name, leaf in stats["BatchNorm_0"].items()}
    verify_close(found, expected)


def test_an_nnx_model_of_arrays_learns_as_in_its_own_loop_by_a_loss_and_by_its_own_step():
    nnx = pytest.importorskip("flax.nnx")
    batch = {"x": jax.random.normal(jax.random.key(1), (16, 8)), "y": jnp.arange(16) % 4}

    def make():
        model = nnx.Sequential(nnx.Linear(8, 32, rngs=nnx.Rngs(0)), nnx.BatchNorm(32, rngs=nnx.Rngs(1)), nnx.Dropout(0.5, rngs=nnx.Rngs(2)))
        return model, nnx.Optimizer(model, OPTIMIZER, wrt=nnx.Param)

    def train_step(model, optimizer, batch):
        loss, grads = nnx.value_and_grad(plain_loss)(model, batch)
        optimizer.update(model, grads)
        return loss

    found = [steps_of(wb.from_flax(make()[0], plain_loss, batch, optimizer=OPTIMIZER), 3)[-1]]
    found += [steps_of(wb.from_flax(make(), train_step, batch), 3)[-1]]
    model, optimizer = make()
    for _ in range(3):
        train_step(model, optimizer, batch)
    expected = {f"params/layers/0/{name}": getattr(model.layers[0], name)[...] for name in ("kernel", "bias")}
    expected |= {f"state/layers/1/{name}": getattr(model.layers[1], name)[...] for name in ("mean", "var")}
    for each in found:
        verify_close(each, expected)


def test_a_keras_model_of_arrays_learns_as_by_train_on_batch():
    keras = pytest.importorskip("keras")
    x, y = np.random.default_rng(0).normal(size=(16, 8)).astype("float32"), np.arange(16) % 4

    def make():
        keras.utils.set_random_seed(0)
        layers = keras.layers
        model = keras.Sequential([keras.Input((8,)), layers.Dense(32, name="up"), layers.BatchNormalization(name="norm"), layers.Dense(4)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss=loss)
        return model

    found = steps_of(wb.from_keras(make(), None, (x, y)), 3)[-1]
    model = make()
    for _ in range(3):
        model.train_on_batch(x, y)
    norm = model.get_layer("norm")
    expected = {"params/up/kernel": model.get_layer("up").kernel.value, "state/norm/moving_mean": norm.moving_mean.value}
    verify_close(found, expected)


def verify_close(found, expected):
    for path, leaf in expected.items():
        np.testing.assert_allclose(np.asarray(found[path]), np.asarray(leaf), atol=1e-5, err_msg=path)


def results_of(program, count):
    """The results by path of each of some steps in this process."""
    call, leaves, found = jax.jit(program.step.call), jax.jit(program.step.initialize)(jax.random.key(0), program.step.given), []
    for number in range(count):
        results = call(*leaves, *program.step.feed(number))
        leaves = [results[result] for result, _ in program.carried]
        found.append({each.path: leaf for each, leaf in zip(program.results, results, strict=True)})
    return found


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda each: each.framework)
def test_every_adapter_says_what_to_install_and_what_it_takes(adapter, monkeypatch):
    assert getattr(wb, adapter.trace.__name__) is adapter.trace
    given = {"loss": plain_loss, "batch": {"x": S((8,), "float32")}}
    if importlib.util.find_spec(adapter.module):
        with pytest.raises(AdapterError, match=r"^`model` is 3; it should be a "):
            adapter.trace(3, **given, optimizer=OPTIMIZER)
    monkeypatch.setitem(sys.modules, adapter.module, None)
    with pytest.raises(AdapterError) as caught:
        adapter.trace(3, **given)
    assert caught.value.message == f"`wb.{adapter.trace.__name__}` needs {adapter.distribution}, which is not installed here."
    assert caught.value.ways_out == (install_command(adapter.extra) if adapter.extra else f"pip install {adapter.distribution}",)


def test_importing_the_workbench_imports_no_framework():
    code = "import workbench, sys; print({'flax', 'equinox', 'keras', 'haiku', 'torch'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_a_keras_model_that_is_not_built_or_not_compiled_is_refused():
    keras = pytest.importorskip("keras")
    model = keras.Sequential([keras.layers.Dense(4)], name="net")
    with pytest.raises(AdapterError) as caught:
        wb.from_keras(model, plain_loss, S((8, 4), "float32"), optimizer=OPTIMIZER)
    assert caught.value.message == "The Keras model `net` has no variables yet: it was not built."
    model.build((8, 4))
    with pytest.raises(AdapterError) as caught:
        wb.from_keras(model, None, (S((8, 4), "float32"), S((8,), "int32")))
    assert caught.value.message == "The Keras model `net` has no loss: it was not compiled."


def test_the_heads_of_attention_have_their_names_and_the_users_names_win():
    nnx = pytest.importorskip("flax.nnx")

    def make(rngs):
        return nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)

    def loss(model, batch):
        return model(batch).mean()

    batch = S((8, 16, 32), "float32")

    def named_by(dims):
        return {each.path: each.dims for each in wb.from_flax(make, loss, batch, optimizer=OPTIMIZER, dims=dims).arguments}

    named = named_by({"batch": "batch seq d_model"})
    assert named["params/query/kernel"] == named["params/key/kernel"] == ("d_model", "heads", "d_head")
    assert named["params/out/kernel"][:2] == ("heads", "d_head")
    assert named_by({"query/kernel": "_ h _"})["params/query/kernel"][1] == "h"


def test_scopes_are_called_after_the_modules_and_classes_are_as_before():
    nnx, eqx = pytest.importorskip("flax.nnx"), pytest.importorskip("equinox")
    before = {kind: vars(kind)["__call__"] for kind in (nnx.Linear, nnx.BatchNorm, eqx.nn.Linear)}
    scopes = {op.path.rpartition("/")[0] for name in ("nnx", "equinox_step") for op in PROGRAMS[name][1]().operations}
    assert {"up", "norm", "down", "grad/down"} <= scopes
    assert any("layers/1" in each for each in scopes)
    assert {kind: vars(kind)["__call__"] for kind in before} == before


def test_what_is_sown_is_not_carried_and_a_step_without_an_optimiser_is_a_function():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            self.sow("losses", "size", (x**2).mean())
            return nn.Dense(4)(x)

    def loss(model, batch):
        output, sown = model(batch, mutable=["losses"])
        return output.mean() + sum(jax.tree.leaves(sown))

    program = wb.from_flax(Net(), loss, S((8, 4), "float32"), optimizer=OPTIMIZER)
    assert not [each for each in program.arguments if each.role is Role.MODEL_STATE]
    assert program.step.training is not None

    def apply(model, batch):
        return model(batch)

    forward = wb.from_flax(Net(), apply, S((8, 4), "float32"), name="forward")
    assert [each.path for each in forward.arguments] == ["params/Dense_0/bias", "params/Dense_0/kernel", "batch"]


def test_a_loss_that_does_not_call_its_model_is_refused():
    nn = pytest.importorskip("flax.linen")

    def loss(_model, batch):
        return batch.mean()

    with pytest.raises(TraceError) as caught:
        wb.from_flax(nn.Dense(4), loss, S((8, 4), "float32"), optimizer=OPTIMIZER)
    assert caught.value.message == "`loss` does not call the model it is given."


def test_a_state_that_changes_its_shape_is_refused_in_the_users_names():
    params, state, batch = {"w": S((4,), "float32")}, {"count": S((), "int32")}, S((8, 4), "float32")

    def loss(params, state, batch):
        return (batch * params["w"]).sum(), {"count": state["count"] + 0.5}

    with pytest.raises(TraceError) as caught:
        wb.trace_training(loss, params, batch, state=state, optimizer=OPTIMIZER)
    assert (
        caught.value.message
        == "The state that `loss` returns differs from the state it takes: `state/count` is int32[] and becomes float32[]."
    )
    with pytest.raises(TraceError) as caught:
        wb.trace_training(lambda *given: loss(*given)[0], params, batch, state=state, optimizer=OPTIMIZER, name="loss")
    assert caught.value.message == "`loss` takes state and returns float32[]; it must return its value and the new state."


def test_each_third_party_model_takes_two_lines_of_glue_at_most():
    for program in THIRD_PARTY:
        build = ADAPTED.get(program.name, program.build)
        assert 1 <= lines_of_glue(build) <= 2, program.name
        assert adapter_of(build), program.name


def test_the_table_of_the_documentation_has_a_row_for_each_third_party_model():
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+) \| .* \| `wb\.(\w+)` \|", text, re.MULTILINE))
    assert rows == {each.name: adapter_of(ADAPTED.get(each.name, each.build)) for each in THIRD_PARTY}
