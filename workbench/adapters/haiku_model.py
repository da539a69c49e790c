"""`from_haiku`: programs of functions transformed by Haiku, with or without state and random keys."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax

from workbench.adapters.traced_model import AdapterError, Dims, ModelParts, TraceOptions, call_loss, key_spec, required, trace_model
from workbench.core.program import Program, Reference
from workbench.errors import TraceError, wrong_type
from workbench.tracing.leaves import Leaves
from workbench.tracing.trace_function import guard_tracing, name_of

KEY, STATE = "key", "model"


def from_haiku(
    model: Any,
    loss: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    params: Any = None,
    state: Any = None,
    dims: Dims = None,
    name: str | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The training step of a Haiku model by `loss(model, batch)`; without an `optimizer`, the program of that function.

        program = wb.from_haiku(forward, loss, batch, optimizer=optax.adam(1e-3))

    `model` is a function that uses modules, or the result of `hk.transform`, `hk.transform_with_state` or
    `hk.without_apply_rng`. In the loss, `model(x)` applies it, with a key if it uses random numbers; its state is
    carried to the next step. The first call in `loss` determines the parameters without allocating them, unless
    `params` and `state` have those of a trained model.

    Paths are `params/mlp/~/linear_0/w`. A custom step on parameter trees is for `wb.trace_step`. Raises `TraceError` if
    it cannot be traced, `AdapterError` if `model` is not a function.
    """
    hk = required("haiku", "dm-haiku", "wb.from_haiku")
    if not isinstance(model, hk.Transformed | hk.TransformedWithState):
        if not callable(model):
            raise AdapterError(
                wrong_type("model", model, "a function that Haiku transforms, or has transformed"),
                ["give the function with its modules in it"],
            )
        model = hk.transform_with_state(model)
    parts = _parts(_Transformed(model), loss, batch, params, state)
    return trace_model(parts, loss, batch, TraceOptions(optimizer, dims, name, data, reference))


class _Transformed:
    """Uniform interface to Haiku's transformed functions."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.has_state = hasattr(model, "_fields") and type(model).__name__ == "TransformedWithState"
        leading = list(inspect.signature(model.apply).parameters)[: 2 + self.has_state]
        self.has_key = leading[-1:] == ["rng"]

    def init(self, key: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        initial = self.model.init(key, *args, **kwargs)
        return initial if self.has_state else (initial, {})

    def apply(self, params: Any, state: Any, key: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        leading = (params, *([state] if self.has_state else []), *([key] if self.has_key else []))
        result = self.model.apply(*leading, *args, **kwargs)
        return result if self.has_state else (result, state)


class HaikuModel:
    """A transformed function bound to its parameters and state; without parameters, the first call initialises them."""

    def __init__(self, transformed: _Transformed, params: Any, state: Any, key: Any) -> None:
        self._transformed, self.params, self.state, self.key = transformed, params, state, key
        self._calls, self.first_state = 0, state

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.params is None:
            self.params, self.state = self._transformed.init(self.key, *args, **kwargs)
            self.first_state = self.state
        key = jax.random.fold_in(self.key, self._calls) if self._calls and self.key is not None else self.key
        self._calls += 1
        output, self.state = self._transformed.apply(self.params, self.state, key, *args, **kwargs)
        return output


def _parts(transformed: _Transformed, loss: Any, batch: Any, params: Any, state: Any) -> ModelParts:
    batch = Leaves.of("batch", batch).tree()

    def bind(params: Any, given: Mapping[str, Any]) -> HaikuModel:
        return HaikuModel(transformed, params, given[STATE], given[KEY])

    def unbind(model: HaikuModel) -> dict[str, Any]:
        return {STATE: model.state, KEY: model.key}

    def make(key: Any) -> Any:
        model = HaikuModel(transformed, None, None, key)
        call_loss(loss, model, jax.tree.map(lambda spec: jax.numpy.zeros(spec.shape, spec.dtype), batch), key)
        if model.params is None:
            raise TraceError(f"`{name_of(loss)}` does not call the model it is given.", ["call it, `model(batch)`"])
        return model.params, {STATE: model.first_state, KEY: jax.random.fold_in(key, 1)}

    init = make if params is None else None
    if init is not None:
        params, initial = guard_tracing(lambda: jax.eval_shape(make, key_spec()), name_of(loss))
        state = initial[STATE]
    return ModelParts(params, {STATE: state or {}, KEY: key_spec()}, bind, unbind, init, (KEY,))
