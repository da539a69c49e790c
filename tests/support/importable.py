"""Functions that plan documents of the tests name."""

import jax
import jax.numpy as jnp
import optax

import workbench as wb
from tests.support import programs
from workbench.core.program import Program


def mlp() -> Program:
    return programs.mlp()


def regression(width: int = 16) -> wb.Program:
    """A small training step whose parameters are real arrays from the start."""

    def loss(params, batch):
        with jax.named_scope("mlp"):
            hidden = jnp.tanh(batch["x"] @ params["w1"])
            out = hidden @ params["w2"]
        return jnp.mean((out - batch["y"]) ** 2)

    keys = jax.random.split(jax.random.key(1), 4)
    params = {"w1": jax.random.normal(keys[0], (8, width)), "w2": jax.random.normal(keys[1], (width, 4))}
    batch = {"x": jax.random.normal(keys[2], (32, 8)), "y": jax.random.normal(keys[3], (32, 4))}
    dims = {"w1": "d_in d_ff", "w2": "d_ff d_out", "batch/x": "batch d_in"}
    return wb.trace_training(loss, params, batch, optimizer=optax.adam(1e-2), dims=dims, name="regression")


def forward() -> wb.Program:
    """A function without state and without a loss."""
    return wb.trace(
        lambda x, w: jnp.tanh(x @ w), jnp.ones((8, 4)), jnp.ones((4, 2)), dims={"x": "batch d_in", "w": "d_in d_out"}, name="forward"
    )


def breaks(**_: object) -> Program:
    raise KeyError("no such layer")


def returns_a_list() -> Program:
    return [mlp()]  # type: ignore[return-value]


def does_not_say() -> None:
    raise AssertionError("a document must not be able to call this")


NOT_A_FUNCTION = 3
