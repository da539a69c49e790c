"""`from_keras`: programs of Keras 3 models on JAX (`stateless_call`), by a loss or by the model's `train_step`."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax

from workbench.adapters.traced_model import AdapterError, Dims, ModelParts, TraceOptions, model_error, required, trace_model
from workbench.adapters.traced_objects import ObjectStep, trace_objects
from workbench.core.program import Program, Reference
from workbench.tracing.leaves import Leaves
from workbench.tracing.trace_function import guard_tracing

KINDS = {
    "params": "trainable_variables",
    "state": "non_trainable_variables",
    "opt_state": "optimizer.variables",
    "metrics": "metrics_variables",
}
"""Attributes with the variables of each kind, in the order of the values of `train_step`."""
_SEEDS = re.compile(r"^seed_generator_\d+/")


def from_keras(
    model: Any,
    loss: Callable[..., Any] | None,
    batch: Any,
    *,
    optimizer: Any = None,
    dims: Dims = None,
    name: str | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The training step of a Keras model by `loss(model, batch)`; without an `optimizer`, the program of that function.

        program = wb.from_keras(make_model, loss, batch, optimizer=optax.adam(1e-3))
        program = wb.from_keras(make_compiled_model, None, (x, y))          # its own loss and optimizer, as in `model.fit`

    `model` is a built model, or a function that makes one, for which nothing is allocated. In the loss, `model(x,
    training=True)` is `stateless_call`; changed non-trainable variables (running statistics, seeds) are carried to the
    next step. With `loss=None` the step is the `train_step` of a compiled model, with its metrics among the results.

    Paths are those of Keras, `params/dense/kernel`. Raises `TraceError` if it cannot be traced, `AdapterError` if
    `model` is not a Keras model on JAX.
    """
    keras = required("keras", "keras", "wb.from_keras")
    _verify_backend(keras)
    source = _KerasSource(model, loss, Leaves.of("batch", batch).tree())
    options = TraceOptions(optimizer, dims, name, data, reference)
    if loss is None:
        return _trace_own_step(source, batch, options)
    return trace_model(_parts(source), loss, batch, options)


def _verify_backend(keras: Any) -> None:
    if (backend := keras.backend.backend()) != "jax":
        raise AdapterError(
            f"Keras uses the {backend} backend here; the workbench plans JAX programs.",
            ["set KERAS_BACKEND=jax before Keras is imported", '`{"backend": "jax"}` in ~/.keras/keras.json'],
        )


class _KerasSource:
    """A model, or the function that makes it, which other processes call again."""

    def __init__(self, model: Any, loss: Any, batch: Any) -> None:
        self._given, self._loss, self._batch = model, loss, batch
        self._made: Any = None
        self.is_made_here = callable(model) and not hasattr(model, "trainable_variables")

    def __reduce__(self) -> tuple[Any, ...]:
        return _KerasSource, (self._given, self._loss, self._batch)

    @property
    def model(self) -> Any:
        """The model; one made by the function has only shapes. Raises `AdapterError` if the model is not built."""
        if self._made is None:
            self._made = self._make_shapes() if self.is_made_here else _verified(self._given)
            if not self.is_made_here and self._loss is None:
                self._finish(self._made)
        return self._made

    def _make_shapes(self) -> Any:
        made: list[Any] = []
        guard_tracing(lambda: jax.eval_shape(lambda: made.append(self.make())), "the function that makes the Keras model")
        return made[0]

    def make(self) -> Any:
        """A new model with all its variables, with the same values each time, regardless of earlier seeds."""
        random_state = random.getstate()
        random.seed(0)
        try:
            model = self._given()
            _verify_model(model)
            self._finish(model)
        finally:
            random.setstate(random_state)
        return model

    def _finish(self, model: Any) -> None:
        """Create the variables that Keras creates in the first step."""
        zeros = jax.tree.map(lambda spec: jax.numpy.zeros(spec.shape, spec.dtype), self._batch)
        if self._loss is None:
            _verify_compiled(model)
            model._symbolic_build(data_batch=zeros)  # noqa: SLF001 - `fit` calls this first
        elif not model.built:
            self._loss(model, zeros)


def _verify_model(model: Any) -> None:
    if not hasattr(model, "trainable_variables") or not hasattr(model, "stateless_call"):
        raise model_error(model, "a model or a layer of Keras 3, or a function that makes one")


