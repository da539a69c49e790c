"""A translator of Flax Linen's own LSTMs: an encoder of both directions, a decoder that starts from its state."""

from typing import Any

import jax
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from workbench.core.program import Program

BATCH, SOURCE, LENGTH, WORDS, WIDTH = 64, 64, 64, 8192, 512


def make_model() -> Any:
    from flax import linen as nn

    class Translator(nn.Module):
        @nn.compact
        def __call__(self, source, previous):
            inputs = nn.Embed(WORDS, WIDTH, name="source_table")(source)
            state, hidden = nn.RNN(nn.OptimizedLSTMCell(WIDTH), return_carry=True, name="forward_rnn")(inputs)
            backward = nn.RNN(nn.OptimizedLSTMCell(WIDTH), reverse=True, keep_order=True, name="backward_rnn")(inputs)
            memory = nn.Dense(WIDTH, name="memory")(jax.numpy.concatenate([hidden, backward], -1))
            decoded = nn.RNN(nn.OptimizedLSTMCell(WIDTH), name="decoder")(
                nn.Embed(WORDS, WIDTH, name="table")(previous), initial_carry=state
            )
            read = nn.MultiHeadDotProductAttention(num_heads=8, name="attention")(decoded, memory)
            return nn.Dense(WORDS, name="head")(decoded + read)

    return Translator()


def build() -> Program:
    model = make_model()

    shapes = tokens(BATCH, SOURCE), tokens(BATCH, LENGTH)
    params = jax.eval_shape(lambda key: model.init(key, *(jax.numpy.zeros(each.shape, each.dtype) for each in shapes)), jax.random.key(0))

    def loss(params, batch):
        return mean_cross_entropy(model.apply(params, batch["source"], batch["previous"]), batch["targets"])

    batch = {"source": tokens(BATCH, SOURCE), "previous": tokens(BATCH, LENGTH), "targets": tokens(BATCH, LENGTH)}
    dims = {"batch/source": "batch source", "batch/previous": "batch seq", "batch/targets": "batch seq"}
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    return wb.trace_training(loss, params, batch, optimizer=optimizer, dims=dims, name="linen_seq2seq")


PROGRAM = ThirdPartyProgram(
    "linen_seq2seq",
    "recurrent network",
    ("flax",),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; table/embedding=[model, -]; head/kernel=[-, model]; head/bias=[model]; query/kernel=[-, model, -]; "
        "key/kernel=[-, model, -]; value/kernel=[-, model, -]; out/kernel=[model, -, -]",
    ),
)
