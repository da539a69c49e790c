"""`from_flax`: programs of Flax models (Linen, NNX) and of Flax models of Transformers."""

from collections.abc import Callable, Mapping
from typing import Any

import jax

from workbench.adapters.nnx_model import nnx_parts, shapes_of, trace_nnx_step
from workbench.adapters.traced_model import (
    Dims,
    ModelParts,
    TraceOptions,
    call_loss,
    dims_text,
    key_spec,
    model_error,
    partition_dims,
    required,
    trace_model,
)
from workbench.core.program import Program, Reference
from workbench.errors import TraceError
from workbench.tracing.leaves import Leaves, path_of
from workbench.tracing.model_state import first_difference
from workbench.tracing.trace_function import guard_tracing, name_of


def from_flax(
    model: Any,
    loss: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    variables: Any = None,
    wrt: Any = None,
    rngs: tuple[str, ...] = ("dropout",),
    dims: Dims = None,
    name: str | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The training step of a Flax model by `loss(model, batch)`; without an `optimizer`, the program of that function.

        program = wb.from_flax(Encoder(), loss, batch, optimizer=optax.adamw(3e-4))                        # Linen
        program = wb.from_flax(lambda rngs: Encoder(rngs=rngs), loss, batch, optimizer=optax.adamw(3e-4))  # NNX
        program = wb.from_flax(make_model_and_optimizer, train_step, batch)                                # NNX, a custom step

    Linen: in the loss, `model(x, train=True)` applies the module with dropout keys and all mutable collections; changed
    collections are carried to the next step. The first call in `loss` determines the variables, unless `variables` has
    those of a trained model. `rngs` are the RNG streams besides `params`. A model of Transformers is passed unchanged
    (`_do_init=False`).

    NNX: `model` is a module, its shapes (`nnx.eval_shape`), or a function that makes it, for which nothing is
    allocated; batch statistics, counts and keys are carried. `wrt` selects the trained variables, by default
    `nnx.Param`. A tuple of objects, or a function that makes them, is for a custom step `step(model, optimizer,
    batch)`.

    Paths are `params/encoder/layers_0/attn/query/kernel`; `dims` as in `wb.trace_training`, in addition to names from
    the model itself (`nn.with_logical_partitioning`, `nnx.with_partitioning`). Raises `TraceError` if it cannot be
    traced, `AdapterError` for any other model.
    """
    required("flax", "flax", "wb.from_flax")
    from flax import linen, nnx

    options = TraceOptions(optimizer, dims, name, data, reference)
    if isinstance(model, linen.Module):
        return trace_model(linen_parts(model, loss, batch, variables, tuple(rngs)), loss, batch, options)
    if is_pretrained(model):
        return trace_model(pretrained_parts(model, variables), loss, batch, options)
    made = shapes_of(model) if callable(model) and not isinstance(model, nnx.Module) else model
    if isinstance(made, tuple | list):
        return trace_nnx_step(made, model, loss, batch, options)
    if isinstance(made, nnx.Module):
        return trace_model(nnx_parts(made, model, nnx.Param if wrt is None else wrt), loss, batch, options)
    raise model_error(made, "a module of Linen or NNX, or a function that makes one")


# Flax Linen: modules are functions of variables in collections. `params` is trained; any other collection is state.

KEY = "key"
_STREAM = 0x7FFFFFFE
"""Folded into the key for RNG streams without a key of their own."""


class LinenModel:
    """A module bound to its variables, applied with mutable collections, which it keeps, and dropout keys."""

    def __init__(self, module: Any, params: Any, state: Mapping[str, Any], streams: tuple[str, ...]) -> None:
        self._module, self._params, self._streams = module, params, streams
        self.state = dict(state)
        self._calls = 0

    def __call__(self, *args: Any, mutable: Any = None, rngs: Any = None, **kwargs: Any) -> Any:
        """Apply the module; with `mutable`, also return these collections, as in Linen."""
        collections = {name: tree for name, tree in self.state.items() if name != KEY}
        requested = [] if mutable is None else [mutable] if isinstance(mutable, str) else list(mutable)
        rngs = self._rngs() if rngs is None else rngs
        output, changed = self._module.apply(
            {"params": self._params, **collections}, *args, mutable=[*collections, *requested], rngs=rngs, **kwargs
        )
        self.state |= {name: changed[name] for name in collections if name in changed}
        return (output, {name: changed[name] for name in requested if name in changed}) if requested else output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def _rngs(self) -> dict[str, Any]:
        key = self.state.get(KEY)
        if key is None:
            return {}
        key = jax.random.fold_in(key, self._calls) if self._calls else key
        self._calls += 1
        return {**dict.fromkeys(self._streams, key), "params": jax.random.fold_in(key, _STREAM)}


class _NewLinenModel(LinenModel):
    """A module whose first call initialises its variables."""

    def __init__(self, module: Any, key: Any, streams: tuple[str, ...]) -> None:
        super().__init__(module, None, {KEY: key}, streams)
        self.boxed: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.boxed is not None:
            return super().__call__(*args, **kwargs)
        arguments = {name: value for name, value in kwargs.items() if name not in ("mutable", "rngs")}
        keys = dict(zip(("params", *self._streams), jax.random.split(self.state[KEY], 1 + len(self._streams)), strict=True))
        output, self.boxed = self._module.init_with_output(keys, *args, **arguments)
        variables = dict(_unbox(self.boxed))
        self._params = variables.pop("params", {})
        self.state |= variables
        return (output, {}) if kwargs.get("mutable") else output


def linen_parts(module: Any, loss: Any, batch: Any, variables: Any, streams: tuple[str, ...]) -> ModelParts:
    """The parts of a Linen module; without `variables`, its first call in `loss` initialises them."""
    batch = Leaves.of("batch", batch).tree()
    init = _Initializer(module, loss, batch, streams) if variables is None else None
    boxed = variables if init is None else guard_tracing(lambda: jax.eval_shape(init.boxed, key_spec()), name_of(loss))
    plain = dict(_unbox(boxed))
    params = plain.pop("params", {})
    state = _carried(module, loss, (params, plain, batch), streams) if plain else {}

    def bind(params: Any, state: Any) -> LinenModel:
        return LinenModel(module, params, state, streams)

    def make(key: Any) -> tuple[Any, dict[str, Any]]:
        assert init is not None, "undefined unless no variables were given"
        initial = dict(_unbox(init.boxed(key)))
        return initial["params"], {**{name: initial[name] for name in state}, KEY: jax.random.fold_in(key, _STREAM)}

    state_and_key = {**state, KEY: key_spec()}
    return ModelParts(params, state_and_key, bind, state_of, None if init is None else make, (KEY,), _stated_dims(boxed))


def state_of(model: LinenModel) -> dict[str, Any]:
    return model.state


def _carried(module: Any, loss: Any, given: tuple[Any, dict[str, Any], Any], streams: tuple[str, ...]) -> dict[str, Any]:
    """The collections whose shapes a call preserves. Sown collections grow with each call and are not carried."""
    params, state, batch = given

    def run(params: Any, state: Any, batch: Any, key: Any) -> Any:
        model = LinenModel(module, params, {**state, KEY: key}, streams)
        call_loss(loss, model, batch, key)
        return model.state

    specs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (params, state))
    after = guard_tracing(lambda: jax.eval_shape(run, *specs, batch, key_spec()), name_of(loss))
    return {name: tree for name, tree in state.items() if not first_difference(Leaves.of(name, specs[1][name]), after[name], name)}


class _Initializer:
    """Initialises the variables by calling the loss on zeros; the loss itself is discarded."""

    def __init__(self, module: Any, loss: Any, batch: Any, streams: tuple[str, ...]) -> None:
        self._module, self._loss, self._batch, self._streams = module, loss, batch, streams

    def boxed(self, key: Any) -> Any:
        """The variables in boxes with the names of their dimensions."""
        model = _NewLinenModel(self._module, key, self._streams)
        call_loss(self._loss, model, jax.tree.map(lambda spec: jax.numpy.zeros(spec.shape, spec.dtype), self._batch), key)
        if model.boxed is None:
            raise TraceError(f"`{name_of(self._loss)}` does not call the model it is given.", ["call it, `model(batch)`"])
        return model.boxed


def _unbox(variables: Any) -> Any:
    from flax.core import meta

    return meta.unbox(variables)


def _stated_dims(variables: Any) -> dict[str, str]:
    """Dimension names by path, without `nn.with_partitioning` names that are mesh axes."""
    from flax.core import meta
    from flax.linen import LogicallyPartitioned

    params = dict(variables).get("params", {})
    boxes, _ = jax.tree_util.tree_flatten_with_path(params, is_leaf=lambda leaf: isinstance(leaf, meta.AxisMetadata))
    named = {path_of("params", keys): box for keys, box in boxes if hasattr(box, "names")}
    logical = {path: dims_text(box.names) for path, box in named.items() if isinstance(box, LogicallyPartitioned)}
    stated = {path: (box.names, box.unbox().shape) for path, box in named.items() if path not in logical}
    return partition_dims(stated) | {path: words for path, words in logical.items() if words}


# Flax models of Transformers wrap a Linen module and are called with parameters: `model(ids, params=..., train=True)`.


class _PretrainedCall:
    """A Transformers model bound to its parameters, with a new dropout key for each training call."""

    def __init__(self, model: Any, params: Any, state: Any) -> None:
        self._model, self._params, self.state = model, params, state
        self._calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = self.state[KEY]
        key = jax.random.fold_in(key, self._calls) if self._calls and key is not None else key
        self._calls += 1
        dropout = {"dropout_rng": key} if kwargs.get("train") and key is not None else {}
        return self._model(*args, **{"params": self._params, **dropout, **kwargs})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def is_pretrained(model: Any) -> bool:
    """Whether a model is a Transformers model: it has a Linen module and the shapes of its parameters."""
    return hasattr(model, "module") and hasattr(model, "params_shape_tree")


def pretrained_parts(model: Any, params: Any) -> ModelParts:
    """The parts of a Transformers model; `params` are its weights, by default the loaded ones, else their shapes."""
    if params is None:
        params = getattr(model, "_params", None) or model.params_shape_tree
    params = params.get("params", params)

    def bind(params: Any, state: Any) -> _PretrainedCall:
        return _PretrainedCall(model, params, state)

    return ModelParts(jax.tree.map(lambda leaf: leaf, dict(params)), {KEY: key_spec()}, bind, lambda call: call.state, None, (KEY,))
