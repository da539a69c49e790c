"""What the scaling book and its like reckon with: hardware at its peak, one array, a layer of two or three matrices and nothing else.

Letters, as in the book: B tokens, D width of the stream, F width of the hidden layer; W_in [D, F], with a gate two of them, W_out [F, D].
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.hardware.catalogue import parse_hardware
from workbench.hardware.hardware import Hardware
from workbench.reports.report import Report
from workbench.tracing import trace

MATRICES = {"w_in": "D F", "w_gate": "D F", "w_out": "F D"}


def at_peak(text: str) -> Hardware:
    """As printed by the vendor: without the shares that are reached in practice, tiles to fill, and time between kernels."""
    hardware = parse_hardware(text)
    return replace(hardware, chip=replace(hardware.chip, efficiency={}, matmul_tile=(), array_tile=(), launch=0.0))


def of_shape(*sizes: int, dtype: Any = jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


@cache
def one_array(*sizes: int, dtype: Any = jnp.bfloat16) -> Program:
    """An array `a`, of dimensions i, j, ..., that is the result, too: what stands between two layouts of it is communication alone."""
    return trace(lambda a: a, of_shape(*sizes, dtype=dtype), dims={"a": " ".join("ijkl"[: len(sizes)])})


@cache
def summed_array(parts: int, *sizes: int) -> Program:
    """The sum of so many arrays, `parts` of dimension p: split over p, an unreduced array of the book, `a {U}`."""

    def add(parts: Any) -> Any:
        return jax.lax.reduce(parts, jnp.bfloat16(0), jax.lax.add, (0,))

    return trace(add, of_shape(parts, *sizes), dims={"parts": " ".join(["p", *"ijkl"[: len(sizes)]])})


def _mlp(params: Any, x: Any) -> Any:
    hidden = x @ params["w_in"]
    return (hidden * (x @ params["w_gate"]) if "w_gate" in params else hidden) @ params["w_out"]


def _params(D: int, F: int, *, gate: bool) -> dict[str, Any]:
    return {name: of_shape(*((D, F) if dims == "D F" else (F, D))) for name, dims in MATRICES.items() if gate or name != "w_gate"}


def _dims(*names: str, gate: bool = False) -> dict[str, str]:
    matrices = {f"params/{name}": dims for name, dims in MATRICES.items() if gate or name != "w_gate"}
    return {**matrices, **dict.fromkeys(names, "B D")}


@cache
def forward(B: int, D: int, F: int) -> Program:
    """Out [B, D] of x [B, D]."""
    return trace(_mlp, _params(D, F, gate=False), of_shape(B, D), dims=_dims("x"))


@cache
def layer(B: int, D: int, F: int, *, gate: bool = False, gathers_again: bool = False) -> Program:
    """Forward and backward pass of a layer, of `x` and `grad_out`: results are out, the gradients of the weights, and grad_x.

    With `gathers_again` the backward pass reads weights and x anew, and keeps the results of products alone, as the book's algorithms do.
    """
    policy = jax.checkpoint_policies.dots_saveable
    one = jax.checkpoint(_mlp, policy=policy) if gathers_again else _mlp

    def passes(params: Any, x: Any, grad_out: Any) -> Any:
        out, pull = jax.vjp(one, params, x)
        return out, *pull(grad_out)

    return trace(passes, _params(D, F, gate=gate), of_shape(B, D), of_shape(B, D), dims=_dims("x", "grad_out", gate=gate))


@cache
def backward(B: int, D: int, F: int) -> Program:
    """The backward pass alone, of what the forward pass kept, `x` and `hidden`: the gradients of the weights, and grad_x."""

    def passes(params: Any, x: Any, hidden: Any, grad_out: Any) -> Any:
        grad_hidden = grad_out @ params["w_out"].T
        return {"w_in": x.T @ grad_hidden, "w_out": hidden.T @ grad_out}, grad_hidden @ params["w_in"].T

    dims = {**_dims("x", "grad_out"), "hidden": "B F"}
    return trace(passes, _params(D, F, gate=False), of_shape(B, D), of_shape(B, F), of_shape(B, D), dims=dims)


def checkpointed(layers: int, B: int, D: int, widths: Sequence[int]) -> Program:
    """Layers of products to these widths and last to D, of which the results are kept for the backward pass, and nothing else."""

    def one(weights: Any, x: Any) -> Any:
        *wide, narrow = weights
        return jnp.concatenate([jnp.tanh(x @ each) for each in wide], -1) @ narrow

    keep = jax.checkpoint(one, policy=jax.checkpoint_policies.dots_saveable)

    def passes(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            y = x
            for weights in params:
                y = keep(weights, y)
            return y.astype(jnp.float32).sum()

        return jax.grad(loss)(params)

    weights = [*(of_shape(D, width) for width in widths), of_shape(sum(widths), D)]
    return trace(passes, [weights] * layers, of_shape(B, D), dims={"x": "B D"})


def math_seconds(report: Report) -> float:
    """Seconds of arithmetic of a plan's kernels on one device, the book's T_math, whatever their memory traffic takes."""
    return sum(each.arithmetic * each.count for each in report.kernel_costs)


def comms_seconds(report: Report, *axes: str) -> float:
    """Seconds of a plan's collectives, the book's T_comms; of those over these axes, if any are given."""
    return sum(each.seconds * each.count for each in report.collectives if not axes or each.axes == axes)
