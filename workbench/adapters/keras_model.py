"""`from_keras`: models of Keras 3 on JAX, as functions of their variables (`stateless_call`), by a loss or by their own `train_step`."""

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
"""Where Keras has the variables of each kind; those of its `train_step` are in this order, but for the last two."""
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
        program = wb.from_keras(make_compiled_model, None, (x, y))          # its own loss and optimiser, as in `model.fit`

    `model` is a model that is built, or a function that makes one, of which nothing is allocated. In the loss, `model(x, training=True)` is
    `stateless_call`; what it changes of the variables that are not trained (running statistics, seeds) goes into the next step. With
    `loss=None` it is the `train_step` of a model that was compiled, its metrics among the results.

    Paths are those of Keras, `params/dense/kernel`. Raises `TraceError` if it cannot be traced, `AdapterError` for anything but a model on
    JAX.
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
            f"Keras runs on {backend} here; the workbench plans programs of JAX.",
            ["set KERAS_BACKEND=jax before Keras is imported", '`{"backend": "jax"}` in ~/.keras/keras.json'],
        )


class _KerasSource:
    """A model, or the function that makes it. Of a function nothing but itself is sent to another process, which makes the model again."""

    def __init__(self, model: Any, loss: Any, batch: Any) -> None:
        self._given, self._loss, self._batch = model, loss, batch
        self._made: Any = None
        self.is_made_here = callable(model) and not hasattr(model, "trainable_variables")

    def __reduce__(self) -> tuple[Any, ...]:
        return _KerasSource, (self._given, self._loss, self._batch)

    @property
    def model(self) -> Any:
        """The model; one that was made here has no values, only shapes. Raises `AdapterError` for a model that is not built."""
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
        """A new model with all its variables; the same values each time, whatever seeds were drawn before."""
        before = random.getstate()
        random.seed(0)
        try:
            model = self._given()
            _verify_model(model)
            self._finish(model)
        finally:
            random.setstate(before)
        return model

    def _finish(self, model: Any) -> None:
        """Makes the variables that Keras would make in the first step."""
        zeros = jax.tree.map(lambda spec: jax.numpy.zeros(spec.shape, spec.dtype), self._batch)
        if self._loss is None:
            _verify_compiled(model)
            model._symbolic_build(data_batch=zeros)  # noqa: SLF001 - what `fit` calls first
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
    """A model with the values of its variables: `model(x, training=True)` keeps what the call changes for the next one."""

    def __init__(self, model: Any, params: Sequence[Any], state: Sequence[Any]) -> None:
        self._model, self._params, self.state = model, list(params), list(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outputs, self.state = self._model.stateless_call(self._params, self.state, *args, **kwargs)
        return outputs

    def value(self, variable: Any) -> Any:
        """What a variable of the model is now, `model.value(model.token_embedding.embeddings)`."""
        known = zip((*self._model.trainable_variables, *self._model.non_trainable_variables), (*self._params, *self.state), strict=True)
        return next(value for each, value in known if each is variable)

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
        made = source.make()
        return tuple(dict(zip(names[kind], [each.value for each in _variables(made, kind)], strict=True)) for kind in ("params", "state"))

    params, state = (_by_name(model, kind, abstract=source.is_made_here) for kind in ("params", "state"))
    return ModelParts(params, state, bind, unbind, init if source.is_made_here else None)


def _trace_own_step(source: _KerasSource, batch: Any, options: TraceOptions) -> Program:
    """Keras's own `train_step`, a function of the values of all variables."""
    model = source.model
    counts = [len(_variables(model, kind)) for kind in KINDS]

    def split(leaves: Sequence[Any]) -> tuple[list[Any], ...]:
        rest = iter(leaves)
        return tuple([next(rest) for _ in range(count)] for count in counts)

    def step(values: Any, batch: Any) -> Any:
        logs, after = source.model.train_step(values, batch)
        return [each for values in after for each in values], logs

    def init(_key: Any) -> Any:
        made = source.make()
        return [each.value for kind in KINDS for each in _variables(made, kind)]

    named = {f"{kind}/{name}": each for kind in KINDS for name, each in _by_name(model, kind, abstract=source.is_made_here).items()}
    found = ObjectStep([*named], [*named.values()], split, step, init if source.is_made_here else None)
    return trace_objects(found, batch, replace(options, name=options.name or model.name))


def _variables(model: Any, kind: str) -> list[Any]:
    found = model
    for word in KINDS[kind].split("."):
        found = getattr(found, word)
    return list(found)


def _names(model: Any, kind: str) -> list[str]:
    """Keras's paths without names that are numbered by what was made before in this process: the model's, the optimiser's, those of seeds.
    A moment is called after its parameter, `momentum/dense/kernel`. Where two are equal, the later ones are numbered."""
    variables = _variables(model, kind)
    owners = {each.path.replace("/", "_"): each.path for each in model.trainable_variables} if kind == "opt_state" else {}
    root = model.optimizer.name if kind == "opt_state" else model.name
    found: list[str] = []
    for each in variables:
        owner = max((slug for slug in owners if each.name.startswith(f"{slug}_")), key=len, default="")
        path = str(each.path) if not owner else f"{each.name.removeprefix(f'{owner}_')}/{owners[owner].removeprefix(f'{model.name}/')}"
        path = _SEEDS.sub("seed_generator/", path.removeprefix(f"{root}/"))
        candidates = (path, *(f"{path}_{number}" for number in range(1, len(variables) + 1)))
        found.append(next(name for name in candidates if name not in found))
    return found


def _by_name(model: Any, kind: str, *, abstract: bool) -> dict[str, Any]:
    values = [jax.ShapeDtypeStruct(tuple(each.shape), each.dtype) if abstract else each.value for each in _variables(model, kind)]
    return dict(zip(_names(model, kind), values, strict=True))
