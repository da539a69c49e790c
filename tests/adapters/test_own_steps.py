"""Train steps of one's own and what is asked of them: several losses and optimizers, environments, auxiliary values, rare optimizers."""

import jax
import jax.numpy as jnp
import optax
import pytest

import workbench as wb
from tests.support.adapter_models import BATCH, DIMS, S, linen, nnx_by_loss, nnx_by_step, nnx_net, plain_loss
from workbench.core.tensor import Role
from workbench.errors import OffloadError, PipelineError, PrecisionError, RematError, TraceError
from workbench.public_plan import Plan
from workbench.tracing.trace_step import role_of

pytestmark = [pytest.mark.compile, pytest.mark.filterwarnings("default")]
ACTOR, CRITIC = optax.sgd(0.1), optax.sgd(0.05, momentum=0.9)
ENVIRONMENTS, STEPS, SEEN = 16, 5, 8


def dense(params, x):
    return jnp.tanh(x @ params["up"]["kernel"]) @ params["down"]["kernel"]


def actor_critic():
    """Two models with an optimizer each, two losses, environments that are scanned over and carried, keys."""

    def make(key):
        def params(key, out):
            keys = jax.random.split(key)
            shapes = {"up": (SEEN, 32), "down": (32, out)}
            return {name: {"kernel": jax.random.normal(key, shape) / 8} for key, (name, shape) in zip(keys, shapes.items(), strict=True)}

        actor, critic = params(key, 4), params(jax.random.fold_in(key, 1), 1)
        environments = {"seen": jnp.zeros((ENVIRONMENTS, SEEN)), "age": jnp.zeros(ENVIRONMENTS, "int32")}
        return {
            "actor": {"params": actor, "opt_state": ACTOR.init(actor)},
            "critic": {"params": critic, "opt_state": CRITIC.init(critic)},
            "environments": environments,
            "key": jax.random.fold_in(key, 2),
        }

    def rollout(params, environments, key):
        def act(carry, key):
            seen, age = carry["seen"], carry["age"]
            logits = dense(params, seen)
            action = jax.random.categorical(key, logits)
            after = 0.9 * seen + jax.nn.one_hot(action, SEEN)
            return {"seen": after, "age": age + 1}, (seen, logits, action, after.mean(-1))

        return jax.lax.scan(act, environments, jax.random.split(key, STEPS))

    def train_step(state, batch):
        actor, critic = state["actor"], state["critic"]

        def actor_loss(params):
            environments, (seen, logits, action, reward) = rollout(params, state["environments"], state["key"])
            advantage = jax.lax.stop_gradient(reward - dense(critic["params"], seen)[..., 0])
            taken = jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0]
            return -(taken * advantage).mean(), (environments, seen, reward)

        def critic_loss(params, seen, reward):
            return ((dense(params, seen)[..., 0] - reward) ** 2).mean() + batch["decay"] * jnp.abs(params["up"]["kernel"]).mean()

        (policy, (environments, seen, reward)), grads = jax.value_and_grad(actor_loss, has_aux=True)(actor["params"])
        value, critic_grads = jax.value_and_grad(critic_loss)(critic["params"], seen, reward)
        after = {"environments": environments, "key": jax.random.split(state["key"])[0]}
        for name, optimizer, gradient in (("actor", ACTOR, grads), ("critic", CRITIC, critic_grads)):
            updates, opt_state = optimizer.update(gradient, state[name]["opt_state"], state[name]["params"])
            after[name] = {"params": optax.apply_updates(state[name]["params"], updates), "opt_state": opt_state}
        return after, {"actor_loss": policy, "critic_loss": value, "reward": reward.mean()}

    state = jax.eval_shape(lambda: make(jax.random.key(0)))
    dims = {"environments/seen": "environments seen", "environments/age": "environments"}
    return wb.trace_step(train_step, state, {"decay": jnp.float32(1e-3)}, init=make, dims=dims)


def test_actor_and_critic_have_parameters_optimisers_and_environments_of_their_own():
    program = actor_critic()
    roles = {each.path: each.role for each in program.arguments}
    assert roles["actor/params/up/kernel"] is roles["critic/params/up/kernel"] is Role.PARAMETER
    assert roles["critic/opt_state/0/trace/up/kernel"] is Role.OPTIMIZER_STATE
    assert roles["environments/seen"] is roles["key"] is Role.MODEL_STATE
    assert [each.path for each in program.results if each.role is Role.OUTPUT] == [
        f"result/{name}" for name in ("actor_loss", "critic_loss", "reward")
    ]
    report = Plan(program, "data:4", "environments:data").report()
    assert report.memory.by_role[Role.MODEL_STATE] == ENVIRONMENTS // 4 * (4 * SEEN + 4) + 8


@pytest.mark.worker
def test_actor_and_critic_run_over_devices_as_on_one():
    measurement = Plan(actor_critic(), "data:4", "environments:data").run(steps=3, check=True, profile=False)
    assert measurement.shards_agree
    assert measurement.max_error == pytest.approx(0, abs=1e-5)
    assert len(measurement.losses) == 3


def split_step(params, opt_state, x):
    loss, grads = jax.value_and_grad(lambda params: ((x @ params["w"]) ** 2).mean())(params)
    updates, opt_state = CRITIC.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


