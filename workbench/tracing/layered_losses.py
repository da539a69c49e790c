"""Losses made of layers: a sequence of functions, or one function scanned over stacked weights. Both can be partitioned at any layer.

loss = wb.sequential_loss([embed, block, block, head], final=cross_entropy)     # layer(weights, x) -> x
loss = wb.scanned_loss(block, final=cross_entropy)                              # params["layers"]: weights stacked, [layers, ...]
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from workbench.errors import PipelineError

LayerFunction = Callable[[Any, Any], Any]
Loss = Callable[[Any, Any], Any]


def sequential_loss(layers: Sequence[LayerFunction], final: Callable[[Any, Any], Any], names: Sequence[str] = ()) -> Loss:
    """`loss(params, batch)` of layers one after the other.

    `params` is a sequence, the weights of each layer; `batch["x"]` goes into the first layer, and `final(x, batch)`
    computes the loss from the last layer's result (any pytree in between). Raises `PipelineError`, when traced, for a
    layer that is not a pure function.
    """
    if not layers:
        raise PipelineError("The list of layers is empty.", ["pass at least one layer"])
    titles = tuple(names) or tuple(f"layers/{number}" for number in range(len(layers)))

    def loss(params: Any, batch: Any) -> Any:
        if len(params) != len(layers):
            raise PipelineError(f"There are {len(layers)} layers and the weights of {len(params)}.", ["pass the weights of each layer"])
        x = batch["x"]
        for layer, weights, title in zip(layers, params, titles, strict=True):
            verify_pure(layer, title, weights, x)
            with jax.named_scope(title):
                x = layer(weights, x)
        with jax.named_scope("final"):
            return final(x, batch)

    return loss


def scanned_loss(layer: LayerFunction, final: Callable[[Any, Any], Any]) -> Loss:
    """`loss(params, batch)` of equal layers whose weights are stacked in `params["layers"]`, `[layers, ...]`.

    Otherwise as `sequential_loss`. Tracing raises `PipelineError` if a layer's output does not have the shape of its input.
    """

    def loss(params: Any, batch: Any) -> Any:
        stacked = params["layers"]
        _verify_carried(layer, jax.tree.map(lambda leaf: leaf[0], stacked), batch["x"])
        with jax.named_scope("layers"):
            x, _ = jax.lax.scan(lambda x, weights: (layer(weights, x), None), batch["x"], stacked)
        with jax.named_scope("final"):
            return final(x, batch)

    return loss


def verify_pure(layer: LayerFunction, title: str, weights: Any, x: Any) -> None:
    """Raise `PipelineError` for a layer with side effects or state, or whose traces differ."""
    specs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (weights, x))
    name = getattr(layer, "__name__", type(layer).__name__)
    ways_out = ["pass its inputs as weights or input, and return its outputs", "give it a random key in its input"]
    keeps = f"Layer `{title}` ({name}) keeps state between calls, or reads a value outside its arguments."
    try:
        first, second = (jax.make_jaxpr(partial(layer))(*specs) for _ in range(2))  # `partial` avoids JAX's trace cache
    except jax.errors.UnexpectedTracerError as error:
        raise PipelineError(keeps, ways_out) from error
    if first.effects:
        raise PipelineError(f"Layer `{title}` ({name}) has side effects ({', '.join(map(str, first.effects))}).", ways_out)
    if any(isinstance(const, jax.core.Tracer) for const in (*first.consts, *second.consts)):
        raise PipelineError(keeps, ways_out)
    if str(first) != str(second):
        raise PipelineError(
            f"Layer `{title}` ({name}) gives different results for the same arguments: it is not a pure function.", ways_out
        )


def _verify_carried(layer: LayerFunction, weights: Any, x: Any) -> None:
    input_text, output_text = _spec_text(x), _spec_text(jax.eval_shape(layer, weights, x))
    if input_text != output_text:
        raise PipelineError(
            f"A scanned layer must return its input shape and type; this one takes {input_text} and returns {output_text}.",
            ["project back to the shape it was given", "use `sequential_loss`, whose layers may differ"],
        )


def _spec_text(tree: Any) -> str:
    return ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree))
