"""Mixtral of KerasHub on JAX: a decoder whose layers choose two of eight experts for each word."""

from typing import Any

import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from benchmarks.corpus.third_party.keras_glue import shapes_of, stateless
from workbench.core.program import Program


def make_model() -> Any:
    import keras_hub

    return keras_hub.models.MixtralBackbone(
        vocabulary_size=8192,
        num_layers=1,
        num_query_heads=8,
        num_key_value_heads=4,
        hidden_dim=512,
        intermediate_dim=1024,
        num_experts=8,
        sliding_window=256,
    )


def build() -> Program:
    import keras

    keras.utils.clear_session()
    backbone = make_model()
    call = stateless(backbone)
    table = backbone.token_embedding.reverse_embeddings.path

    def loss(params, batch):
        hidden = call(params, batch["state"], {"token_ids": batch["tokens"], "padding_mask": batch["mask"]})
        return mean_cross_entropy(hidden[:, :-1] @ params[table], batch["tokens"][:, 1:])

    state = shapes_of(backbone.non_trainable_variables)
    batch = {"tokens": tokens(16, 256), "mask": tokens(16, 256), "state": state}
    dims = {"batch/tokens": "batch seq", "batch/mask": "batch seq"}
    params = shapes_of(backbone.trainable_variables)
    return wb.trace_training(loss, params, batch, optimizer=optax.adamw(3e-4), dims=dims, name="keras_hub_mixtral")


PROGRAM = ThirdPartyProgram(
    "keras_hub_mixtral",
    "mixture of experts",
    ("keras-hub", "keras"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; expert_feedforward_gate_dense=[model, -, -]; expert_feedforward_intermediate_dense=[model, -, -]; "
        "expert_feedforward_output_dense=[model, -, -]; query/kernel=[-, model, -]; key/kernel=[-, model, -]; value/kernel=[-, model, -]; "
        "attention_output/kernel=[model, -, -]",
    ),
)
