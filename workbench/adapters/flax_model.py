"""`from_flax`: models of Flax, of Linen or NNX, and those of Transformers that are made of them."""

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
        program = wb.from_flax(make_model_and_optimizer, train_step, batch)                                # NNX, a step of one's own

    **Linen:** in the loss, `model(x, train=True)` applies the module, with dropout keys and all collections it changes; what it changes
    goes into the next step. What `loss` first calls it with says which variables there are; `variables` gives those of a trained model.
    `rngs` are the streams of random numbers besides `params`. A model of Transformers is given as it is (`_do_init=False`).
    **NNX:** a module, its shapes (`nnx.eval_shape`), or a function that makes it, which allocates nothing; batch statistics, counts and
    keys are carried. `wrt` says which variables are trained, `nnx.Param` if nothing else. Several objects in a tuple, or a function that
    makes them, are for a step `step(model, optimizer, batch)`.

    Paths are `params/encoder/layers_0/attn/query/kernel`; `dims` as in `wb.trace_training`, besides names that the model states itself
    (`nn.with_logical_partitioning`, `nnx.with_partitioning`). Raises `TraceError` if it cannot be traced, `AdapterError` for anything else.
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


# Modules of Flax Linen: functions of variables in collections. `params` is what is trained; any other collection is state.

KEY = "key"
_STREAM = 0x7FFFFFFE
"""Folded into the key for streams of random numbers that have no key of their own."""


class LinenModel:
    """A module with its variables: `model(x, train=True)` is `module.apply(variables, x, train=True)` with the collections that it changes
    and keys for its dropout; what it changed is kept for the next call, and for the next step."""

    def __init__(self, module: Any, params: Any, state: Mapping[str, Any], streams: tuple[str, ...]) -> None:
        self._module, self._params, self._streams = module, params, streams
        self.state = dict(state)
        self._calls = 0

    def __call__(self, *args: Any, mutable: Any = None, rngs: Any = None, **kwargs: Any) -> Any:
        """With `mutable`, a list of collections, it returns its output and these, as in Linen."""
        collections = {name: tree for name, tree in self.state.items() if name != KEY}
        asked = [] if mutable is None else [mutable] if isinstance(mutable, str) else list(mutable)
        rngs = self._rngs() if rngs is None else rngs
        found, changed = self._module.apply(
            {"params": self._params, **collections}, *args, mutable=[*collections, *asked], rngs=rngs, **kwargs
        )
        self.state |= {name: changed[name] for name in collections if name in changed}
        return (found, {name: changed[name] for name in asked if name in changed}) if asked else found

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
    """One without variables yet: its first call makes them."""

    def __init__(self, module: Any, key: Any, streams: tuple[str, ...]) -> None:
        super().__init__(module, None, {KEY: key}, streams)
        self.boxed: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.boxed is not None:
            return super().__call__(*args, **kwargs)
        given = {name: value for name, value in kwargs.items() if name not in ("mutable", "rngs")}
        keys = dict(zip(("params", *self._streams), jax.random.split(self.state[KEY], 1 + len(self._streams)), strict=True))
        output, self.boxed = self._module.init_with_output(keys, *args, **given)
        variables = dict(_unbox(self.boxed))
        self._params = variables.pop("params", {})
        self.state |= variables
        return (output, {}) if kwargs.get("mutable") else output


def linen_parts(module: Any, loss: Any, batch: Any, variables: Any, streams: tuple[str, ...]) -> ModelParts:
    """`variables`: those of a trained model, arrays or shapes; without them the first call of the module in `loss` says which there are."""
    batch = Leaves.of("batch", batch).tree()
    init = _Initializer(module, loss, batch, streams) if variables is None else None
    boxed = variables if init is None else guard_tracing(lambda: jax.eval_shape(init.boxed, key_spec()), name_of(loss))
    plain = dict(_unbox(boxed))
    params = plain.pop("params", {})
    state = _carried(module, loss, (params, plain, batch), streams) if plain else {}

    def bind(params: Any, state: Any) -> LinenModel:
        return LinenModel(module, params, state, streams)

    def make(key: Any) -> tuple[Any, dict[str, Any]]:
        assert init is not None, "asked where no variables were given"
        made = dict(_unbox(init.boxed(key)))
        return made["params"], {**{name: made[name] for name in state}, KEY: jax.random.fold_in(key, _STREAM)}

    keyed = {**state, KEY: key_spec()}
    return ModelParts(params, keyed, bind, state_of, None if init is None else make, (KEY,), _stated_dims(boxed))


def state_of(model: LinenModel) -> dict[str, Any]:
    return model.state


def _carried(module: Any, loss: Any, given: tuple[Any, dict[str, Any], Any], streams: tuple[str, ...]) -> dict[str, Any]:
    """The collections that are after a call what they were before, in shape. What is sown grows with each call: it is not carried."""
    params, state, batch = given

    def run(params: Any, state: Any, batch: Any, key: Any) -> Any:
        model = LinenModel(module, params, {**state, KEY: key}, streams)
        call_loss(loss, model, batch, key)
        return model.state

    specs = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (params, state))
    after = guard_tracing(lambda: jax.eval_shape(run, *specs, batch, key_spec()), name_of(loss))
    return {name: tree for name, tree in state.items() if not first_difference(Leaves.of(name, specs[1][name]), after[name], name)}


class _Initializer:
    """Makes the variables, by the loss called on zeros: what it computes of them is thrown away."""

    def __init__(self, module: Any, loss: Any, batch: Any, streams: tuple[str, ...]) -> None:
        self._module, self._loss, self._batch, self._streams = module, loss, batch, streams

    def boxed(self, key: Any) -> Any:
        """The variables, with the names of dimensions that their makers have put around them."""
        model = _NewLinenModel(self._module, key, self._streams)
        call_loss(self._loss, model, jax.tree.map(lambda spec: jax.numpy.zeros(spec.shape, spec.dtype), self._batch), key)
        if model.boxed is None:
            raise TraceError(f"`{name_of(self._loss)}` does not call the model it is given.", ["call it, `model(batch)`"])
        return model.boxed


def _unbox(variables: Any) -> Any:
    from flax.core import meta

    return meta.unbox(variables)


def _stated_dims(variables: Any) -> dict[str, str]:
    """The names that `nn.with_logical_partitioning` has put around parameters, by path, and those of `nn.with_partitioning` that do not
    read as mesh axes."""
    from flax.core import meta
    from flax.linen import LogicallyPartitioned

    params = dict(variables).get("params", {})
    boxes, _ = jax.tree_util.tree_flatten_with_path(params, is_leaf=lambda leaf: isinstance(leaf, meta.AxisMetadata))
    named = {path_of("params", keys): box for keys, box in boxes if hasattr(box, "names")}
    logical = {path: dims_text(box.names) for path, box in named.items() if isinstance(box, LogicallyPartitioned)}
    stated = {path: (box.names, box.unbox().shape) for path, box in named.items() if path not in logical}
    return partition_dims(stated) | {path: words for path, words in logical.items() if words}


# Models of Transformers in Flax: objects around a Linen module, called with their parameters, `model(ids, params=..., train=True)`.


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
