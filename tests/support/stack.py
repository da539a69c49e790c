"""A stack of six small layers with a skip from the first to the fifth: quick to plan, and enough to cut."""

import functools

import jax
import jax.numpy as jnp
import optax

from workbench.core.program import Program
from workbench.tracing import trace_training


def loss(weights: list[jax.Array], batch: dict[str, jax.Array]) -> jax.Array:
    x, first = batch["x"], None
    for i, w in enumerate(weights):
        with jax.named_scope(f"layers/{i}"):
            x = jnp.tanh(x @ w) + (first if i == 4 else 0.0)
            first = x if i == 0 else first
    with jax.named_scope("loss"):
        return jnp.mean((x - batch["y"]) ** 2)


@functools.cache
def stack_program(layers: int = 6, width: int = 32, batch: int = 8) -> Program:
    """x[batch=8, in=32], w[in=32, out=32]."""
    examples = jax.ShapeDtypeStruct((batch, width), jnp.float32)
    weights = [jax.ShapeDtypeStruct((width, width), jnp.float32)] * layers
    dims = {"batch/x": ("batch", "width"), "batch/y": ("batch", "width"), "params/*": ("width", "out")}
    return trace_training(loss, weights, {"x": examples, "y": examples}, optimizer=optax.sgd(0.1), dims=dims, name="stack")
