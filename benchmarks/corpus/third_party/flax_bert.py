"""BERT of Transformers, in Flax Linen: masked words, dropout with JAX's older random keys, float32, LAMB."""

from typing import Any

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec, tokens
from workbench.core.program import Program


def make_model() -> Any:
    from transformers import BertConfig, FlaxBertForMaskedLM

    config = BertConfig(
        vocab_size=8192,
        hidden_size=512,
        num_hidden_layers=1,
        num_attention_heads=8,
        intermediate_size=2048,
        max_position_embeddings=256,
    )
    return FlaxBertForMaskedLM(config, _do_init=False)


def build() -> Program:
    model = make_model()

    def loss(params, batch):
        logits = model(batch["tokens"], attention_mask=batch["mask"], params=params, dropout_rng=batch["rng"], train=True).logits
        each = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.maximum(batch["labels"], 0))
        counted = batch["labels"] >= 0
        return jnp.where(counted, each, 0).sum() / counted.sum()

    batch = {name: tokens(32, 256) for name in ("tokens", "mask", "labels")} | {"rng": spec((2,), "uint32")}
    dims = dict.fromkeys(("batch/tokens", "batch/mask", "batch/labels"), "batch seq")
    return wb.trace_training(loss, model.params_shape_tree, batch, optimizer=optax.lamb(1e-3), dims=dims, name="flax_bert")


PROGRAM = ThirdPartyProgram(
    "flax_bert",
    "encoder-only language model",
    ("transformers", "flax"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; query/kernel=[-, model]; key/kernel=[-, model]; value/kernel=[-, model]; "
        "attention/output/dense/kernel=[model, -]; intermediate/dense/kernel=[-, model]; intermediate/dense/bias=[model]",
    ),
)
