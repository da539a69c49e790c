"""The diffusion transformer of Stable Diffusion 3, of KerasHub on JAX: latents and text in one attention."""

from typing import Any

import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec
from benchmarks.corpus.third_party.keras_glue import shapes_of, stateless
from workbench.core.program import Program

BATCH = 16


def make_model() -> Any:
    from keras_hub.src.models.stable_diffusion_3.mmdit import MMDiT

    shapes = {"latent_shape": (32, 32, 16), "context_shape": (64, 512), "pooled_projection_shape": (256,)}
    return MMDiT(2, 512, 2, 8, 32, **shapes)


def build() -> Program:
    import keras

    keras.utils.clear_session()
    model = make_model()
    call = stateless(model)

    def loss(params, batch):
        inputs = {name: batch[name] for name in ("latent", "context", "pooled_projection", "timestep")}
        return jnp.mean((call(params, batch["state"], inputs) - batch["velocity"]) ** 2)

    batch = {
        "latent": spec((BATCH, 32, 32, 16)),
        "velocity": spec((BATCH, 32, 32, 16)),
        "context": spec((BATCH, 64, 512)),
        "pooled_projection": spec((BATCH, 256)),
        "timestep": spec((BATCH, 1)),
        "state": shapes_of(model.non_trainable_variables),
    }
    dims = {"batch/latent": "batch height width channels", "batch/velocity": "batch height width channels", "context": "batch words d_text"}
    params = shapes_of(model.trainable_variables)
    return wb.trace_training(loss, params, batch, optimizer=optax.adamw(1e-4), dims=dims, name="keras_hub_mmdit")


PROGRAM = ThirdPartyProgram(
    "keras_hub_mmdit",
    "diffusion transformer",
    ("keras-hub", "keras"),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; mlp/dense1/kernel=[-, model]; mlp/dense1/bias=[model]; mlp/dense2/kernel=[model, -]; "
        "attention_qkv/kernel=[-, model]; attention_proj/kernel=[model, -]",
    ),
)
