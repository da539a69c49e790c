"""Programs of models split into pytrees of parameters and state, with the model rebuilt for the user's loss."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
from jax.interpreters import partial_eval

from workbench.core.installation import install_command
from workbench.core.path_patterns import match_patterns
from workbench.core.program import Program, Reference
from workbench.errors import TraceError, WorkbenchError, wrong_type
from workbench.recipes.naming_conventions import MESH_AXES
from workbench.tracing import trace, trace_training
from workbench.tracing.leaves import Leaves
from workbench.tracing.trace_function import guard_tracing, name_of, verify_callable, zeros_like

Dims = Mapping[str, Any] | None
_SMALL = 1 << 16  # elements
NEXT_KEY = 0x7FFFFFFF
"""Folded into a key to derive the next step's key; no draw of a step uses this number."""


@dataclass(frozen=True, slots=True)
class ModelParts:
    """A model as split by an adapter.

    - `params`, `state`: pytrees of arrays or `jax.ShapeDtypeStruct`s; `state` is a mapping, which may be empty;
    - `bind(params, state)`: the model as passed to the user's loss; `unbind(model)`: its state after the loss;
    - `init(key)`: initial `(params, state)` for a run if only shapes are known, else `None`;
    - `keys`: the entries of `state` that are random keys which the adapter renews each step;
    - `dims`: dimension names that the model itself states, by path;
    - `scopes(model)`: the context in which the loss is called, for frameworks that do not name scopes.
    """

    params: Any
    state: Mapping[str, Any]
    bind: Callable[[Any, Any], Any]
    unbind: Callable[[Any], Any]
    init: Callable[[Any], Any] | None = None
    keys: tuple[str, ...] = ()
    dims: dict[str, str] = field(default_factory=dict)
    scopes: Callable[[Any], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """Options of a program besides model, loss and batch, as in `wb.trace_training`."""

    optimizer: Any = None
    dims: Dims = None
    name: str | None = None
    data: Callable[[int], Any] | None = None
    reference: Reference | None = None

    def dims_with(self, stated: dict[str, str], params: Any) -> Dims:
        """The user's dimension names, and for other parameters those stated by the model or known for its layers."""
        stated = attention_dims(params) | stated
        if not stated or not isinstance(self.dims, Mapping | None):
            return self.dims
        named = match_patterns([*_patterns("", self.dims or {})], Leaves.of("params", params).paths)
        return {f"/{path}": text for path, text in stated.items() if not named.get(path)} | dict(self.dims or {})


def trace_model(parts: ModelParts, loss: Callable[..., Any], batch: Any, options: TraceOptions) -> Program:
    """The training step of `loss(model, batch)`, or without an optimizer the program of that function.

    Unread state is left out. A loss with a parameter `key` receives a new random key each step. Raises `TraceError` if
    it cannot be traced.
    """
    verify_callable("loss", loss, "a function of a model and a batch", "write `loss(model, batch)`, which calls `model(...)`")
    options = replace(options, name=options.name or name_of(loss), dims=options.dims_with(parts.dims, parts.params))
    bound = _BoundLoss(parts, loss, has_key=takes_key(loss))
    leaves = Leaves.of("", bound.state)
    specs = (Leaves.of("params", parts.params).tree(), leaves.tree(), Leaves.of("batch", batch).tree())
    idle = guard_tracing(lambda: idle_leaves(bound, *specs), str(options.name)) if leaves.paths else []
    call = _NamedState(bound, leaves.structure, tuple(path[1:] for path in leaves.paths), tuple(leaves.specs), tuple(idle))
    state = {path: leaf for path, leaf, is_idle in zip(call.paths, leaves.examples, idle, strict=True) if not is_idle}
    return _trace(call, state, batch, options)


def takes_key(loss: Callable[..., Any]) -> bool:
    """Whether a loss has a parameter `key`."""
    try:
        return "key" in inspect.signature(loss).parameters
    except (TypeError, ValueError):
        return False


def takes_argument(make: Callable[..., Any]) -> bool:
    """Whether a function that makes a model requires an argument (a key or RNG streams)."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        param.kind is param.VAR_POSITIONAL
        or (param.default is param.empty and param.kind in (param.POSITIONAL_ONLY, param.POSITIONAL_OR_KEYWORD))
        for param in parameters
    )


@dataclass(frozen=True, slots=True)
class _BoundLoss:
    """The user's loss as a function of parameters, state and batch that returns its result and the new state."""

    parts: ModelParts
    loss: Callable[..., Any]
    has_key: bool

    @property
    def state(self) -> dict[str, Any]:
        return dict(self.parts.state) | ({"key": key_spec()} if self.has_key else {})

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.parts.keys, *(["key"] if self.has_key else []))

    def init(self, key: Any) -> Any:
        assert self.parts.init is not None, "undefined unless it is known"
        params, state = self.parts.init(key)
        return params, {**state, **({"key": jax.random.fold_in(key, NEXT_KEY)} if self.has_key else {})}

    def __call__(self, params: Any, state: Any, batch: Any) -> tuple[Any, Any]:
        state = dict(state)
        key = {"key": state.pop("key")} if self.has_key else {}
        model = self.parts.bind(params, state)
        with self.parts.scopes(model):
            result = self.loss(model, batch, **key)
        return result, {**self.parts.unbind(model), **key}


