"""Llama of Transformers, in Flax Linen: a training step with bfloat16 activations."""

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import MEGATRON
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, tokens
from workbench.core.program import Program


def build() -> Program:
    from transformers import FlaxLlamaForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=8192,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=2,
        num_attention_heads=12,
        num_key_value_heads=4,
        max_position_embeddings=512,
    )
    model = FlaxLlamaForCausalLM(config, dtype=jnp.bfloat16, _do_init=False)

    def loss(model, batch):
        logits = model(batch["tokens"], train=True).logits
        return mean_cross_entropy(logits[:, :-1], batch["tokens"][:, 1:])

    dims = {
        "batch/tokens": "batch seq",
        "embedding": "vocab d_model",
        "lm_head/kernel": "d_model vocab",
        "q_proj/kernel": "d_model heads",
        "k_proj/kernel": "d_model kv_heads",
        "v_proj/kernel": "d_model kv_heads",
        "o_proj/kernel": "heads d_model",
        "gate_proj/kernel": "d_model d_ff",
        "up_proj/kernel": "d_model d_ff",
        "down_proj/kernel": "d_ff d_model",
    }
    batch = {"tokens": tokens(16, 512)}
    return wb.from_flax(model, loss, batch, optimizer=optax.adamw(3e-4), dims=dims, name="flax_llama")


PROGRAM = ThirdPartyProgram("flax_llama", "decoder-only language model", ("transformers", "flax"), build, tensor_parallel=MEGATRON)
