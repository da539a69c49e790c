"""A model taken apart into pytrees of parameters and state, and the program of a loss that is given the model whole again; which of its
state a loss leaves alone, what a framework's layers call their dimensions, and what to install for an adapter."""

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
"""Folded into a key to make that of the next step: no number that a draw of this step is folded with."""


@dataclass(frozen=True, slots=True)
class ModelParts:
    """What an adapter makes of a model.

    - `params`, `state`: pytrees of arrays or `jax.ShapeDtypeStruct`s; `state` is a mapping, empty if there is none;
    - `bind(params, state)` is what the user's loss is given as the model; `unbind(model)` the state after it;
    - `init(key)` makes `(params, state)` for a run, where only shapes are known; else `None`;
    - `keys` are the entries of `state` that are random keys which this adapter, not the model, makes anew for each step;
    - `dims` are the names of dimensions that the model itself states, by path;
    - `scopes(model)` is the context in which the loss is called: it names scopes where the framework does not.
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
    """What a user states of a program besides the model, the loss and the batch: as in `wb.trace_training`."""

    optimizer: Any = None
    dims: Dims = None
    name: str | None = None
    data: Callable[[int], Any] | None = None
    reference: Reference | None = None

    def dims_with(self, stated: dict[str, str], params: Any) -> Dims:
        """The user's names with those that the model states, or its layers have, of parameters which the user does not name."""
        stated = attention_dims(params) | stated
        if not stated or not isinstance(self.dims, Mapping | None):
            return self.dims
        named = match_patterns([*_patterns("", self.dims or {})], Leaves.of("params", params).paths)
        return {f"/{path}": text for path, text in stated.items() if not named.get(path)} | dict(self.dims or {})


def trace_model(parts: ModelParts, loss: Callable[..., Any], batch: Any, options: TraceOptions) -> Program:
    """The training step of `loss(model, batch)`, or without an optimiser the program of that function; state that nothing reads stays out.

    A loss with a parameter called `key` is given a random key, another one each step. Raises `TraceError` if it cannot be traced.
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
    """Whether a loss asks for a random key."""
    try:
        return "key" in inspect.signature(loss).parameters
    except (TypeError, ValueError):
        return False


def takes_argument(make: Callable[..., Any]) -> bool:
    """Whether a function that makes a model asks for something, a key or streams of random numbers, rather than nothing."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        each.kind is each.VAR_POSITIONAL or (each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD))
        for each in parameters
    )


