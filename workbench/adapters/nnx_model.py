"""Flax NNX modules: split into parameters and other variables, and merged again where they are called."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import jax

from workbench.adapters.module_scopes import module_scopes
from workbench.adapters.traced_model import ModelParts, TraceOptions, dims_text, partition_dims, takes_argument
from workbench.adapters.traced_objects import ObjectStep, object_names, program_title, trace_objects
from workbench.core.program import Program

_TWO_MODELS = 3  # number of objects from which paths have the names of the step's arguments


def nnx_parts(made: Any, make: Any, wrt: Any) -> ModelParts:
    """The parts of an NNX module; `make` made it (or is the same object), and `wrt` selects what is trained."""
    from flax import nnx

    graph, params, rest = nnx.split(made, wrt, ...)
    trees = jax.tree.structure((params, rest))

    def bind(params: Any, state: Any) -> Any:
        return nnx.merge(graph, *jax.tree.unflatten(trees, jax.tree.leaves((params, state))))

    def unbind(model: Any) -> Any:
        return _like(nnx.to_pure_dict(rest), nnx.to_pure_dict(nnx.split(model, wrt, ...)[2]))

    def init(key: Any) -> Any:
        _, params, rest = nnx.split(_make(make, key), wrt, ...)
        return nnx.to_pure_dict(params), nnx.to_pure_dict(rest)

    pure = nnx.to_pure_dict(params), nnx.to_pure_dict(rest)
    return ModelParts(*pure, bind, unbind, None if made is make else init, (), _stated_dims(params), scopes_of)


def trace_nnx_step(made: Any, make: Any, step: Callable[..., Any], batch: Any, options: TraceOptions) -> Program:
    """The program of `step(*made, batch)`, which updates NNX objects in place and returns values to report.

    Paths are `params/...`, `state/...` and `opt_state/...` for one model and one optimizer, else prefixed by the step's
    argument names, as in `actor/params/...`.
    """
    from flax import nnx

    graph, state = nnx.split(tuple(made))
    tree, names = jax.tree.structure(state), object_names(step, len(made))
    entries = nnx.to_flat_state(state)
    alone = sum(isinstance(item, nnx.Module) for item in made) == 1 and len(made) < _TWO_MODELS
    paths = [
        _path(path, "" if alone else names[path[0]], variable, is_model=isinstance(made[path[0]], nnx.Module)) for path, variable in entries
    ]

    def run(objects: Any, batch: Any) -> Any:
        with scopes_of(objects):
            result = step(*objects, batch)
        return jax.tree.leaves(nnx.split(objects)[1]), result

    def join(leaves: Any) -> Any:
        return nnx.merge(graph, jax.tree.unflatten(tree, leaves))

    def init(key: Any) -> Any:
        return jax.tree.leaves(nnx.split(tuple(_make(make, key)))[1])

    object_step = ObjectStep(paths, jax.tree.leaves(state), join, run, None if made is make else init)
    return trace_objects(object_step, batch, replace(options, name=program_title(step, options)))


def _path(path: tuple[Any, ...], name: str, variable: Any, *, is_model: bool) -> str:
    from flax import nnx

    kind = (("params",) if isinstance(variable, nnx.Param) else ("state",)) if is_model else ()
    return "/".join(map(str, (*([name] if name else []), *kind, *path[1:])))


@contextmanager
def scopes_of(models: Any) -> Iterator[None]:
    """Run module calls in named scopes within this context."""
    from flax import nnx

    with module_scopes(models, nnx.iter_modules):
        yield


def shapes_of(make: Callable[..., Any]) -> Any:
    from flax import nnx

    return nnx.eval_shape(lambda: _make(make, jax.random.key(0)))


def _make(make: Callable[..., Any], key: Any) -> Any:
    """Call the user's function without eager sharding, by which NNX 0.12 would require a mesh."""
    from flax import nnx

    eager: AbstractContextManager[Any] = nnx.use_eager_sharding(False) if hasattr(nnx, "use_eager_sharding") else nullcontext()
    with eager:
        return make(nnx.Rngs(key)) if takes_argument(make) else make()


def _like(before: Any, after: Any) -> Any:
    """The entries of `after` that exist in `before`; sown values are dropped."""
    return {name: _like(value, after[name]) for name, value in before.items()} if isinstance(before, dict) else after


def _stated_dims(params: Any) -> dict[str, str]:
    """Dimension names from variable metadata, by path; without sharding rules they may be mesh axes (`partition_dims`)."""
    from flax import nnx

    ruled: dict[str, str] = {}
    stated: dict[str, tuple[Any, tuple[int, ...]]] = {}
    axes: set[str] = set()
    for path, variable in nnx.to_flat_state(params):
        metadata, key = variable.get_metadata(), "/".join(("params", *map(str, path)))
        names = metadata.get("out_sharding") or metadata.get("sharding_names") or metadata.get("sharding")
        axes |= {*getattr(metadata.get("mesh"), "axis_names", ())}
        if isinstance(names, tuple) and metadata.get("sharding_rules"):
            ruled[key] = dims_text(names)
        elif isinstance(names, tuple):
            stated[key] = names, tuple(variable.get_value().shape)
    return partition_dims(stated, axes) | {path: words for path, words in ruled.items() if words}
