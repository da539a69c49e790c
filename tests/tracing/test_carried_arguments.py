"""What a step carries from step to step is found by structure and path, never by shape alone."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax.training.train_state import TrainState
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.support.adapter_models import S
from workbench.core.tensor import Role
from workbench.engine.spmd.compiled_step import compile_step
from workbench.errors import TraceError
from workbench.public_plan import Plan
from workbench.tracing.carried_arguments import ResultReads, find_carried
from workbench.tracing.trace_step import _step_arguments

pytestmark = pytest.mark.filterwarnings("default")
PARAMS = {"w": S((8, 4), "float32")}
KEY = jax.eval_shape(lambda: jax.random.key(0))
X = S((16, 8), "float32")
NUMBER, COUNT = S((), "float32"), S((), "int32")


class Averages(NamedTuple):
    mean: Any
    scale: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Counted:
    w: Any
    seen: Any


class Dense(eqx.Module):
    w: Any
    name: str = eqx.field(static=True, default="dense")


def loss_of(w, x, scale=1.0):
    return (((x @ w) * scale) ** 2).mean()


def carried_by(step, *args, carried=None):
    """The result leaf, counted from 0, that each carried argument leaf becomes, by the path of the argument."""
    program = wb.trace_step(step, *args, name="train", carried=carried)
    return {program.arguments[argument].path: result for result, argument in program.carried}


def update(w, x, rate=0.1):
    loss, grads = jax.value_and_grad(loss_of)(w, x)
    return w - rate * grads, loss


def test_a_learning_rate_is_not_carried_though_the_loss_has_its_shape():
    def step(params, rate):
        loss, grads = jax.value_and_grad(lambda w: jnp.sum(w**2))(params)
        return params - rate * grads, loss

    program = wb.trace_step(step, jnp.ones((64, 8)), jnp.float32(1e-3), dims={"params": "d k"})
    assert program.carried == ((0, 0),)
    assert [each.role for each in program.arguments] == [Role.PARAMETER, Role.INPUT]
    report = str(Plan(program, "data:8", "d:data").report())
    assert "Carried to the next step: params.\nNew per step: rate." in report


def test_an_input_that_nothing_reads_is_not_carried():
    def step(state, batch):
        return {"x": state["x"] * state["mass"], "mass": state["mass"]}, jnp.sum(state["x"])

    assert carried_by(step, {"x": S((64, 8), "float32"), "mass": NUMBER}, NUMBER) == {"state/mass": 0, "state/x": 1}


def test_scalars_are_carried_by_name_by_dtype_or_by_what_they_are_computed_from():
    def step(params, count, decay, key, x, rate):
        after, loss = update(params["w"], x + jax.random.normal(key, x.shape), rate * decay)
        return {"w": after}, count + 1, decay * 0.99, jax.random.split(key)[0], {"loss": loss, "rate": rate}

    assert carried_by(step, PARAMS, COUNT, NUMBER, KEY, X, NUMBER) == {"params/w": 0, "count": 1, "decay": 2, "key": 3}


def test_a_scalar_that_the_loss_reads_is_an_input_of_each_step():
    def step(params, x, temperature):
        loss, grads = jax.value_and_grad(lambda w: loss_of(w, x, temperature))(params["w"])
        return {"w": params["w"] - 0.1 * grads}, loss

    assert carried_by(step, PARAMS, X, NUMBER) == {"params/w": 0}


def test_a_count_of_correct_answers_is_no_step_count():
    def step(params, n, x):
        after, loss = update(params["w"], x)
        return {"w": after}, n + 1, (x @ after > 0).sum(dtype="int32"), loss

    assert carried_by(step, PARAMS, COUNT, X) == {"params/w": 0, "n": 1}


def test_a_scalar_returned_as_it_was_given_stays_an_input():
    def step(params, rate, x):
        after, loss = update(params["w"], x, rate)
        return {"w": after}, rate, loss

    assert carried_by(step, PARAMS, NUMBER, X) == {"params/w": 0}
    assert carried_by(jax.jit(step), PARAMS, NUMBER, X) == {"params/w": 0}


STATES = {
    "dict": {"w": S((8, 4), "float32"), "seen": COUNT},
    "tuple": (PARAMS, {"seen": COUNT}),
    "named tuple": Averages(S((8, 4), "float32"), COUNT),
    "dataclass": Counted(S((8, 4), "float32"), COUNT),
    "equinox": Dense(S((8, 4), "float32")),
    "optax": jax.eval_shape(optax.adam(0.1).init, PARAMS),
    "flax": jax.eval_shape(lambda: TrainState.create(apply_fn=loss_of, params={"w": jnp.ones((8, 4))}, tx=optax.sgd(0.1, momentum=0.9))),
}


@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_state_of_any_class_is_carried_wherever_it_is_returned(kind, is_first):
    def step(given, x):
        after = jax.tree.map(lambda leaf: leaf + x.sum().astype(leaf.dtype), given)
        return (after, x.mean()) if is_first else (x.mean(), after)

    program = wb.trace_step(step, STATES[kind], X, name="train")
    count = len(jax.tree.leaves(STATES[kind]))
    assert program.carried == tuple((i + (not is_first), i) for i in range(count))
    assert [each.path for each in program.results if each.role is Role.OUTPUT] == ["result"]
    assert program.results[program.step.loss].path == "result"


def test_results_in_another_order_and_below_names():
    def step(params, opt_state, x):
        after, loss = update(params["w"], x)
        return {"metrics": {"loss": loss}, "state": {"w": after}, "optimizer": jax.tree.map(lambda leaf: leaf + 1, opt_state)}

    state = jax.eval_shape(optax.sgd(0.1, momentum=0.9).init, PARAMS)
    program = wb.trace_step(step, PARAMS, state, X)
    assert [each.path for each in program.results] == ["result/metrics/loss", "opt_state/0/trace/w", "params/w"]
    assert program.carried == ((1, 1), (2, 0))
    assert program.step.loss == 0


def test_two_states_of_one_structure_are_carried_by_name_or_in_order():
    def averaged(params, ema, x):
        after, loss = update(params["w"], x)
        return {"w": after}, {"w": 0.9 * ema["w"] + 0.1 * after}, loss

    def by_name(params, ema, x):
        after, average, _ = averaged(params, ema, x)
        return {"ema": average, "params": after}

    assert carried_by(averaged, PARAMS, PARAMS, X) == {"params/w": 0, "ema/w": 1}
    assert carried_by(by_name, PARAMS, PARAMS, X) == {"ema/w": 0, "params/w": 1}


def test_of_two_parameters_and_one_result_what_it_reads_decides():
    def train(target, online, x):
        after, loss = update(online["w"], x)
        return {"w": after}, loss

    def distil(student, teacher, x):
        after, loss = update(student["w"] + 0 * teacher["w"], x)
        return {"w": after}, loss

    assert carried_by(train, PARAMS, PARAMS, X) == {"online/w": 0}
    with pytest.raises(TraceError, match=r"`distil` takes `student`, `teacher` and returns `0` of the same structure"):
        wb.trace_step(distil, PARAMS, PARAMS, X)
    assert carried_by(distil, PARAMS, PARAMS, X, carried={"student": 0}) == {"student/w": 0}


def test_a_first_array_that_is_returned_as_it_is_is_carried():
    assert carried_by(lambda w, x: (w, (x @ w).sum()), S((8, 4), "float32"), X) == {"w": 0}


def test_a_key_that_begins_like_result_is_found():
    def step(state, x):
        after, loss = update(state["w"], x)
        return {"results": {"w": after}, "result_loss": loss}

    assert carried_by(step, PARAMS, X, carried={"state": "results"}) == {"state/w": 1}


def test_nothing_stated_is_said():
    with pytest.raises(TraceError, match=r"`carried` says that `train` carries nothing"):
        carried_by(lambda w, x: (w, (x @ w).sum()), S((8, 4), "float32"), X, carried={})


def test_an_init_that_returns_too_few_arrays_is_said():
    def step(params, cache, x):
        return cache + (x @ params["w"]).sum(), x

    program = wb.trace_step(step, PARAMS, NUMBER, X, init=lambda _key: jnp.zeros(()))
    with pytest.raises(TraceError, match=r"`init` returned 1 array; the step begins with 2: `params/w`, `cache`"):
        program.step.initialize(jax.random.key(0), ())


def test_gradients_have_the_structure_of_parameters_and_are_not_carried():
    def step(params, x):
        loss, grads = jax.value_and_grad(lambda params: loss_of(params["w"], x))(params)
        return jax.tree.map(jnp.subtract, params, grads), grads, loss

    assert carried_by(step, PARAMS, X) == {"params/w": 0}


def test_a_cache_is_carried_by_a_step_that_only_reads_its_parameters():
    def decode(params, cache, token):
        keys = jax.lax.dynamic_update_slice(cache["keys"], (token @ params["w"])[None], (cache["at"], 0))
        return (token @ params["w"]) @ keys.T, {"keys": keys, "at": cache["at"] + 1}

    program = wb.trace_step(decode, PARAMS, {"keys": S((16, 4), "float32"), "at": COUNT}, S((8,), "float32"))
    assert {program.arguments[argument].path: result for result, argument in program.carried} == {"cache/at": 1, "cache/keys": 2}
    roles = {each.path: each.role for each in program.arguments}
    assert roles == {"params/w": Role.PARAMETER, "cache/at": Role.MODEL_STATE, "cache/keys": Role.MODEL_STATE, "token": Role.INPUT}
    report = str(Plan(program, "data:2").report())
    assert "Carried to the next step: cache (2 arrays).\nNew per step: token.\nOnly read: params." in report


def scaled(params, scale, x):
    loss, grads = jax.value_and_grad(loss_of)(params["w"], x, scale)
    return {"w": params["w"] - grads}, loss


def test_what_structure_leaves_open_is_refused_and_stated():
    with pytest.raises(TraceError) as caught:
        wb.trace_step(scaled, PARAMS, NUMBER, X, name="train")
    assert caught.value.message == (
        "`train` takes `scale` and returns `1` of the same structure, shapes and dtypes; it is ambiguous whether one "
        "becomes the other in the "
        "next step."
    )
    assert caught.value.ways_out == (
        'state everything that is carried, `carried={"scale": 1, ...}`',
        "state what else is carried, without `scale`, if it is new in each step",
        "return the results as a dict with the names of the arguments",
    )
    assert carried_by(scaled, PARAMS, NUMBER, X, carried={"params": 0}) == {"params/w": 0}
    assert carried_by(scaled, PARAMS, NUMBER, X, carried={"params": "result/0", "scale": 1}) == {"params/w": 0, "scale": 1}


def test_per_sample_losses_are_not_the_next_samples():
    def step(params, x):
        after, _ = update(params["w"], x[:, None])
        return {"w": after}, (x[:, None] @ after).mean(-1)

    with pytest.raises(TraceError, match="takes `x` and returns `1` of the same structure"):
        wb.trace_step(step, {"w": S((1, 4), "float32")}, S((16,), "float32"), name="train")


REFUSED = {
    "There is no argument `param` of `train`; there are `params`, `scale`, `x`.": {"param": 0},
    "There is no result `2` of `train`; there are `0`, `0/w`, `1`.": {"params": 2},
    "`scale` of `train` cannot be carried by its result `0/w`: `scale` is float32[] and becomes float32[8, 4].": {"scale": "0/w"},
    "`params` of `train` cannot be carried by its result `1`: `params/w` is not returned.": {"params": 1},
    "`carried` says that `train` carries nothing from step to step.": {},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_statement_that_does_not_fit_is_refused(message):
    with pytest.raises(TraceError) as caught:
        wb.trace_step(scaled, PARAMS, NUMBER, X, name="train", carried=REFUSED[message])
    assert caught.value.message == message


def test_a_result_is_given_to_one_argument():
    with pytest.raises(TraceError) as caught:
        wb.trace_step(lambda a, b: (a, b), PARAMS, PARAMS, name="train", carried={"a": 0, "b": 0})
    assert caught.value.message == "`carried` gives result `0` of `train` to `a` and to `b`."


def test_state_that_comes_back_in_another_dtype_is_refused():
    def step(params, opt_state, x):
        after, loss = update(params["w"], x)
        return {"w": after}, {"mu": opt_state["mu"].astype("bfloat16")}, loss

    with pytest.raises(TraceError) as caught:
        wb.trace_step(step, PARAMS, {"mu": S((8, 4), "float32")}, X, name="train")
    assert caught.value.message == (
        "`opt_state` of `train` is state, and result `1` has its structure, but `opt_state/mu` is float32[8, 4] and becomes bfloat16[8, 4]."
    )


LEAVES = st.sampled_from([S((), "float32"), S((), "int32"), S((4,), "float32"), S((2, 3), "bfloat16")])
TREES = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, min_size=1) | st.lists(inner, min_size=1).map(tuple)
)
KEYED = st.dictionaries(st.sampled_from("klm"), TREES, min_size=1, max_size=3)


@given(st.lists(KEYED, min_size=1, max_size=3), st.data())
def test_keyed_states_are_carried_leaf_by_leaf_in_any_order_among_metrics(states, data):
    names = ["params", "opt_state", "extra"][: len(states)]
    states = [{f"of_{name}": tree} for name, tree in zip(names, states, strict=True)]  # no two have one structure
    metrics = {"loss": NUMBER, "seen": COUNT}
    order = data.draw(st.permutations(range(len(states) + 1)))
    result = tuple([*states, metrics][i] for i in order)
    arguments = _step_arguments([*names, "rate"], [*states, NUMBER])
    found = find_carried(arguments, result, ResultReads(lambda *_: result, [*states, NUMBER]), "train")
    assert {i: part.keys[0].idx for i, part in found.items()} == {i: order.index(i) for i in range(len(states))}
    leaves = jax.tree.leaves(result)
    for i, part in found.items():
        assert [leaves[leaf] for leaf in part.leaves] == jax.tree.leaves(states[i])


def train_state():
    return TrainState.create(apply_fn=loss_of, params={"w": jnp.full((8, 4), 0.5)}, tx=optax.sgd(0.1, momentum=0.9))


def of_train_state(state, x):
    loss, grads = jax.value_and_grad(lambda params: loss_of(params["w"], x))(state.params)
    return {"loss": loss}, state.apply_gradients(grads=grads)


def of_average(params, ema, count, key, x, rate):
    after, loss = update(params["w"], x + jax.random.normal(key, x.shape), rate)
    return {"w": after}, {"w": 0.9 * ema["w"] + 0.1 * after}, count + 1, jax.random.split(key)[0], loss


def of_cache(params, cache, x):
    sums = cache["sums"] * 0.5 + x @ params["w"]
    return {"result": sums.mean(), "cache": {"sums": sums, "at": cache["at"] + 1}}


def batch_of(number):
    return np.random.default_rng(number).standard_normal((16, 8), dtype=np.float32)


LOOPS = {
    "train state, donated": (partial(jax.jit, donate_argnums=0)(of_train_state), lambda: [train_state()], {0: 1}),
    "average, count and key": (
        of_average,
        lambda: [{"w": jnp.ones((8, 4))}, {"w": jnp.zeros((8, 4))}, jnp.int32(0), jax.random.key(3)],
        {0: 0, 1: 1, 2: 2, 3: 3},
    ),
    "cache": (of_cache, lambda: [{"w": jnp.ones((8, 4))}, {"sums": jnp.zeros((16, 4)), "at": jnp.int32(0)}], {1: "cache"}),
}


@pytest.mark.compile
@pytest.mark.parametrize("name", LOOPS)
def test_three_steps_over_devices_are_the_three_steps_of_a_plain_loop(name):
    step, make, becomes = LOOPS[name]
    rates = [] if name != "average, count and key" else [jnp.float32(0.1)]
    feed = (lambda n: (batch_of(n), np.float32(0.1 / (n + 1)))) if rates else batch_of
    x_dims = {"x": "batch d"}
    program = wb.trace_step(step, *make(), jnp.asarray(batch_of(0)), *rates, data=feed, dims=x_dims, name="train")
    compiled = compile_step(Plan(program, "data:4", "batch:data"))
    arguments = compiled.arguments(0)
    state = make()
    for number in range(3):
        fed = feed(number)
        expected = step(*state, *(fed if isinstance(fed, tuple) else (fed,)))
        results = compiled.advance(arguments, number + 1)
        for ours, theirs in zip(results, jax.tree.leaves(expected), strict=True):
            if not jax.dtypes.issubdtype(theirs.dtype, jax.dtypes.prng_key):
                np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5, atol=1e-6)
        for argument, result in becomes.items():
            state[argument] = expected[result]
