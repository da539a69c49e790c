"""Whisper of Transformers, in Flax Linen: convolutions over a spectrogram, an encoder, a decoder of text, bfloat16 activations."""

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec, tokens
from workbench.core.program import Program

FRAMES = 512


def build() -> Program:
    from transformers import FlaxWhisperForConditionalGeneration, WhisperConfig

    config = WhisperConfig(
        vocab_size=8192,
        d_model=384,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        max_source_positions=FRAMES // 2,
        max_target_positions=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = FlaxWhisperForConditionalGeneration(config, input_shape=(1, 80, FRAMES), dtype=jnp.bfloat16, _do_init=False)

    def loss(model, batch):
        found = model(batch["spectrogram"], decoder_input_ids=batch["previous"], train=False)
        return mean_cross_entropy(found.logits, batch["targets"])

    batch = {"spectrogram": spec((32, 80, FRAMES)), "previous": tokens(32, 128), "targets": tokens(32, 128)}
    dims = {"spectrogram": "batch mel frames", "previous": "batch seq", "targets": "batch seq"}
    return wb.from_flax(model, loss, batch, optimizer=optax.adamw(1e-3), dims=dims, name="flax_whisper")


PROGRAM = ThirdPartyProgram(
    "flax_whisper",
    "encoder-decoder",
    ("transformers", "flax"),
    build,
    tensor_parallel=StatedLayout(
        "data:4 model:2",
        "batch:data; q_proj/kernel=[-, model]; k_proj/kernel=[-, model]; v_proj/kernel=[-, model]; out_proj/kernel=[model, -]; "
        "fc1/kernel=[-, model]; fc2/kernel=[model, -]; embed_tokens/embedding=[model, -]",
    ),
)
