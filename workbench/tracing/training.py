"""A training step from a loss and an optimiser: parameters and optimiser state in, updated ones and the loss out."""

from collections.abc import Callable
from typing import Any

import jax
import optax

from workbench.errors import TraceError
from workbench.program import Program, Reference, Step
from workbench.tensor import Role
from workbench.tracing.function import Dims, Synthetic, build_program, guarded, host_array, random_like, synthetic
from workbench.tracing.leaves import named_leaves, spec_of


def trace_training(
    loss: Callable[..., Any],
    params: Any,
    batch: Any,
    *,
    optimizer: optax.GradientTransformation,
    dims: Dims = None,
    name: str | None = None,
    init: Callable[[Any], Any] | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The program of one training step: `loss(params, batch)`, its gradient, the optimiser's update.

    **Arguments:** `params` and `batch` are pytrees of arrays or `jax.ShapeDtypeStruct`s. For a live run, `init(key)` makes parameters where
    only shapes were given, and `data(step)` the batch of a step as host arrays; without `data`, the example batch is used each step.
    Paths are `params/...`, `opt_state/...`, `batch/...`. A loss may return `(value, auxiliary)`; the auxiliary part is dropped.

    Raises `TraceError` if the loss cannot be traced or is not a scalar, `DimensionError` if names do not fit.
    """
    title = name or str(getattr(loss, "__name__", "loss"))
    param_paths, param_leaves = named_leaves("params", params)
    batch_paths, batch_leaves = named_leaves("batch", batch)
    param_specs = [spec_of(path, leaf) for path, leaf in zip(param_paths, param_leaves, strict=True)]
    batch_specs = [spec_of(path, leaf) for path, leaf in zip(batch_paths, batch_leaves, strict=True)]
    param_tree, batch_tree = jax.tree.structure(params), jax.tree.structure(batch)
    scalar_loss = _verified(loss, jax.tree.unflatten(param_tree, param_specs), jax.tree.unflatten(batch_tree, batch_specs), title)
    state = guarded(lambda: jax.eval_shape(optimizer.init, jax.tree.unflatten(param_tree, param_specs)), "optimizer.init")
    state_paths, state_specs = named_leaves("opt_state", state)
    state_tree = jax.tree.structure(state)
    carried_count = len(param_paths) + len(state_paths)

    def call(*leaves: Any) -> tuple[Any, ...]:
        weights = jax.tree.unflatten(param_tree, leaves[: len(param_paths)])
        moments = jax.tree.unflatten(state_tree, leaves[len(param_paths) : carried_count])
        value, gradient = jax.value_and_grad(scalar_loss)(weights, jax.tree.unflatten(batch_tree, leaves[carried_count:]))
        with jax.named_scope("optimizer"):
            updates, moments = optimizer.update(gradient, moments, weights)
            weights = optax.apply_updates(weights, updates)
        return (*jax.tree.leaves(weights), *jax.tree.leaves(moments), value)

    given = tuple(i for i, leaf in enumerate(param_leaves) if init is None and not isinstance(leaf, jax.ShapeDtypeStruct))

    def initialize(key: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        known = dict(zip(given, values, strict=True))
        leaves = (
            jax.tree.leaves(init(key))
            if init is not None
            else [known[i] if i in known else random_like(jax.random.fold_in(key, i), spec) for i, spec in enumerate(param_specs)]
        )
        return (*leaves, *jax.tree.leaves(optimizer.init(jax.tree.unflatten(param_tree, leaves))))

    step = Step(
        call,
        initialize,
        _feed(data, batch_leaves, batch_specs),
        given_indices=given,
        given=tuple(param_leaves[i] for i in given),
        loss=carried_count,
    )
    state_roles = [Role.OPTIMIZER_STATE] * len(state_paths)
    roles = [Role.PARAMETER] * len(param_paths) + state_roles
    results = [(path, role) for path, role in zip(param_paths + state_paths, roles, strict=True)] + [("loss", Role.OUTPUT)]
    return build_program(
        title,
        step,
        param_paths + state_paths + batch_paths,
        param_specs + state_specs + batch_specs,
        roles + [Role.INPUT] * len(batch_paths),
        results,
        tuple((i, i) for i in range(carried_count)),
        dims,
        reference,
    )


def _verified(loss: Callable[..., Any], params: Any, batch: Any, name: str) -> Callable[..., Any]:
    """The loss as a scalar function, or a `TraceError` that says what it returns instead."""
    result = guarded(lambda: jax.eval_shape(loss, params, batch), name)
    has_auxiliary = isinstance(result, tuple) and len(result) == 2
    value = result[0] if has_auxiliary else result
    if not hasattr(value, "shape") or value.shape != () or not jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
        found = f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"
        raise TraceError(f"`{name}` returns {found}; a loss is one floating-point number.", ["take the mean", "return (loss, auxiliary)"])
    return (lambda weights, data: loss(weights, data)[0]) if has_auxiliary else loss


def _feed(data: Callable[[int], Any] | None, leaves: list[Any], specs: list[Any]) -> Callable[[int], tuple[Any, ...]]:
    if data is not None:
        return lambda step: tuple(host_array(leaf) for leaf in jax.tree.leaves(data(step)))
    examples = [synthetic(spec) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf for leaf, spec in zip(leaves, specs, strict=True)]
    return lambda _step: tuple(each() if isinstance(each, Synthetic) else host_array(each) for each in examples)
