"""`from_equinox`: programs of Equinox modules, which are pytrees with static leaves, and of their separate state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import jax

from workbench.adapters.module_scopes import Path, module_scopes
from workbench.adapters.traced_model import Dims, ModelParts, TraceOptions, key_spec, model_error, required, takes_argument, trace_model
from workbench.adapters.traced_objects import ObjectStep, object_names, program_title, trace_objects
from workbench.core.program import Program, Reference
from workbench.tracing.leaves import path_of
from workbench.tracing.trace_function import name_of


def from_equinox(
    model: Any,
    loss: Callable[..., Any],
    batch: Any,
    *,
    optimizer: Any = None,
    dims: Dims = None,
    name: str | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The training step of an Equinox model by `loss(model, batch)`, or without an `optimizer` the program of that
    function.

        program = wb.from_equinox(lambda key: Model(key=key), loss, batch, optimizer=optax.adamw(3e-4))
        program = wb.from_equinox((model, opt_state), make_step, batch)                                 # a custom step

    `model` is a module, its shapes (`eqx.filter_eval_shape`), or a function of a key that makes it, for which nothing
    is allocated. Its floating-point arrays are the parameters; its other arrays are carried unchanged. With state,
    `model` is the result of `eqx.nn.make_with_state` or that function applied to the class, and the loss is
    `loss(model, state, batch) -> (value, state)`. A loss with a parameter `key` receives a new key each step. Any other
    tuple of objects, or a function that makes them, is for a custom step `step(model, opt_state, batch) -> (model,
    opt_state, loss)`.

    Paths are `params/layers/0/weight`. Raises `TraceError` if it cannot be traced, `AdapterError` if `model` is not a
    module.
    """
    eqx = required("equinox", "equinox", "wb.from_equinox")
    options = TraceOptions(optimizer, dims, name, data, reference)
    made = model if isinstance(model, eqx.Module | tuple | list) or not callable(model) else _shapes_of(model)
    make = None if made is model else model
    if isinstance(made, eqx.Module):
        return trace_model(_parts(made, None, make), loss, batch, options)
    if isinstance(made, tuple | list) and len(made) == _PAIR and isinstance(made[1], eqx.nn.State):
        options = replace(options, name=options.name or name_of(loss))
        return trace_model(_parts(made[0], made[1], make), _StatefulLoss(loss), batch, options)
    if isinstance(made, tuple | list):
        return _trace_step(tuple(made), make, loss, batch, options)
    raise model_error(made, "a module of Equinox, or a function of a key that makes one")


_PAIR = 2  # length of (model, state)


@dataclass
class _WithState:
    model: Any
    state: Any


@dataclass(frozen=True)
class _StatefulLoss:
    loss: Callable[..., Any]

    def __call__(self, both: _WithState, batch: Any) -> Any:
        value, both.state = self.loss(both.model, both.state, batch)
        return value


def _parts(model: Any, state: Any, make: Callable[..., Any] | None) -> ModelParts:
    """Split a module: floating-point arrays are parameters; other arrays and the values of `eqx.nn.State` are state."""
    import equinox as eqx

    params, rest = eqx.partition(model, _is_trained)
    static = eqx.partition(rest, _is_array)[1]
    indices = [] if state is None else _state_places(model)

    def read(module: Any, state: Any) -> dict[str, Any]:
        rest = eqx.partition(eqx.partition(module, _is_trained)[1], _is_array)[0]
        return {_ARRAYS: rest} | ({} if state is None else {path: state.get(index) for path, index in _state_places(module)})

    def bind(params: Any, given: Any) -> Any:
        whole, after = eqx.combine(params, given[_ARRAYS], static), jax.tree.map(lambda leaf: leaf, state)  # a copy: one may be set once
        for path, index in indices:
            after = after.set(index, given[path])
        return whole if state is None else _WithState(whole, after)

    def unbind(bound: Any) -> Any:
        return read(bound, None) if state is None else read(bound.model, bound.state)

    def init(key: Any) -> Any:
        made = _make(make, key)
        module, after = made if state is not None else (made, None)
        return eqx.partition(module, _is_trained)[0], read(module, after)

    return ModelParts(params, read(model, state), bind, unbind, None if make is None else init, scopes=_scopes_of)


_ARRAYS = "arrays"


def _state_places(model: Any) -> list[tuple[str, Any]]:
    import equinox as eqx

    leaves, _ = jax.tree_util.tree_flatten_with_path(model, is_leaf=lambda leaf: isinstance(leaf, eqx.nn.StateIndex))
    return [(path_of("", keys)[1:], leaf) for keys, leaf in leaves if isinstance(leaf, eqx.nn.StateIndex)]


def _trace_step(
    objects: tuple[Any, ...], make: Callable[..., Any] | None, step: Callable[..., Any], batch: Any, options: TraceOptions
) -> Program:
    import equinox as eqx

    names = object_names(step, len(objects))
    arrays, static = eqx.partition(objects, _is_array)
    entries, tree = jax.tree_util.tree_flatten_with_path(arrays)
    models = [isinstance(item, eqx.Module) for item in objects]
    paths = [path_of(_root(names[keys[0].idx], is_model=models[keys[0].idx], alone=sum(models) == 1), keys[1:]) for keys, _ in entries]

    def run(given: Any, batch: Any) -> Any:
        with _scopes_of(given):
            result = step(*given, batch)
        after, others = result[: len(objects)], result[len(objects) :]
        return jax.tree.leaves(eqx.partition(after, _is_array)[0]), others[0] if len(others) == 1 else others

    def join(leaves: Any) -> Any:
        return eqx.combine(jax.tree.unflatten(tree, leaves), static)

    def init(key: Any) -> Any:
        return jax.tree.leaves(eqx.partition(_make(make, key), _is_array)[0])

    object_step = ObjectStep(paths, [leaf for _, leaf in entries], join, run, None if make is None else init)
    return trace_objects(object_step, batch, replace(options, name=program_title(step, options)))


def _root(name: str, *, is_model: bool, alone: bool) -> str:
    """The path prefix of an object: `params` for the only model, `actor/params` among several models."""
    return ("params" if alone else f"{name}/params") if is_model else name


def _is_array(leaf: Any) -> bool:
    import equinox as eqx

    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _is_trained(leaf: Any) -> bool:
    return _is_array(leaf) and jax.dtypes.issubdtype(leaf.dtype, jax.numpy.inexact)


def _shapes_of(make: Callable[..., Any]) -> Any:
    import equinox as eqx

    return eqx.filter_eval_shape(lambda key: _make(make, key), key_spec())


def _make(make: Callable[..., Any] | None, key: Any) -> Any:
    assert make is not None, "undefined if a function made the model"
    return make(key) if takes_argument(make) else make()


@contextmanager
def _scopes_of(model: Any) -> Iterator[None]:
    with module_scopes(model.model if isinstance(model, _WithState) else model, lambda each: _walk(each, ())):
        yield


def _walk(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    import equinox as eqx

    if isinstance(tree, eqx.Module):
        yield path, tree
    if is_dataclass(tree) and not isinstance(tree, type):
        entries: Any = [(entry.name, getattr(tree, entry.name, None)) for entry in fields(tree)]
    else:
        entries = enumerate(tree) if isinstance(tree, list | tuple) else tree.items() if isinstance(tree, dict) else ()
    for key, value in entries:
        yield from _walk(value, (*path, key))