def _verify_compiled(model: Any) -> None:
    if not getattr(model, "compiled", False):
        raise AdapterError(
            f"The Keras model `{model.name}` has no loss: it was not compiled.", ["call `model.compile(...)`", "give a loss"]
        )


def _verified(model: Any) -> Any:
    _verify_model(model)
    if not model.built:
        raise AdapterError(
            f"The Keras model `{model.name}` has no variables yet: it was not built.",
            ["build it, `model.build(shape)`, or call it once", "give a function that makes it: nothing is allocated then"],
        )
    return model


class KerasModel:
    """A model bound to the values of its variables; `model(x, training=True)` keeps changed values for the next call."""

    def __init__(self, model: Any, params: Sequence[Any], state: Sequence[Any]) -> None:
        self._model, self._params, self.state = model, list(params), list(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outputs, self.state = self._model.stateless_call(self._params, self.state, *args, **kwargs)
        return outputs

    def value(self, variable: Any) -> Any:
        """The current value of a variable, as in `model.value(model.token_embedding.embeddings)`."""
        variables = zip((*self._model.trainable_variables, *self._model.non_trainable_variables), (*self._params, *self.state), strict=True)
        return next(value for candidate, value in variables if candidate is variable)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _parts(source: _KerasSource) -> ModelParts:
    model = source.model
    names = {kind: _names(model, kind) for kind in ("params", "state")}

    def bind(params: Any, state: Any) -> KerasModel:
        values = ([tree[name] for name in names[kind]] for kind, tree in (("params", params), ("state", state)))
        return KerasModel(source.model, *values)

    def unbind(model: KerasModel) -> dict[str, Any]:
        return dict(zip(names["state"], model.state, strict=True))

    def init(_key: Any) -> Any:
        built = source.make()
        return tuple(dict(zip(names[kind], [var.value for var in _variables(built, kind)], strict=True)) for kind in ("params", "state"))

    params, state = (_by_name(model, kind, abstract=source.is_made_here) for kind in ("params", "state"))
    return ModelParts(params, state, bind, unbind, init if source.is_made_here else None)


def _trace_own_step(source: _KerasSource, batch: Any, options: TraceOptions) -> Program:
    model = source.model
    counts = [len(_variables(model, kind)) for kind in KINDS]

    def split(leaves: Sequence[Any]) -> tuple[list[Any], ...]:
        rest = iter(leaves)
        return tuple([next(rest) for _ in range(count)] for count in counts)

    def step(values: Any, batch: Any) -> Any:
        logs, after = source.model.train_step(values, batch)
        return [each for values in after for each in values], logs

    def init(_key: Any) -> Any:
        built = source.make()
        return [each.value for kind in KINDS for each in _variables(built, kind)]

    named = {f"{kind}/{name}": each for kind in KINDS for name, each in _by_name(model, kind, abstract=source.is_made_here).items()}
    object_step = ObjectStep([*named], [*named.values()], split, step, init if source.is_made_here else None)
    return trace_objects(object_step, batch, replace(options, name=options.name or model.name))


def _variables(model: Any, kind: str) -> list[Any]:
    variables = model
    for word in KINDS[kind].split("."):
        variables = getattr(variables, word)
    return list(variables)


def _names(model: Any, kind: str) -> list[str]:
    """Keras's paths without process-wide numbered names (model, optimizer, seeds); moments are `momentum/dense/kernel`."""
    variables = _variables(model, kind)
    owners = {var.path.replace("/", "_"): var.path for var in model.trainable_variables} if kind == "opt_state" else {}
    root = model.optimizer.name if kind == "opt_state" else model.name
    names: list[str] = []
    for var in variables:
        owner = max((slug for slug in owners if var.name.startswith(f"{slug}_")), key=len, default="")
        path = str(var.path) if not owner else f"{var.name.removeprefix(f'{owner}_')}/{owners[owner].removeprefix(f'{model.name}/')}"
        path = _SEEDS.sub("seed_generator/", path.removeprefix(f"{root}/"))
        candidates = (path, *(f"{path}_{number}" for number in range(1, len(variables) + 1)))
        names.append(next(name for name in candidates if name not in names))
    return names


def _by_name(model: Any, kind: str, *, abstract: bool) -> dict[str, Any]:
    values = [jax.ShapeDtypeStruct(tuple(var.shape), var.dtype) if abstract else var.value for var in _variables(model, kind)]
    return dict(zip(_names(model, kind), values, strict=True))
