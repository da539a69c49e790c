"""A training step from a loss and an optimiser: parameters and optimiser state in, updated ones and the loss out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import optax

from workbench.core.offload import ALL_ON_DEVICE, Offload
from workbench.core.precision import AS_WRITTEN, Precision
from workbench.core.program import Program, Reference, Step, Training
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.tensor import Role
from workbench.errors import OffloadError, TraceError, wrong_type
from workbench.tracing.jaxpr.apply_remat_policy import Rematerialized, layers_in, verify_remat
from workbench.tracing.leaves import Leaves
from workbench.tracing.mesh_context import keep_mesh, written_shardings
from workbench.tracing.model_state import WithState, cast, compute_in, pack_state, verify_state
from workbench.tracing.retraced_variants import Variants
from workbench.tracing.trace_function import (
    Dims,
    Synthetic,
    build_program,
    fed_leaves,
    guard_tracing,
    host_array,
    random_like,
    synthesize,
    verify_callable,
    zeros_like,
)
from workbench.tracing.update_from_host import update_from_host


def trace_training(
    loss: Callable[..., Any],
    params: Any,
    batch: Any,
    *,
    optimizer: optax.GradientTransformation,
    state: Any = None,
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
    With `state`, what the model carries besides its parameters (running statistics, random keys), it is `loss(params, state, batch)`, which
    returns `(value, new state)`; paths are `state/...`, no gradient is taken, and `init(key)` makes `(params, state)`.
    What the backward pass keeps of its layers, and in which types it computes, are edits of a plan (`layer`, `Program.variant`).

    Raises `TraceError` if the loss cannot be traced or is not a scalar, `DimensionError` if names do not fit.
    """
    _verify_arguments(loss, optimizer, init, data)
    title = name or str(getattr(loss, "__name__", "loss"))
    weights, carried = Leaves.of("params", params), Leaves.of("state", state)
    _verify_differentiable(weights)
    packed = keep_mesh(loss if state is None else pack_state(loss))
    tracer = _TrainingTracer(title, packed, weights, carried, Leaves.of("batch", batch), optimizer, dims, init, data, reference)
    return Variants(tracer.program)(AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)


def _verify_arguments(loss: object, optimizer: object, init: object, data: object) -> None:
    """Raises `TraceError` for what has no such type as its place needs."""
    verify_callable("loss", loss, "a function of parameters and a batch", "write `trace_training(loss, params, batch, optimizer=...)`")
    if not hasattr(optimizer, "init") or not hasattr(optimizer, "update"):
        example = "optax.adamw(3e-4)"
        raise TraceError(wrong_type("optimizer", optimizer, "an optimiser of Optax"), [f"write optimizer={example}"])
    for name, given, expected in (("init", init, "a function of a random key"), ("data", data, "a function of the step's number")):
        if given is not None:
            verify_callable(name, given, expected, f"leave `{name}` out")


def _verify_differentiable(params: "Leaves") -> None:
    """Raises `TraceError` for parameters that have no gradient."""
    whole = [(path, spec) for path, spec in zip(params.paths, params.specs, strict=True) if not _is_inexact(spec)]
    if whole:
        path, spec = whole[0]
        more = f", and {len(whole) - 1} more are no floats either" if len(whole) > 1 else ""
        raise TraceError(
            f"`{path}` is {spec.dtype}{list(spec.shape)}{more}; a parameter has a gradient, so it is of floating-point numbers.",
            ["give it in the batch", "bind it with functools.partial or a closure", 'make it one, `.astype("float32")`'],
        )


def _is_inexact(spec: jax.ShapeDtypeStruct) -> bool:
    return jax.dtypes.issubdtype(spec.dtype, jax.numpy.inexact)


def with_loss(program: Program, loss: Callable[..., Any]) -> Program:
    """The same training step with its loss computed in another way, by a function of the same pytrees; planning and documents do not
    change."""
    training = program.step.training
    assert training is not None, "asked of training steps"
    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.arguments if each.role is Role.PARAMETER]
    params = jax.tree.unflatten(training.params, specs)
    state = jax.eval_shape(lambda each: training.optimizer.init(cast(each, training.moments)), params)
    trees = (training.params, jax.tree.structure(state), training.batch)
    return replace(program, step=replace(program.step, call=_make_step(loss, training.optimizer, trees, training.moments, program.offload)))


def with_traced_loss(program: Program, loss: Callable[..., Any]) -> Program:
    """The training step traced anew with another way to its loss, which is then what is planned."""
    step = with_loss(program, loss).step
    return build_program(
        program.name,
        step,
        [each.path for each in program.arguments],
        [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.arguments],
        [each.role for each in program.arguments],
        [(each.path, each.role) for each in program.results],
        program.carried,
        {f"/{each.path}": " ".join(each.dims) for each in program.arguments if each.dims},
        program.reference,
    )


