"""The conditional U-Net of Stable Diffusion, of Diffusers in Flax Linen: noise predicted in latents, bfloat16 activations."""

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec
from workbench.core.program import Program


def build() -> Program:
    from diffusers import FlaxUNet2DConditionModel

    model = FlaxUNet2DConditionModel(
        sample_size=32,
        block_out_channels=(128,),
        down_block_types=("CrossAttnDownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D",),
        layers_per_block=1,
        attention_head_dim=8,
        cross_attention_dim=512,
        dtype=jnp.bfloat16,
    )

    def loss(model, batch):
        found = model(batch["noisy"], batch["time"], batch["text"], train=True).sample
        return jnp.mean((found.astype(jnp.float32) - batch["noise"]) ** 2)

    latents = spec((32, 4, 32, 32))
    batch = {"noisy": latents, "noise": latents, "time": spec((32,), "int32"), "text": spec((32, 64, 512))}
    dims = {"noisy": "batch channels height width", "noise": "batch channels height width", "text": "batch words d_text"}
    return wb.from_flax(model, loss, batch, optimizer=optax.adamw(1e-4), dims=dims, name="diffusers_unet")


PROGRAM = ThirdPartyProgram(
    "diffusers_unet",
    "diffusion U-Net",
    ("diffusers", "flax"),
    build,
    tensor_parallel=StatedLayout(
        "data:4 model:2",
        "batch:data; to_q/kernel=[-, model]; to_k/kernel=[-, model]; to_v/kernel=[-, model]; to_out_0/kernel=[model, -]; "
        "net_0/proj/kernel=[-, model]; net_2/kernel=[model, -]; conv1/kernel=[-, -, -, model]; conv2/kernel=[-, -, model, -]",
    ),
)