@dataclass(frozen=True, slots=True)
class _BoundLoss:
    """The user's loss as a function of parameters, state and batch; it returns its result and the new state."""

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
        """What `ModelParts.init` makes, with a key where the loss asks for one."""
        assert self.parts.init is not None, "asked where it is known"
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
    """A bound loss whose state is by path, without the leaves that nothing reads; keys are made anew."""

    bound: _BoundLoss
    structure: Any
    paths: tuple[str, ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    idle: tuple[bool, ...]

    def whole(self, state: Mapping[str, Any]) -> Any:
        """The model's own state. For what nothing reads, zeros that no operation makes, and `None` for a key of the adapter's."""
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
        after = {name: 0 if each is None and name in self.bound.keys else each for name, each in after.items()}  # in place of an unread key
        if (count := len(jax.tree.leaves(after))) != len(self.paths):
            raise TraceError(
                f"The model's state has {len(self.paths)} leaves before the loss, and {count} after it.",
                ["let the model carry the same arrays from call to call"],
            )
        keys = {path: jax.random.fold_in(state[path], NEXT_KEY) for path in self.bound.keys if path in state}
        return result, self.by_path(after) | keys

    def loss(self, params: Any, state: Mapping[str, Any], batch: Any) -> tuple[Any, dict[str, Any]]:
        """Without the auxiliary part."""
        result, after = self(params, state, batch)
        return (result[0] if isinstance(result, tuple) else result), after

    def stateless(self, params: Any, batch: Any) -> Any:
        return self(params, {}, batch)[0]


def key_spec() -> jax.ShapeDtypeStruct:
    """The shape of a random key; none is made."""
    return jax.eval_shape(lambda: jax.random.key(0))


def call_loss(loss: Callable[..., Any], model: Any, batch: Any, key: Any) -> Any:
    """`loss(model, batch)`, with the key where it asks for one."""
    return loss(model, batch, key=key) if takes_key(loss) else loss(model, batch)


def dims_text(names: Any) -> str:
    """Names of dimensions as a model's metadata has them, in the notation of `dims`; empty if there are none.

    >>> dims_text(("embed", None, ("data", "mlp"))), dims_text((None, None))
    ('embed _ _', '')
    """
    words = [name if isinstance(name, str) else "_" for name in names or ()]
    return " ".join(words) if len(set(words)) == len(words) - max(words.count("_") - 1, 0) and {*words} - {"_"} else ""


def partition_dims(stated: Mapping[str, tuple[Any, tuple[int, ...]]], mesh_axes: Iterable[str] = ()) -> dict[str, str]:
    """Names of dimensions from metadata, names and shape by path, that may state mesh axes instead: `("fsdp", "tp")` is a layout, and its
    words name no dimension. One usual name of a mesh axis, or one of `mesh_axes`, says that all of them are; so does a second size.

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
    found = {path: [name if len(sizes.get(str(name), ())) == 1 else None for name in names or ()] for path, (names, _) in stated.items()}
    return {path: words for path, names in found.items() if (words := dims_text(names))}


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


# Which of a model's state a loss neither reads nor changes: it need not be carried, and a program without state has more layouts.


def idle_leaves(call: Callable[..., tuple[Any, Any]], params: Any, state: Any, batch: Any) -> list[bool]:
    """For each leaf of `state`, whether `call(params, state, batch) -> (result, new state)` returns it as it was and never reads it.

    A loop that only hands it on, as Haiku's scans do with keys, does not read it.
    """
    closed, (result, _) = jax.make_jaxpr(partial(call), return_shape=True)(params, state, batch)
    before, made, count = (len(jax.tree.leaves(each)) for each in (params, result, state))
    given, after = closed.jaxpr.invars[before : before + count], closed.jaxpr.outvars[made : made + count]
    stays = [var is new for var, new in zip(given, after, strict=True)]
    _, is_read = partial_eval.dce_jaxpr(closed.jaxpr, [*[True] * made, *(not each for each in stays)])
    return [each and not read for each, read in zip(stays, is_read[before : before + count], strict=True)]


# Names of dimensions that a framework's own layers have: the heads of attention, in Flax and in Keras.

_ATTENTION = re.compile(r"(.*/)(query|key|value|out|attention_output)/kernel")
_OUTWARDS = ("out", "attention_output")
_RANK = 3


def attention_dims(params: Any) -> dict[str, str]:
    """The names by path. Fewer heads of keys and values than of queries are `kv_heads`.

    >>> import jax
    >>> kernel = {"kernel": jax.ShapeDtypeStruct((64, 4, 16), "float32")}
    >>> attention_dims({"query": kernel, "out": {"kernel": jax.ShapeDtypeStruct((4, 16, 64), "float32")}})
    {'params/out/kernel': 'heads d_head _', 'params/query/kernel': '_ heads d_head'}
    """
    leaves = Leaves.of("params", params)
    shapes = {path: spec.shape for path, spec in zip(leaves.paths, leaves.specs, strict=True)}
    found = {}
    for path, shape in shapes.items():
        match = _ATTENTION.fullmatch(path)
        query = shapes.get(f"{match[1]}query/kernel", ()) if match else ()
        if match and len(query) == len(shape) and _RANK <= len(shape) <= _RANK + 1:
            stacked = "_ " * (len(shape) - _RANK)  # layers that are scanned
            is_fewer = match[2] in ("key", "value") and shape[-2:-1] != query[-2:-1]
            found[path] = (
                f"{stacked}heads d_head _" if match[2] in _OUTWARDS else f"{stacked}_ {'kv_heads' if is_fewer else 'heads'} d_head"
            )
    return found


# Import the framework of a model when one is given, and say what to install where it is missing.


class AdapterError(WorkbenchError):
    """A model that an adapter cannot put in."""


def model_error(given: object, expected: str) -> AdapterError:
    """The error about what is no model of a framework."""
    return AdapterError(
        wrong_type("model", given, expected), ["trace plain functions by `wb.trace_training`, `wb.trace_step` or `wb.trace`"]
    )


def required(module: str, distribution: str, adapter: str, extra: str = "") -> Any:
    """The module of this name; raises `AdapterError` if its distribution, which an extra may bring, is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        command = install_command(extra) if extra else f"pip install {distribution}"
        raise AdapterError(f"`{adapter}` needs {distribution}, which is not installed here.", [command]) from error
