"""Programs of a step of inference: those that read prompts, and those that make one token of each sequence."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from workbench.core.program import Program
from workbench.models.data import text
from workbench.tracing import trace_inference

Start = Callable[[Any], tuple[Any, Any]]
"""`start(key) -> (params, cache)`: what a live run begins with."""


def trace_prompt(step: Callable[..., Any], start: Start, *, batch: int, seq: int, dims: Mapping[str, str], name: str) -> Program:
    """The program of `step(params, cache, {"tokens": int32[batch, seq]})`; live runs read the bytes of `models.data.text`."""
    words = text.batches(batch, seq)
    return _trace(step, start, (batch, seq), "batch seq", dims, name, lambda number: words(number)["tokens"])


def trace_token(step: Callable[..., Any], start: Start, *, batch: int, dims: Mapping[str, str], name: str) -> Program:
    """The program of `step(params, cache, {"tokens": int32[batch]})`; live runs are given bytes of `models.data.text`, whatever the model
    would have written."""
    words = text.batches(batch, 1)
    return _trace(step, start, (batch,), "batch", dims, name, lambda number: words(number)["tokens"][:, 0])


def _trace(
    step: Callable[..., Any],
    start: Start,
    shape: tuple[int, ...],
    names: str,
    dims: Mapping[str, str],
    title: str,
    tokens: Callable[[int], Any],
) -> Program:
    params, cache = jax.eval_shape(lambda: start(jax.random.key(0)))  # a key made outside would wake the devices
    return trace_inference(
        step,
        params,
        cache,
        {"tokens": jax.ShapeDtypeStruct(shape, jnp.int32)},
        dims={"batch/tokens": names, **dims},
        name=title,
        init=start,
        data=lambda number: {"tokens": tokens(number)},
    )