@dataclass(frozen=True, slots=True)
class _TrainingTracer:
    """The arguments of `trace_training`; makes a program for each remat policy and precision."""

    title: str
    loss: Callable[..., Any]
    params: Leaves
    model_state: Leaves
    batch: Leaves
    optimizer: optax.GradientTransformation
    dims: Dims
    init: Callable[[Any], Any] | None
    data: Callable[[int], Any] | None
    reference: Reference | None

    def program(self, remat: Remat, precision: Precision, offload: Offload) -> Program:
        if precision.master:
            keeping = replace(self, optimizer=keep_master(self.optimizer, precision.master, precision.moments))
            return keeping.program(remat, replace(precision, master=None, moments=None), offload)
        params = replace(self.params, specs=cast(self.params.specs, precision.params))
        loss, named = self._loss(params, remat, precision)
        state_specs = guard_tracing(
            lambda: jax.eval_shape(lambda each: self.optimizer.init(cast(each, precision.moments)), params.tree()), "optimizer.init"
        )
        state = Leaves.of("opt_state", state_specs)
        _verify_offload(offload, state, self.title)
        kept, inputs = self.model_state, self._loss_input
        carried = len(params.paths) + len(state.paths) + len(kept.paths)
        trees = (params.structure, state.structure, inputs.structure)
        given = self._given(len(params.paths) + len(state.paths))
        step = Step(
            _make_step(loss, self.optimizer, trees, precision.moments, offload, has_state=bool(kept.paths)),
            self._initialize(params, precision, tuple(given)),
            _make_feed(self.data, self.batch),
            given_indices=tuple(given),
            given=tuple(given.values()),
            loss=carried,
            written=written_shardings(params.examples + state.specs + kept.examples + self.batch.examples),
            training=None
            if kept.paths
            else Training(loss, self.optimizer, params.structure, self.batch.structure, precision.moments, precision.sums),
        )
        roles = [Role.PARAMETER] * len(params.paths) + [Role.OPTIMIZER_STATE] * len(state.paths) + [Role.MODEL_STATE] * len(kept.paths)
        paths = params.paths + state.paths + kept.paths
        program = build_program(
            self.title,
            step,
            paths + self.batch.paths,
            params.specs + state.specs + inputs.specs,
            roles + [Role.INPUT] * len(self.batch.paths),
            [*zip(paths, roles, strict=True), ("loss", Role.OUTPUT)],
            tuple((i, i) for i in range(carried)),
            self.dims,
            self.reference,
        )
        return replace(program, named_values=named)

    @property
    def _loss_input(self) -> Leaves:
        """What the loss takes besides the parameters: the batch, or the model's state with the batch."""
        state, batch = self.model_state, self.batch
        if not state.paths:
            return batch
        structure = jax.tree.structure(WithState(state.tree(), batch.tree()))
        return Leaves(state.paths + batch.paths, state.examples + batch.examples, state.specs + batch.specs, structure)

    def _loss(self, params: Leaves, remat: Remat, precision: Precision) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """The loss with the given remat policy and precision, a scalar function, or one of `(scalar, new state)`, and the names of values
        in it; raises `TraceError` if it is none."""
        trace = jax.make_jaxpr(partial(self.loss), return_shape=True)  # JAX caches by function, and this one does not live long
        closed, result = guard_tracing(lambda: trace(params.tree(), self._loss_input.tree()), self.title)
        if self.model_state.paths:
            verify_state(self.model_state, result, self.title)
            _to_scalar_loss(self.loss, result[0], self.title)
            scalar, value = self.loss, result
        else:
            scalar, value = _to_scalar_loss(self.loss, result, self.title)
        layers = layers_in(closed)
        verify_remat(remat, layers, self.title)
        loss = compute_in(scalar, precision.compute, value)
        traced = (closed, result) if loss is self.loss else None
        return Rematerialized(loss, remat, traced) if layers.marked or remat != AS_TRACED else loss, tuple(layers.names)

    def _given(self, before: int) -> dict[int, Any]:
        """The arrays that were given of the state, by the number of their argument; `before` arguments stand before the model's state."""
        if self.init is not None:
            return {}
        places = [*enumerate(self.params.examples), *enumerate(self.model_state.examples, before)]
        return {i: leaf for i, leaf in places if not isinstance(leaf, jax.ShapeDtypeStruct)}

    def _initialize(
        self, params: Leaves, precision: Precision, given: tuple[int, ...]
    ) -> Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]:
        init, optimizer, state = self.init, self.optimizer, self.model_state

        def initialize(key: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
            known = dict(zip(given, values, strict=True))
            if init is not None:
                made = init(key)
                weights, kept = made if state.paths else (made, ())
                leaves = cast(jax.tree.leaves(weights), precision.params)
                moments = jax.tree.leaves(optimizer.init(cast(params.tree(leaves), precision.moments)))
                return (*leaves, *moments, *jax.tree.leaves(kept))
            leaves = [known[i] if i in known else random_like(jax.random.fold_in(key, i), spec) for i, spec in enumerate(params.specs)]
            leaves = cast(leaves, precision.params)
            moments = jax.tree.leaves(optimizer.init(cast(params.tree(leaves), precision.moments)))
            start = len(leaves) + len(moments)
            kept = [known[i] if i in known else zeros_like(spec) for i, spec in enumerate(state.specs, start)]
            return (*leaves, *moments, *kept)

        return initialize


def _make_step(
    loss: Callable[..., Any],
    optimizer: optax.GradientTransformation,
    trees: tuple[Any, Any, Any],
    moments_type: str | None,
    offload: Offload,
    *,
    has_state: bool = False,
) -> Callable[..., tuple[Any, ...]]:
    """The step on flat leaves: those of the parameters, of the optimiser's state and of what the loss takes, whose pytrees `trees` are.
    With `has_state` that is the model's state and the batch, and the loss returns the new state besides its value."""
    param_tree, state_tree, batch_tree = trees
    count, carried = param_tree.num_leaves, param_tree.num_leaves + state_tree.num_leaves

    def update(gradient: Any, moments: Any, weights: Any) -> tuple[Any, Any]:
        gradient, weights = (jax.tree.unflatten(param_tree, each) for each in (gradient, weights))
        moments = jax.tree.unflatten(state_tree, moments)
        updates, moments = optimizer.update(cast(gradient, moments_type), moments, cast(weights, moments_type))
        return jax.tree.leaves(optax.apply_updates(weights, updates)), jax.tree.leaves(moments)

    def call(*leaves: Any) -> tuple[Any, ...]:
        weights = jax.tree.unflatten(param_tree, leaves[:count])
        result, gradient = jax.value_and_grad(loss, has_aux=has_state)(weights, jax.tree.unflatten(batch_tree, leaves[carried:]))
        value, kept = result if has_state else (result, ())
        with jax.named_scope("optimizer"):
            state = jax.tree.leaves(gradient), leaves[count:carried], leaves[:count]
            new_weights, moments = update_from_host(update, *state, value) if offload.optimizer_state else update(*state)
        return (*new_weights, *moments, *jax.tree.leaves(kept), value)

    return call


def keep_master(optimizer: optax.GradientTransformation, dtype: str, moments_type: str | None = None) -> optax.GradientTransformation:
    """The optimiser with a copy of the parameters, which it updates, in its state; its updates lead the parameters to their casts."""

    def init(params: Any) -> Any:
        master = cast(params, dtype)
        return {"master": master, "moments": optimizer.init(cast(master, moments_type))}

    def update(gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        updates, moments = optimizer.update(cast(gradient, moments_type or dtype), state["moments"], cast(state["master"], moments_type))
        master = optax.apply_updates(state["master"], updates)
        changes = jax.tree.map(lambda new, old: new - old.astype(new.dtype), master, params)
        return changes, {"master": master, "moments": moments}

    return optax.GradientTransformation(init, update)


def _verify_offload(offload: Offload, state: Leaves, name: str) -> None:
    """Raises `OffloadError` where the optimiser keeps nothing but scalars."""
    if offload.optimizer_state and not any(each.shape for each in state.specs):
        raise OffloadError(
            f"The optimiser of `{name}` keeps no state but scalars, so nothing of it could be in the host's memory.",
            ["leave `offload` out", "choose an optimiser with moments, `optax.adamw(3e-4)`"],
        )


def _to_scalar_loss(loss: Callable[..., Any], result: Any, name: str) -> tuple[Callable[..., Any], Any]:
    """The loss as a scalar function and its result, or a `TraceError` that says what it returns instead."""
    has_auxiliary = isinstance(result, tuple) and len(result) == 2
    value = result[0] if has_auxiliary else result
    if not hasattr(value, "shape") or value.shape != () or not jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
        found = f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"
        raise TraceError(f"`{name}` returns {found}; a loss is one floating-point number.", ["take the mean", "return (loss, auxiliary)"])
    return ((lambda weights, data: loss(weights, data)[0]) if has_auxiliary else loss), value


def _make_feed(data: Callable[[int], Any] | None, batch: Leaves) -> Callable[[int], tuple[Any, ...]]:
    if data is not None:
        return lambda step: tuple(host_array(leaf) for leaf in fed_leaves(data, step, batch.paths))
    pairs = zip(batch.examples, batch.specs, strict=True)
    examples = [synthesize(spec) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf for leaf, spec in pairs]
    return lambda _step: tuple(each() if isinstance(each, Synthetic) else host_array(each) for each in examples)
