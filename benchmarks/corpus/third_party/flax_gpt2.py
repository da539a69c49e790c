"""GPT-2 of Transformers, in Flax Linen, float32, with dropout and a clipped gradient; no dimension is named."""

from typing import Any

import jax
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from workbench.core.program import Program


def make_model() -> Any:
    from transformers import FlaxGPT2LMHeadModel, GPT2Config

    config = GPT2Config(vocab_size=8192, n_positions=256, n_embd=512, n_layer=1, n_head=8)
    return FlaxGPT2LMHeadModel(config, _do_init=False)


def build() -> Program:
    model = make_model()

    def loss(params, batch):
        logits = model(batch["tokens"], params=params, dropout_rng=batch["rng"], train=True).logits
        return mean_cross_entropy(logits[:, :-1], batch["tokens"][:, 1:])

    batch = {"tokens": tokens(32, 256), "rng": jax.eval_shape(lambda: jax.random.key(0))}
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4))
    return wb.trace_training(loss, model.params_shape_tree, batch, optimizer=optimizer, name="flax_gpt2")


PROGRAM = ThirdPartyProgram(
    "flax_gpt2",
    "decoder-only language model",
    ("transformers", "flax"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch/tokens=[data, -]; mlp/c_fc/kernel=[model, -]; mlp/c_fc/bias=[model]; mlp/c_proj/kernel=[-, model]; "
        "attn/c_attn/kernel=[model, -]; attn/c_attn/bias=[model]; attn/c_proj/kernel=[-, model]; wte/embedding=[model, -]",
    ),
)
