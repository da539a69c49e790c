"""A program of marked layers with named values, for tests of remat and precision."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb


def stack(layers: int = 3, seq: int = 16, width: int = 8) -> wb.Program:
    """Attention without weights, and a matrix, a few times over, each a marked layer."""

    @wb.layer
    def layer(weights, x):
        with jax.named_scope("scores"):
            scores = jax.nn.softmax(wb.checkpoint_name(jnp.einsum("bsd,btd->bst", x, x), "scores"))
        with jax.named_scope("mix"):
            mixed = wb.checkpoint_name(jnp.einsum("bst,btd->bsd", scores, x), "mixed")
        with jax.named_scope("mlp"):
            return x + jnp.tanh(wb.checkpoint_name(mixed @ weights, "hidden"))

    def loss(params, batch):
        x = batch["x"]
        for number, weights in enumerate(params["layers"]):
            with jax.named_scope(f"layers/{number}"):
                x = layer(weights, x)
        return jnp.mean(jnp.square(x))

    params = {"layers": [jax.random.normal(jax.random.key(i), (width, width)) / 3 for i in range(layers)]}
    batch = {"x": jax.random.normal(jax.random.key(9), (16, seq, width))}
    dims = {"layers/*": "d_in d_out", "batch/x": "batch seq d_in"}
    return wb.trace_training(loss, params, batch, optimizer=optax.adam(1e-2), dims=dims, name="stack")
