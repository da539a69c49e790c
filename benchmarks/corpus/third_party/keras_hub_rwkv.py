"""RWKV-7 of KerasHub on JAX: a language model whose state is a matrix a head, carried through a scan over time."""

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

    return keras_hub.models.RWKV7Backbone(
        hidden_size=256, head_size=64, num_layers=1, vocabulary_size=4096, intermediate_dim=1024, gate_lora=64
    )


def build() -> Program:
    import keras

    keras.utils.clear_session()
    backbone = make_model()
    call = stateless(backbone)

    def loss(params, batch):
        return mean_cross_entropy(
            call(params, batch["state"], {"token_ids": batch["tokens"], "padding_mask": batch["mask"]}), batch["targets"]
        )

    batch = {name: tokens(16, 128) for name in ("tokens", "targets", "mask")}
    batch["state"] = shapes_of(backbone.non_trainable_variables)
    dims = {"batch/tokens": "batch seq", "batch/targets": "batch seq", "batch/mask": "batch seq"}
    params = shapes_of(backbone.trainable_variables)
    return wb.trace_training(loss, params, batch, optimizer=optax.adamw(3e-4), dims=dims, name="keras_hub_rwkv")


PROGRAM = ThirdPartyProgram(
    "keras_hub_rwkv",
    "state-space model",
    ("keras-hub", "keras"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; dense_k/kernel=[-, model]; dense_v/kernel=[model, -]; head/kernel=[-, model]",
    ),
)
