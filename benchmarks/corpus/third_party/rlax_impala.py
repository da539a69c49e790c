"""The learner of IMPALA with RLax: V-trace over a trajectory, a convolutional network and an LSTM of dm-haiku, RMSprop."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec
from workbench.core.program import Program

TIME, BATCH, ACTIONS, WIDTH = 21, 32, 16, 256


def build() -> Program:
    import haiku as hk
    import rlax

    def forward(frames):
        hidden = frames.astype(jnp.float32).reshape(TIME * BATCH, 64, 64, 4) / 255.0
        for channels, side, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            hidden = jax.nn.relu(hk.Conv2D(channels, side, stride=stride)(hidden))
        hidden = jax.nn.relu(hk.Linear(512)(hidden.reshape(TIME, BATCH, -1)))
        core = hk.LSTM(WIDTH)
        hidden, _ = hk.dynamic_unroll(core, hidden, core.initial_state(BATCH))
        return hk.Linear(ACTIONS)(hidden), hk.Linear(1)(hidden)[..., 0]

    frames = spec((TIME, BATCH, 64, 64, 4), "uint8")

    def loss(model, batch):
        logits, values = model(batch["frames"])
        actions, behaviour = batch["actions"], batch["behaviour"]
        ratios = rlax.categorical_importance_sampling_ratios(logits[:-1], behaviour, actions)
        advantage = jax.vmap(rlax.vtrace_td_error_and_advantage, in_axes=1, out_axes=1)
        found = advantage(values[:-1], values[1:], batch["rewards"], batch["discounts"], ratios)
        weights = jnp.ones((TIME - 1,))
        policy = jax.vmap(rlax.policy_gradient_loss, in_axes=(1, 1, 1, None))(logits[:-1], actions, found.pg_advantage, weights)
        entropy = jax.vmap(rlax.entropy_loss, in_axes=(1, None))(logits[:-1], weights)
        return policy.mean() + 0.5 * jnp.mean(found.errors**2) + 0.01 * entropy.mean()

    step = spec((TIME - 1, BATCH))
    batch = {
        "frames": frames,
        "actions": spec((TIME - 1, BATCH), "int32"),
        "behaviour": spec((TIME - 1, BATCH, ACTIONS)),
        "rewards": step,
        "discounts": step,
    }
    dims = {"frames": "frames batch height width channels", "actions": "steps batch", "behaviour": "steps batch actions"}
    dims |= {"rewards": "steps batch", "discounts": "steps batch"}
    optimizer = optax.chain(optax.clip_by_global_norm(40.0), optax.rmsprop(1e-3))
    return wb.from_haiku(forward, loss, batch, optimizer=optimizer, dims=dims, name="rlax_impala")


PROGRAM = ThirdPartyProgram(
    "rlax_impala",
    "reinforcement learning",
    ("rlax", "dm-haiku"),
    build,
    tensor_parallel=StatedLayout("data:2 model:4", "batch:data; params/linear/w=[-, model]; params/linear/b=[model]"),
)
