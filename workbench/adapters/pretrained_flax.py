"""Models of Transformers in Flax: objects around a Linen module, called with their parameters, `model(ids, params=..., train=True)`."""

from typing import Any

import jax

from workbench.adapters.traced_model import ModelParts, key_spec

KEY = "key"


class _PretrainedCall:
    """The model with its parameters: each call that trains is given another key for dropout."""

    def __init__(self, model: Any, params: Any, state: Any) -> None:
        self._model, self._params, self.state = model, params, state
        self._calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = self.state[KEY]
        key = jax.random.fold_in(key, self._calls) if self._calls and key is not None else key
        self._calls += 1
        given = {"dropout_rng": key} if kwargs.get("train") and key is not None else {}
        return self._model(*args, **{"params": self._params, **given, **kwargs})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def is_pretrained(model: Any) -> bool:
    """Whether it is such an object: a Linen module with the shapes of its parameters."""
    return hasattr(model, "module") and hasattr(model, "params_shape_tree")


def pretrained_parts(model: Any, params: Any) -> ModelParts:
    """`params`: its weights; without them those of the model, if it was loaded with them, or their shapes."""
    if params is None:
        params = getattr(model, "_params", None) or model.params_shape_tree
    params = params.get("params", params)

    def bind(params: Any, state: Any) -> _PretrainedCall:
        return _PretrainedCall(model, params, state)

    return ModelParts(jax.tree.map(lambda leaf: leaf, dict(params)), {KEY: key_spec()}, bind, lambda call: call.state, None, (KEY,))