def test_a_step_may_take_and_return_its_state_in_several_arguments():
    params = {"w": S((8, 4), "float32")}
    program = wb.trace_step(split_step, params, jax.eval_shape(CRITIC.init, params), S((16, 8), "float32"), dims={"x": "batch _"})
    assert [each.path for each in program.arguments] == ["params/w", "opt_state/0/trace/w", "x"]
    assert [each.path for each in program.results] == ["params/w", "opt_state/0/trace/w", "result"]
    assert program.step.loss == 2


def test_roles_are_by_the_first_word_that_says_one():
    paths = ("params/w", "actor_params/w", "0/opt_state/mu/params/w", "optimizer/count", "adopt/w", "batch_stats/mean")
    roles = [role_of(path) for path in paths]
    assert roles == [Role.PARAMETER] * 2 + [Role.OPTIMIZER_STATE] * 2 + [Role.MODEL_STATE] * 2


def test_a_step_that_carries_nothing_is_refused_with_the_leaf_that_differs():
    spec = {"w": S((4,), "float32"), "n": S((), "int32")}
    cases = {
        "`state/w` is float32[4] and becomes bfloat16[4]": lambda state, x: ({"w": state["w"].astype("bfloat16"), "n": state["n"]}, x),
        "`state/n` is not returned": lambda state, x: ({"w": state["w"]}, x),
        "`state/more` is new": lambda state, x: (state | {"more": x}, x),
    }
    for said, step in cases.items():
        with pytest.raises(TraceError) as caught:
            wb.trace_step(step, spec, S((2,), "float32"), name="train")
        assert caught.value.message == (
            "The first result of `train` differs from its first argument, so nothing is carried from step to step: " + said + "."
        )


def test_what_a_step_of_its_own_keeps_and_casts_is_written_in_it():
    program = wb.trace_step(lambda params, x: params - x, S((4,), "float32"), S((4,), "float32"), name="train")
    changes = {
        "remat": (wb.Remat.parse("full"), RematError, "the function fixes what its backward pass keeps"),
        "precision": (wb.Precision.parse("bfloat16"), PrecisionError, "the function fixes its compute types"),
        "offload": (wb.Offload.parse("optimizer_state"), OffloadError, "the function fixes where its state is kept"),
    }
    for name, (change, kind, said) in changes.items():
        with pytest.raises(kind) as caught:
            program.variant(**{name: change})
        assert caught.value.message == f"`train` is a custom step: {said}."


@pytest.mark.worker
def test_a_search_lays_out_a_step_of_its_own():
    found = Plan(nnx_by_step(), "data:2 model:2", "batch:data", hardware="TPU v5e 2x2").search(within=20)
    assert found.best is not None


def test_a_model_with_statistics_is_traced_under_remat_and_precision_and_keeps_them_whole():
    program = linen()
    half = program.variant(precision=wb.Precision.parse("bfloat16"))
    assert {each.dtype for each in half.arguments if each.path.startswith("state/batch_stats")} == {"float32"}
    assert {op.dtype for op in half.operations if op.path.endswith("down/dot_general")} == {"bfloat16"}
    assert program.variant(remat=wb.Remat.parse("none")).state == program.state


def test_a_model_with_state_is_no_pipeline():
    with pytest.raises(PipelineError) as caught:
        Plan(linen(), "stage:2", "", pipeline="stages:2 axis:stage micro_batches:2").report()
    assert caught.value.message.startswith("`training_loss` carries `state/batch_stats/norm/mean` from step to step besides its parameters")


OPTIMIZERS = {
    "multi_steps": lambda: optax.MultiSteps(optax.adam(1e-3), 4),
    "multi_transform": lambda: optax.multi_transform(
        {"a": optax.adam(1e-3), "b": optax.sgd(1e-2)}, lambda params: {name: "a" if name == "up" else "b" for name in params}
    ),
    "schedule_free": lambda: optax.contrib.schedule_free_adamw(1e-3),
    "sam": lambda: optax.contrib.sam(optax.sgd(1e-2), optax.sgd(0.05), sync_period=2),
    "muon": lambda: optax.contrib.muon(1e-3),
    "lion": lambda: optax.lion(1e-4),
    "adafactor": lambda: optax.adafactor(1e-3, min_dim_size_to_factor=4),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rare_optimisers_are_planned_and_run_through_an_adapter(name):
    optimizer = OPTIMIZERS[name]()
    program = wb.from_flax(nnx_net, plain_loss, BATCH, optimizer=optimizer, dims=DIMS)
    plan = Plan(program, "data:2 model:2", "batch:data; hidden:model; params/up/kernel=[-, model]")
    assert plan.report().memory.peak > 0
    measurement = plan.run(steps=2, profile=False)
    assert measurement.shards_agree
    assert all(map(jnp.isfinite, measurement.losses))


def test_nothing_is_allocated_to_plan_a_model_larger_than_this_machine():
    from flax import nnx

    class Huge(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List([nnx.Linear(1 << 17, 1 << 17, rngs=rngs) for _ in range(4)])

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    batch = {"x": S((8, 1 << 17), "float32"), "y": S((8,), "int32")}
    program = wb.from_flax(Huge, plain_loss, batch, optimizer=optax.adam(1e-3))
    assert program.parameters > 1 << 36
    assert {each.path for each in program.arguments} >= {"params/layers/0/kernel", "opt_state/0/mu/layers/3/kernel"}
    assert {op.path for op in program.operations} >= {"layers/0/dot_general", "layers/3/dot_general"}
    assert nnx_by_loss().fingerprint == nnx_by_loss().fingerprint
