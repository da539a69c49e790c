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

    net = hk.without_apply_rng(hk.transform(forward))
    images = spec((32, 64, 64, 3))
    params = jax.eval_shape(net.init, jax.eval_shape(lambda: jax.random.key(0)), images)

    def loss(params, images):
        rebuilt, quantising = net.apply(params, images)
        return jnp.mean((rebuilt - images) ** 2) + quantising

    dims = {"batch": "batch height width channels"}
    return wb.trace_training(loss, params, images, optimizer=optax.adam(3e-4), dims=dims, name="haiku_vqvae")


PROGRAM = ThirdPartyProgram(
    "haiku_vqvae",
    "convolutional autoencoder",
    ("dm-haiku",),
    build,
    tensor_parallel=StatedLayout("data:4 model:2", "batch:data; conv2_d/w=[-, -, -, model]; conv2_d_1/w=[-, -, model, -]"),
)
