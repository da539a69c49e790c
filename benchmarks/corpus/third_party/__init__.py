"""Programs of packages of the Python package index, a file each; `PROGRAMS` is all of them. Nothing of theirs is imported until one is built."""

from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party import (
    diffusers_unet,
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
)

PROGRAMS: tuple[ThirdPartyProgram, ...] = tuple(
    each.PROGRAM
    for each in (
        diffusers_unet,
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
    )
)
