"""Mistral of Transformers, in Flax Linen: one token of each sequence decoded with a cache of keys and values, greedily."""

from typing import Any

import jax
import jax.numpy as jnp

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import tokens
from workbench.core.program import Program

BATCH, LENGTH = 32, 1024


def make_model() -> Any:
    from transformers import FlaxMistralForCausalLM, MistralConfig

    config = MistralConfig(
        vocab_size=8192,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=2,
        num_attention_heads=16,
        num_key_value_heads=8,
        max_position_embeddings=LENGTH,
        sliding_window=LENGTH,
    )
    return FlaxMistralForCausalLM(config, dtype=jnp.bfloat16, _do_init=False)


def build() -> Program:
    model = make_model()
    params = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16), model.params_shape_tree)
    cache = jax.eval_shape(lambda: model.init_cache(BATCH, LENGTH))

    def decode(params, cache, token, mask, position):
        found = model(token, attention_mask=mask, position_ids=position, past_key_values=cache, params=params)
        return found.logits[:, -1].argmax(-1), found.past_key_values

    dims = {"token": "batch one", "cached_*": "batch cached kv_heads d_head"}
    given = (params, cache, tokens(BATCH, 1), tokens(BATCH, LENGTH), tokens(BATCH, 1))
    return wb.trace(decode, *given, dims=dims, name="flax_mistral_decode")


PROGRAM = ThirdPartyProgram(
    "flax_mistral_decode",
    "decoding with a key-value cache",
    ("transformers", "flax"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; kv_heads:model; q_proj/kernel=[-, model]; k_proj/kernel=[-, model]; v_proj/kernel=[-, model]; "
        "o_proj/kernel=[model, -]; gate_proj/kernel=[-, model]; up_proj/kernel=[-, model]; down_proj/kernel=[model, -]; "
        "lm_head/kernel=[-, model]",
    ),
    zero_3=StatedLayout("data:8", "batch:data; params/**/kernel=[data, -]; params/**/embedding=[-, data]"),
)
