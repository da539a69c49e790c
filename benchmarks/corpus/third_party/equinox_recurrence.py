"""A linear recurrence of diagonal states, by an associative scan over time, between Equinox's own layers."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.equinox_glue import arrays_of
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from workbench.core.program import Program

BATCH, LENGTH, WORDS, WIDTH, STATE, LAYERS = 32, 256, 4096, 512, 512, 2


def make_model(key: Any) -> Any:
    import equinox as eqx

    class Layer(eqx.Module):
        norm: eqx.nn.LayerNorm
        inwards: eqx.nn.Linear
        outwards: eqx.nn.Linear
        gate: eqx.nn.Linear
        decay: jax.Array

        def __init__(self, key):
            keys = jax.random.split(key, 3)
            self.norm = eqx.nn.LayerNorm(WIDTH)
            self.inwards = eqx.nn.Linear(WIDTH, STATE, key=keys[0])
            self.outwards = eqx.nn.Linear(STATE, WIDTH, key=keys[1])
            self.gate = eqx.nn.Linear(WIDTH, WIDTH, key=keys[2])
            self.decay = jnp.zeros(STATE)

        def __call__(self, x):
            inputs = jax.vmap(self.inwards)(jax.vmap(self.norm)(x))
            decay = jnp.broadcast_to(jax.nn.sigmoid(self.decay), inputs.shape)
            _, states = jax.lax.associative_scan(lambda one, two: (one[0] * two[0], one[1] * two[0] + two[1]), (decay, inputs))
            found = jax.vmap(self.outwards)(states)
            return x + found * jax.nn.sigmoid(jax.vmap(self.gate)(found))

    class Model(eqx.Module):
        table: eqx.nn.Embedding
        layers: list[Layer]
        head: eqx.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key, LAYERS + 2)
            self.table = eqx.nn.Embedding(WORDS, WIDTH, key=keys[0])
            self.layers = [Layer(each) for each in keys[2:]]
            self.head = eqx.nn.Linear(WIDTH, WORDS, key=keys[1])

        def __call__(self, words):
            x = jax.vmap(self.table)(words)
            for layer in self.layers:
                x = layer(x)
            return jax.vmap(self.head)(x)

    return Model(key)


def build() -> Program:
    import equinox as eqx

    arrays, rest = arrays_of(make_model)

    def loss(arrays, batch):
        logits = jax.vmap(eqx.combine(arrays, rest))(batch)
        return mean_cross_entropy(logits[:, :-1], batch[:, 1:])

    dims = {"batch": "batch seq"}
    return wb.trace_training(loss, arrays, tokens(BATCH, LENGTH), optimizer=optax.adamw(1e-3), dims=dims, name="equinox_recurrence")


PROGRAM = ThirdPartyProgram(
    "equinox_recurrence",
    "state-space model",
    ("equinox",),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; inwards/weight=[model, -]; inwards/bias=[model]; decay=[model]; outwards/weight=[-, model]; head/weight=[model, -]",
    ),
)
