"""A language model of two LSTMs of dm-haiku, unrolled by a scan over time."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from workbench.core.program import Program

BATCH, LENGTH, WORDS, WIDTH = 64, 128, 8192, 512


def build() -> Program:
    import haiku as hk

    def forward(words):
        core = hk.DeepRNN([hk.LSTM(WIDTH), jax.nn.relu, hk.LSTM(WIDTH)])
        inputs = hk.Embed(WORDS, WIDTH)(words)
        hidden, _ = hk.dynamic_unroll(core, inputs, core.initial_state(BATCH), time_major=False)
        return hk.Linear(WORDS)(hidden)

    def loss(model, batch):
        return mean_cross_entropy(model(batch[:, :-1]), batch[:, 1:]).astype(jnp.float32)

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    return wb.from_haiku(forward, loss, tokens(BATCH, LENGTH + 1), optimizer=optimizer, dims={"batch": "batch seq"}, name="haiku_lstm")


PROGRAM = ThirdPartyProgram(
    "haiku_lstm",
    "recurrent network",
    ("dm-haiku",),
    build,
    tensor_parallel=StatedLayout("data:2 model:4", "batch:data; linear/w=[-, model]; linear/b=[model]; embed/embeddings=[-, model]"),
)
