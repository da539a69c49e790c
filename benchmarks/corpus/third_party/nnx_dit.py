"""A diffusion transformer of Flax NNX's own layers: patches of latents, adaptive layer norms, a velocity predicted."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from benchmarks.corpus.layouts import StatedLayout
from benchmarks.corpus.program import ThirdPartyProgram
from benchmarks.corpus.third_party.glue import spec
from workbench.core.program import Program

BATCH, SIDE, CHANNELS, PATCH, WIDTH, HEADS, LAYERS = 32, 32, 4, 2, 512, 8, 2


def make_model(rngs: Any) -> Any:
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norms = nnx.List([nnx.LayerNorm(WIDTH, use_bias=False, use_scale=False, rngs=rngs) for _ in range(2)])
            self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
            self.up, self.down = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs), nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)
            self.modulation = nnx.Linear(WIDTH, 6 * WIDTH, rngs=rngs)

        def __call__(self, x, condition):
            shift, scale, gate, shift_2, scale_2, gate_2 = jnp.split(self.modulation(jax.nn.silu(condition))[:, None], 6, axis=-1)
            x = x + gate * self.attention(self.norms[0](x) * (1 + scale) + shift)
            return x + gate_2 * self.down(jax.nn.gelu(self.up(self.norms[1](x) * (1 + scale_2) + shift_2)))

    class DiT(nnx.Module):
        def __init__(self, rngs):
            self.patches = nnx.Conv(CHANNELS, WIDTH, (PATCH, PATCH), strides=PATCH, rngs=rngs)
            self.places = nnx.Param(jax.random.normal(rngs.params(), ((SIDE // PATCH) ** 2, WIDTH)))
            self.classes, self.time = nnx.Embed(1000, WIDTH, rngs=rngs), nnx.Linear(256, WIDTH, rngs=rngs)
            self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
            self.out = nnx.Linear(WIDTH, PATCH * PATCH * CHANNELS, rngs=rngs)

        def __call__(self, latents, time, classes):
            angles = time[:, None] * jnp.exp(-jnp.arange(128) * jnp.log(10_000.0) / 128)
            condition = self.time(jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1)) + self.classes(classes)
            x = self.patches(latents).reshape(BATCH, -1, WIDTH) + self.places[...]
            for block in self.blocks:
                x = block(x, condition)
            side = SIDE // PATCH
            found = self.out(x).reshape(BATCH, side, side, PATCH, PATCH, CHANNELS)
            return found.transpose(0, 1, 3, 2, 4, 5).reshape(BATCH, SIDE, SIDE, CHANNELS)

    return DiT(rngs)


def build() -> Program:
    from flax import nnx

    graph, params, rest = nnx.split(nnx.eval_shape(lambda: make_model(nnx.Rngs(0))), nnx.Param, ...)

    def loss(params, batch):
        model = nnx.merge(graph, params, batch["rest"], copy=True)
        time = batch["time"][:, None, None, None]
        mixed = (1 - time) * batch["latents"] + time * batch["noise"]
        return jnp.mean((model(mixed, batch["time"], batch["classes"]) - (batch["noise"] - batch["latents"])) ** 2)

    latents = spec((BATCH, SIDE, SIDE, CHANNELS))
    batch = {"latents": latents, "noise": latents, "time": spec((BATCH,)), "classes": spec((BATCH,), "int32"), "rest": rest}
    dims = {"batch/latents": "batch height width channels", "batch/noise": "batch height width channels"}
    return wb.trace_training(loss, params, batch, optimizer=optax.adamw(1e-4), dims=dims, name="nnx_dit")


PROGRAM = ThirdPartyProgram(
    "nnx_dit",
    "diffusion transformer",
    ("flax",),
    build,
    tensor_parallel=StatedLayout(
        "data:2 model:4",
        "batch:data; up/kernel/value=[-, model]; up/bias/value=[model]; down/kernel/value=[model, -]; query/kernel/value=[-, model, -]; "
        "key/kernel/value=[-, model, -]; value/kernel/value=[-, model, -]; attention/out/kernel/value=[model, -, -]",
    ),
)
