"""Keras models on JAX as functions of their variables; of what Keras allocates, shapes alone stay."""

from collections.abc import Callable
from typing import Any

import jax


def shapes_of(variables: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """By the paths that Keras gives them."""
    return {each.path: jax.ShapeDtypeStruct(tuple(each.shape), each.dtype) for each in variables}


def stateless(model: Any) -> Callable[[Any, Any, Any], Any]:
    """`call(params, state, inputs) -> outputs` of a built model, in training."""
    paths = [each.path for each in model.trainable_variables]
    others = [each.path for each in model.non_trainable_variables]

    def call(params: Any, state: Any, inputs: Any) -> Any:
        outputs, _ = model.stateless_call([params[path] for path in paths], [state[path] for path in others], inputs, training=True)
        return outputs

    return call
