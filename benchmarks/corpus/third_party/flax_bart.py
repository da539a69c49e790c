"""BART of Transformers, in Flax Linen: encoder and decoder, a tied table, float32, smoothed labels."""

import jax
import optax

import workbench as wb
from benchmarks.corpus.layouts import MEGATRON
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import tokens
from workbench.core.program import Program

WORDS = 8192


def build() -> Program:
    from transformers import BartConfig, FlaxBartForConditionalGeneration

    config = BartConfig(
        vocab_size=WORDS,
        d_model=512,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        max_position_embeddings=256,
    )
    model = FlaxBartForConditionalGeneration(config, _do_init=False)

    def loss(model, batch):
        found = model(batch["inputs"], decoder_input_ids=batch["previous"], train=False)
        labels = optax.smooth_labels(jax.nn.one_hot(batch["targets"], WORDS), 0.1)
        return optax.softmax_cross_entropy(found.logits, labels).mean()

    dims = {
        "batch/inputs": "batch source",
        "batch/previous": "batch seq",
        "batch/targets": "batch seq",
        "shared/embedding": "vocab d_model",
        "q_proj/kernel": "d_model heads",
        "k_proj/kernel": "d_model heads",
        "v_proj/kernel": "d_model heads",
        "out_proj/kernel": "heads d_model",
        "fc1/kernel": "d_model d_ff",
        "fc2/kernel": "d_ff d_model",
    }
    batch = {"inputs": tokens(32, 256), "previous": tokens(32, 128), "targets": tokens(32, 128)}
    return wb.from_flax(model, loss, batch, optimizer=optax.adam(1e-3), dims=dims, name="flax_bart")


PROGRAM = ThirdPartyProgram("flax_bart", "encoder-decoder", ("transformers", "flax"), build, tensor_parallel=MEGATRON)
