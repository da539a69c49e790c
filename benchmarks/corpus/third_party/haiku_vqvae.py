"""A vector-quantised autoencoder of dm-haiku: strided convolutions down, transposed ones up, the nearest of 512 codes between."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec
from workbench.core.program import Program


def build() -> Program:
    import haiku as hk

    def forward(images):
        hidden = images
        for channels in (128, 256):
            hidden = jax.nn.relu(hk.Conv2D(channels, 4, stride=2)(hidden))
        found = hk.nets.VectorQuantizer(64, 512, 0.25)(hk.Conv2D(64, 1)(hidden), is_training=True)
        hidden = jax.nn.relu(hk.Conv2D(256, 3)(found["quantize"]))
        hidden = jax.nn.relu(hk.Conv2DTranspose(128, 4, stride=2)(hidden))
        return hk.Conv2DTranspose(3, 4, stride=2)(hidden), found["loss"]

    images = spec((32, 64, 64, 3))

    def loss(model, images):
        rebuilt, quantising = model(images)
        return jnp.mean((rebuilt - images) ** 2) + quantising

    dims = {"batch": "batch height width channels"}
    return wb.from_haiku(forward, loss, images, optimizer=optax.adam(3e-4), dims=dims, name="haiku_vqvae")


PROGRAM = ThirdPartyProgram(
    "haiku_vqvae",
    "convolutional autoencoder",
    ("dm-haiku",),
    build,
    tensor_parallel=StatedLayout("data:4 model:2", "batch:data; conv2_d/w=[-, -, -, model]; conv2_d_1/w=[-, -, model, -]"),
)
