"""Gemma of Transformers, in Flax Linen: one key-value head, a tied table, bfloat16 activations, Adafactor."""

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import MEGATRON
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from workbench.core.program import Program


def build() -> Program:
    from transformers import FlaxGemmaForCausalLM, GemmaConfig

    config = GemmaConfig(
        vocab_size=16_384,
        hidden_size=512,
        intermediate_size=2048,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=128,
        max_position_embeddings=512,
    )
    model = FlaxGemmaForCausalLM(config, dtype=jnp.bfloat16, _do_init=False)

    def loss(model, batch):
        logits = model(batch["tokens"], train=True).logits
        return mean_cross_entropy(logits, batch["targets"])

    dims = {
        "batch/*": "batch seq",
        "embedding": "vocab d_model",
        "q_proj/kernel": "d_model heads",
        "o_proj/kernel": "heads d_model",
        "gate_proj/kernel": "d_model d_ff",
        "up_proj/kernel": "d_model d_ff",
        "down_proj/kernel": "d_ff d_model",
    }
    batch = {"tokens": tokens(16, 512), "targets": tokens(16, 512)}
    return wb.from_flax(model, loss, batch, optimizer=optax.adafactor(1e-3), dims=dims, name="flax_gemma")


PROGRAM = ThirdPartyProgram("flax_gemma", "decoder-only language model", ("transformers", "flax"), build, tensor_parallel=MEGATRON)
