"""CLIP of Transformers, in Flax Linen: two towers and a contrastive loss over the whole batch."""

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec, tokens
from workbench.core.program import Program

BATCH = 64


def build() -> Program:
    from transformers import CLIPConfig, CLIPTextConfig, CLIPVisionConfig, FlaxCLIPModel

    sizes = {"num_hidden_layers": 1, "num_attention_heads": 8}
    text = CLIPTextConfig(vocab_size=8192, hidden_size=512, intermediate_size=2048, max_position_embeddings=64, eos_token_id=2, **sizes)
    vision = CLIPVisionConfig(hidden_size=512, intermediate_size=2048, image_size=128, patch_size=16, **sizes)
    config = CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=256)
    model = FlaxCLIPModel(config, dtype=jnp.bfloat16, _do_init=False)

    def loss(model, batch):
        scores = model(batch["tokens"], batch["images"]).logits_per_image.astype(jnp.float32)
        pairs = jnp.arange(BATCH)
        one_way = optax.softmax_cross_entropy_with_integer_labels(scores, pairs).mean()
        return (one_way + optax.softmax_cross_entropy_with_integer_labels(scores.T, pairs).mean()) / 2

    batch = {"tokens": tokens(BATCH, 64), "images": spec((BATCH, 3, 128, 128))}
    dims = {"tokens": "batch seq", "images": "batch channels height width"}
    return wb.from_flax(model, loss, batch, optimizer=optax.adamw(1e-3), dims=dims, name="flax_clip")


PROGRAM = ThirdPartyProgram(
    "flax_clip",
    "vision transformer beside a language model",
    ("transformers", "flax"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; q_proj/kernel=[-, model]; k_proj/kernel=[-, model]; v_proj/kernel=[-, model]; out_proj/kernel=[model, -]; "
        "fc1/kernel=[-, model]; fc2/kernel=[model, -]",
    ),
)
