"""The vision transformer of Equimo, in Equinox: one image mapped over the batch, register tokens, bfloat16 weights in float32 copies."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.equinox_glue import arrays_of
from benchmarks.corpus.third_party.glue import mean_cross_entropy, spec
from workbench.core.program import Program


def make_model(key: Any) -> Any:
    from equimo.models import VisionTransformer

    return VisionTransformer(img_size=128, in_channels=3, dim=512, patch_size=16, num_heads=8, depths=[1], key=key)


def build() -> Program:
    import equinox as eqx

    arrays, rest = arrays_of(make_model)

    def loss(arrays, batch):
        half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), arrays)
        model = eqx.combine(half, rest)
        logits = jax.vmap(lambda image: model(image, key=jax.random.key(0), inference=True))(batch["images"].astype(jnp.bfloat16))
        return mean_cross_entropy(logits, batch["labels"])

    batch = {"images": spec((64, 3, 128, 128)), "labels": spec((64,), "int32")}
    dims = {"images": "batch channels height width", "labels": "batch"}
    return wb.trace_training(loss, arrays, batch, optimizer=optax.adamw(1e-3), dims=dims, name="equimo_vit")


PROGRAM = ThirdPartyProgram(
    "equimo_vit",
    "vision transformer",
    ("equimo", "equinox"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; fc1/weight=[model, -]; fc1/bias=[model]; fc2/weight=[-, model]; qkv/weight=[model, -]; attn/proj/weight=[-, model]",
    ),
)
