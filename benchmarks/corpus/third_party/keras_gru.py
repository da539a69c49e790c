"""A classifier of texts in Keras on JAX: an embedding, a bidirectional GRU, a GRU, Adam."""

from typing import Any

import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec, tokens
from benchmarks.corpus.third_party.keras_glue import shapes_of, stateless
from workbench.core.program import Program

LENGTH = 128


def make_model() -> Any:
    import keras

    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(8192, 256),
            layers.Bidirectional(layers.GRU(256, return_sequences=True)),
            layers.GRU(512),
            layers.Dense(1024, activation="relu"),
            layers.Dense(64),
        ]
    )


def build() -> Program:
    import keras

    keras.utils.clear_session()
    model = make_model()
    call = stateless(model)

    def loss(params, batch):
        return mean_cross_entropy(call(params, batch["state"], batch["tokens"]), batch["labels"])

    batch = {"tokens": tokens(64, LENGTH), "labels": spec((64,), "int32"), "state": shapes_of(model.non_trainable_variables)}
    dims = {"batch/tokens": "batch seq", "batch/labels": "batch"}
    params = shapes_of(model.trainable_variables)
    return wb.trace_training(loss, params, batch, optimizer=optax.adam(1e-3), dims=dims, name="keras_gru")


PROGRAM = ThirdPartyProgram(
    "keras_gru",
    "recurrent network",
    ("keras",),
    build,
    tensor_parallel=StatedLayout(
        "data:4 model:2",
        "batch:data; embedding/embeddings=[-, model]; dense/kernel=[-, model]; dense/bias=[model]; dense_1/kernel=[model, -]",
    ),
)
