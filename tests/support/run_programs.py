"""Small programs that really run."""

import jax.numpy as jnp
import numpy as np
import optax

from workbench.public_plan import Plan
from workbench.tracing import trace_training

MESH = "data:4 model:2"
LAYOUT = "batch:data; d_ff:model"


def loss(params, batch):
    hidden = jnp.tanh(batch["x"] @ params["w1"])
    return jnp.mean(jnp.square(hidden @ params["w2"] - batch["y"]))


def weights(d_model=16, d_ff=32):
    random = np.random.default_rng(0)
    return {
        "w1": random.normal(size=(d_model, d_ff), scale=0.2).astype(np.float32),
        "w2": random.normal(size=(d_ff, d_model), scale=0.2).astype(np.float32),
    }


def batch_of(step, batch=16, d_model=16):
    x = np.random.default_rng(step).normal(size=(batch, d_model)).astype(np.float32)
    return {"x": x, "y": np.roll(x, 1, axis=1)}


def mlp(**options):
    """A training step of two layers whose parameters are given as arrays."""
    options = {"optimizer": optax.adam(1e-2), "data": batch_of, **options}
    dims = {"w1": "d_model d_ff", "w2": "d_ff d_model", "batch/*": "batch d_model"}
    return trace_training(options.pop("loss", loss), weights(), batch_of(0), dims=dims, name="mlp", **options)


def plan(layout=LAYOUT, mesh=MESH, **options):
    return Plan(mlp(**options), mesh, layout)
