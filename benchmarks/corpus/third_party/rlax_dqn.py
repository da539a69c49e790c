"""Double Q-learning with RLax on a network of Flax Linen's dense layers: targets by a second set of weights, Huber loss."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec
from workbench.core.program import Program

BATCH, SEEN, WIDTH, ACTIONS = 512, 256, 1024, 64


def make_model() -> Any:
    from flax import linen as nn

    return nn.Sequential([nn.Dense(WIDTH), nn.relu, nn.Dense(WIDTH), nn.LayerNorm(), nn.relu, nn.Dense(ACTIONS)])


def build() -> Program:
    import rlax

    net = make_model()

    params = jax.eval_shape(lambda key: net.init(key, jnp.zeros((1, SEEN))), jax.random.key(0))

    def loss(params, batch):
        here, there = net.apply(params, batch["before"]), net.apply(params, batch["after"])
        target = net.apply(batch["target"], batch["after"])
        errors = jax.vmap(rlax.double_q_learning)(here, batch["actions"], batch["rewards"], batch["discounts"], target, there)
        return jnp.mean(rlax.huber_loss(errors))

    batch = {
        "before": spec((BATCH, SEEN)),
        "after": spec((BATCH, SEEN)),
        "actions": spec((BATCH,), "int32"),
        "rewards": spec((BATCH,)),
        "discounts": spec((BATCH,)),
        "target": params,
    }
    dims = {"before": "batch seen", "after": "batch seen", "actions": "batch", "rewards": "batch", "discounts": "batch"}
    return wb.trace_training(loss, params, batch, optimizer=optax.adam(1e-4), dims=dims, name="rlax_dqn")


PROGRAM = ThirdPartyProgram(
    "rlax_dqn",
    "reinforcement learning",
    ("rlax", "flax"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4", "batch:data; layers_0/kernel=[-, model]; layers_0/bias=[model]; layers_2/kernel=[model, -]"
    ),
)
