"""Programs of packages of the Python package index, a file each; `PROGRAMS` is all of them. A package is imported when one is built."""

from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party import (
    diffrax_node,
    diffusers_unet,
    equimo_vit,
    equimo_vssd,
    equinox_recurrence,
    flax_bart,
    flax_bert,
    flax_clip,
    flax_gemma,
    flax_gpt2,
    flax_llama,
    flax_mistral_decode,
    flax_vit,
    flax_whisper,
    haiku_lstm,
    haiku_resnet,
    haiku_vqvae,
    jraph_network,
    keras_gru,
    keras_hub_densenet,
    keras_hub_mixtral,
    keras_hub_mmdit,
    keras_hub_rwkv,
    linen_seq2seq,
    nnx_decoder,
    nnx_dit,
    rlax_dqn,
    rlax_impala,
)

PROGRAMS: tuple[ThirdPartyProgram, ...] = tuple(
    each.PROGRAM
    for each in (
        diffrax_node,
        diffusers_unet,
        equimo_vit,
        equimo_vssd,
        equinox_recurrence,
        flax_bart,
        flax_bert,
        flax_clip,
        flax_gemma,
        flax_gpt2,
        flax_llama,
        flax_mistral_decode,
        flax_vit,
        flax_whisper,
        haiku_lstm,
        haiku_resnet,
        haiku_vqvae,
        jraph_network,
        keras_gru,
        keras_hub_densenet,
        keras_hub_mixtral,
        keras_hub_mmdit,
        keras_hub_rwkv,
        linen_seq2seq,
        nnx_decoder,
        nnx_dit,
        rlax_dqn,
        rlax_impala,
    )
)
QUICK_PROGRAMS = ("rlax_dqn", "jraph_network")
"""Small ones, of both halves."""