@dataclass(frozen=True, slots=True)
class _NamedState:
    """A bound loss whose state is indexed by path, without unread leaves; keys are renewed each step."""

    bound: _BoundLoss
    structure: Any
    paths: tuple[str, ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    idle: tuple[bool, ...]

    def whole(self, state: Mapping[str, Any]) -> Any:
        """The model's state, with compile-time zeros for unread leaves and `None` for unread keys of the adapter."""
        pairs = zip(self.paths, self.specs, strict=True)
        return jax.tree.unflatten(self.structure, [state[path] if path in state else self._unread(path, spec) for path, spec in pairs])

    def _unread(self, path: str, spec: jax.ShapeDtypeStruct) -> Any:
        if path in self.bound.keys:
            return None
        with jax.ensure_compile_time_eval() if spec.size <= _SMALL else nullcontext():
            return zeros_like(spec)

    def by_path(self, state: Any) -> dict[str, Any]:
        leaves = zip(self.paths, jax.tree.leaves(state), self.idle, strict=True)
        return {path: leaf for path, leaf, is_idle in leaves if not is_idle}

    def init(self, key: Any) -> Any:
        params, state = self.bound.init(key)
        return (params, self.by_path(state)) if not all(self.idle) else params

    def __call__(self, params: Any, state: Mapping[str, Any], batch: Any) -> tuple[Any, dict[str, Any]]:
        result, after = self.bound(params, self.whole(state), batch)
        after = {name: 0 if leaf is None and name in self.bound.keys else leaf for name, leaf in after.items()}  # replaces an unread key
        if (count := len(jax.tree.leaves(after))) != len(self.paths):
            raise TraceError(
                f"The model's state has {len(self.paths)} leaves before the loss, and {count} after it.",
                ["let the model carry the same arrays from call to call"],
            )
        keys = {path: jax.random.fold_in(state[path], NEXT_KEY) for path in self.bound.keys if path in state}
        return result, self.by_path(after) | keys

    def loss(self, params: Any, state: Mapping[str, Any], batch: Any) -> tuple[Any, dict[str, Any]]:
        """The loss without auxiliary outputs, and the new state."""
        result, after = self(params, state, batch)
        return (result[0] if isinstance(result, tuple) else result), after

    def stateless(self, params: Any, batch: Any) -> Any:
        return self(params, {}, batch)[0]


def key_spec() -> jax.ShapeDtypeStruct:
    return jax.eval_shape(lambda: jax.random.key(0))


def call_loss(loss: Callable[..., Any], model: Any, batch: Any, key: Any) -> Any:
    """Call `loss(model, batch)`, with the key if the loss takes one."""
    return loss(model, batch, key=key) if takes_key(loss) else loss(model, batch)


def dims_text(names: Any) -> str:
    """Dimension names from a model's metadata in the notation of `dims`; empty if there are none or a name repeats.

    >>> dims_text(("embed", None, ("data", "mlp"))), dims_text((None, None))
    ('embed _ _', '')
    """
    words = [name if isinstance(name, str) else "_" for name in names or ()]
    return " ".join(words) if len(set(words)) == len(words) - max(words.count("_") - 1, 0) and {*words} - {"_"} else ""


def partition_dims(stated: Mapping[str, tuple[Any, tuple[int, ...]]], mesh_axes: Iterable[str] = ()) -> dict[str, str]:
    """Dimension names from metadata (names and shape by path), unless they are mesh axes.

    If any name is a usual mesh axis or one of `mesh_axes`, all are mesh axes; names with several sizes are dropped.

    >>> partition_dims({"up": (("embed", "mlp"), (8, 32))}), partition_dims({"up": (("fsdp", "tp"), (8, 32)), "scale": (("tp",), (8,))})
    ({'up': 'embed mlp'}, {})
    """
    sizes: dict[str, set[int]] = {}
    for names, shape in stated.values():
        for name, size in zip(names or (), shape, strict=False):
            for word in name if isinstance(name, tuple) else (name,):
                sizes.setdefault(str(word), set()).add(size)
    if not sizes.keys().isdisjoint({*MESH_AXES, *mesh_axes}):
        return {}
    named = {path: [name if len(sizes.get(str(name), ())) == 1 else None for name in names or ()] for path, (names, _) in stated.items()}
    return {path: words for path, names in named.items() if (words := dims_text(names))}


def _trace(call: _NamedState, state: dict[str, Any], batch: Any, options: TraceOptions) -> Program:
    params = call.bound.parts.params
    named: dict[str, Any] = {"dims": options.dims, "name": options.name, "reference": options.reference}
    if options.optimizer is None:
        return trace(call, params, state, batch, **named) if state else trace(call.stateless, params, batch, **named)
    named |= {"optimizer": options.optimizer, "data": options.data, "init": call.init if call.bound.parts.init else None}
    return (
        trace_training(call.loss, params, batch, state=state, **named) if state else trace_training(call.stateless, params, batch, **named)
    )


def _patterns(prefix: str, dims: Mapping[str, Any]) -> Iterator[str]:
    for key, value in dims.items():
        pattern = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from _patterns(pattern, value)
        else:
            yield pattern


# State that a loss neither reads nor changes is not carried, since a program without state has more layouts.


def idle_leaves(call: Callable[..., tuple[Any, Any]], params: Any, state: Any, batch: Any) -> list[bool]:
    """For each leaf of `state`, whether `call(params, state, batch)` neither reads nor changes it.

    A loop that only passes a leaf through, as Haiku's scans do with keys, does not read it.
    """
    closed, (result, _) = jax.make_jaxpr(partial(call), return_shape=True)(params, state, batch)
    param_count, result_count, count = (len(jax.tree.leaves(item)) for item in (params, result, state))
    state_in, state_out = closed.jaxpr.invars[param_count : param_count + count], closed.jaxpr.outvars[result_count : result_count + count]
    stays = [var is new for var, new in zip(state_in, state_out, strict=True)]
    _, is_read = partial_eval.dce_jaxpr(closed.jaxpr, [*[True] * result_count, *(not item for item in stays)])
    return [item and not read for item, read in zip(stays, is_read[param_count : param_count + count], strict=True)]


# Dimension names of framework layers: attention heads in Flax and Keras.

_ATTENTION = re.compile(r"(.*/)(query|key|value|out|attention_output)/kernel")
_OUTWARDS = ("out", "attention_output")
_RANK = 3


def attention_dims(params: Any) -> dict[str, str]:
    """Dimension names of attention kernels by path; key and value heads are `kv_heads` if fewer than the query heads.

    >>> import jax
    >>> kernel = {"kernel": jax.ShapeDtypeStruct((64, 4, 16), "float32")}
    >>> attention_dims({"query": kernel, "out": {"kernel": jax.ShapeDtypeStruct((4, 16, 64), "float32")}})
    {'params/out/kernel': 'heads d_head _', 'params/query/kernel': '_ heads d_head'}
    """
    leaves = Leaves.of("params", params)
    shapes = {path: spec.shape for path, spec in zip(leaves.paths, leaves.specs, strict=True)}
    names = {}
    for path, shape in shapes.items():
        match = _ATTENTION.fullmatch(path)
        query = shapes.get(f"{match[1]}query/kernel", ()) if match else ()
        if match and len(query) == len(shape) and _RANK <= len(shape) <= _RANK + 1:
            stacked = "_ " * (len(shape) - _RANK)  # scanned layers
            is_fewer = match[2] in ("key", "value") and shape[-2:-1] != query[-2:-1]
            names[path] = (
                f"{stacked}heads d_head _" if match[2] in _OUTWARDS else f"{stacked}_ {'kv_heads' if is_fewer else 'heads'} d_head"
            )
    return names


# Deferred import of frameworks, with the install command in the error.


class AdapterError(WorkbenchError):
    """A model that an adapter cannot trace."""


def model_error(given: object, expected: str) -> AdapterError:
    """The error for an object that is not a model of the framework."""
    return AdapterError(
        wrong_type("model", given, expected), ["trace plain functions with `wb.trace_training`, `wb.trace_step` or `wb.trace`"]
    )


def required(module: str, distribution: str, adapter: str, extra: str = "") -> Any:
    """Import a module. Raises `AdapterError` with the install command if its distribution is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        command = install_command(extra) if extra else f"pip install {distribution}"
        raise AdapterError(f"`{adapter}` needs {distribution}, which is not installed here.", [command]) from error
