"""A training step from a loss and an optimizer: takes parameters and optimizer state, returns updated ones and the
loss.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import optax

from workbench.core.offload import ALL_ON_DEVICE, OPTIMIZER_STATE, Offload
from workbench.core.path_patterns import matches
from workbench.core.precision import AS_WRITTEN, FLOAT8, FLOATS, WIDE_MOMENTS, Precision
from workbench.core.program import Program, Reference, Step, Training
from workbench.core.remat import AS_TRACED, Remat
from workbench.core.tensor import Role
from workbench.errors import OffloadError, TraceError, wrong_type
from workbench.tracing.jaxpr.apply_remat_policy import Rematerialized, layers_in, verify_remat
from workbench.tracing.jaxpr.equations import BATCH, PARAMETERS
from workbench.tracing.jaxpr.float8_products import InFloat8, float8_products
from workbench.tracing.leaves import Leaves
from workbench.tracing.mesh_context import bind_mesh, written_shardings
from workbench.tracing.model_state import WithState, cast, compute_in, of_trained, pack_state, trained_tree, verify_state
from workbench.tracing.named_optimizers import optimizer as named_optimizer
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
    optimizer: optax.GradientTransformation | str,
    trained: str = "",
    state: Any = None,
    dims: Dims = None,
    name: str | None = None,
    init: Callable[[Any], Any] | None = None,
    data: Callable[[int], Any] | None = None,
    reference: Reference | None = None,
) -> Program:
    """The program of one training step: `loss(params, batch)`, its gradient, the optimizer's update.

    **Arguments:** `params` and `batch` are pytrees of arrays or `jax.ShapeDtypeStruct`s. For a live run, `init(key)` makes parameters where
    only shapes were given, and `data(step)` the batch of a step as host arrays; without `data`, the example batch is used each step.
    Paths are `params/...`, `opt_state/...`, `batch/...`. A loss may return `(value, auxiliary)`; the auxiliary part is dropped.
    `state` is the model's state besides its parameters, such as running statistics or random keys. The loss is then
    `loss(params, state, batch)` and returns `(value, new state)`; paths are `state/...`, the state gets no gradient, and `init(key)` makes
    `(params, state)`. `optimizer` is an Optax transformation, or a name with an optional learning rate: `"lion 1e-4"` (`wb.optimizer`).
    `trained` has the patterns of the parameters that are trained, such as `"lora/*"`. The other parameters are frozen: they may have any
    type, and have neither a gradient nor optimizer state.
    Rematerialisation and precision are not arguments: they are edits of a plan (`layer`, `Program.variant`).

    Raises `TraceError` if the loss cannot be traced or is not a scalar, `DimensionError` if names do not fit.
    """
    chosen = named_optimizer(optimizer, params=params, dims=dims) if isinstance(optimizer, str) else optimizer
    _verify_arguments(loss, chosen, init, data)
    title = name or str(getattr(loss, "__name__", "loss"))
    weights, carried = Leaves.of("params", params), Leaves.of("state", state)
    frozen = _frozen_leaves(weights.paths, trained)
    _verify_differentiable(weights, frozen)
    packed = bind_mesh(loss if state is None else pack_state(loss))
    tracer = _TrainingTracer(title, packed, weights, carried, Leaves.of("batch", batch), chosen, dims, init, data, reference, frozen)
    return Variants(tracer.program)(AS_TRACED, AS_WRITTEN, ALL_ON_DEVICE)


def _verify_arguments(loss: object, optimizer: object, init: object, data: object) -> None:
    verify_callable("loss", loss, "a function of parameters and a batch", "write `trace_training(loss, params, batch, optimizer=...)`")
    if not hasattr(optimizer, "init") or not hasattr(optimizer, "update"):
        example = "optax.adamw(3e-4)"
        raise TraceError(wrong_type("optimizer", optimizer, "an optimizer of Optax"), [f"write optimizer={example}"])
    for name, argument, expected in (("init", init, "a function of a random key"), ("data", data, "a function of the step's number")):
        if argument is not None:
            verify_callable(name, argument, expected, f"leave `{name}` out")


def _frozen_leaves(paths: Sequence[str], trained: str) -> frozenset[int]:
    """The numbers of the parameters that no pattern matches; raises `TraceError` if the patterns match none."""
    patterns = trained.split() or ["**"]
    frozen = frozenset(i for i, path in enumerate(paths) if not any(matches(pattern, path) for pattern in patterns))
    if paths and len(frozen) == len(paths):
        raise TraceError(
            f"`trained` is `{trained}`, which matches none of the {len(paths)} parameters.",
            [f"match a path such as `{paths[0]}`", "leave it out"],
        )
    return frozen


def _verify_differentiable(params: "Leaves", frozen: Collection[int]) -> None:
    leaves = enumerate(zip(params.paths, params.specs, strict=True))
    integers = [(path, spec) for i, (path, spec) in leaves if i not in frozen and not jax.dtypes.issubdtype(spec.dtype, jax.numpy.inexact)]
    if integers:
        path, spec = integers[0]
        more = f", and {len(integers) - 1} more are not floats" if len(integers) > 1 else ""
        raise TraceError(
            f"`{path}` is {spec.dtype}{list(spec.shape)}{more}; a parameter has a gradient, so it must be floating-point.",
            ["give it in the batch", "bind it with functools.partial or a closure", 'make it one, `.astype("float32")`'],
        )


def with_loss(program: Program, loss: Callable[..., Any]) -> Program:
    """The same training step with an equivalent loss on the same pytrees; planning and documents do not change."""
    training = program.step.training
    assert training is not None, "asked of training steps"
    specs = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in program.arguments if tensor.role is Role.PARAMETER]
    params = trained_tree(training.params, specs, training.frozen)
    state = jax.eval_shape(lambda values: training.optimizer.init(cast(values, training.moments)), params)
    trees = (training.params, jax.tree.structure(state), training.batch)
    call = _make_step(loss, training.optimizer, trees, training.moments, program.offload, training.frozen)
    return replace(program, step=replace(program.step, call=call))


def with_traced_loss(program: Program, loss: Callable[..., Any]) -> Program:
    """The training step retraced with an equivalent loss, which is then planned."""
    step = with_loss(program, loss).step
    return build_program(
        program.name,
        step,
        [tensor.path for tensor in program.arguments],
        [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in program.arguments],
        [tensor.role for tensor in program.arguments],
        [(tensor.path, tensor.role) for tensor in program.results],
        program.carried,
        {f"/{tensor.path}": " ".join(tensor.dims) for tensor in program.arguments if tensor.dims},
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
    frozen: frozenset[int]

    def program(self, remat: Remat, precision: Precision, offload: Offload) -> Program:
        if precision.master:
            keeping = replace(self, optimizer=keep_master(self.optimizer, precision.master, precision.moments))
            return keeping.program(remat, replace(precision, master=None, moments=None), offload)
        params = replace(self.params, specs=cast(self.params.specs, precision.params))
        loss, choices = self._loss(params, remat, precision)
        state_specs = guard_tracing(
            lambda: jax.eval_shape(partial(self._init_optimizer, moments=precision.moments), params.specs), "optimizer.init"
        )
        state = Leaves.of("opt_state", state_specs)
        offloads = ("nothing", OPTIMIZER_STATE) if any(spec.shape for spec in state.specs) else ("nothing",)
        if str(offload) not in offloads:
            raise OffloadError(
                f"The optimizer of `{self.title}` keeps only scalars as state, so there is nothing to keep in host memory.",
                ["leave `offload` out", "choose an optimizer with moments, `optax.adamw(3e-4)`"],
            )
        kept, inputs = self.model_state, self._loss_input
        count = len(params.paths) + len(state.paths) + len(kept.paths)
        carried = [i for i in range(count) if i not in self.frozen]
        trees = (params.structure, state.structure, inputs.structure)
        given = self._given(len(params.paths) + len(state.paths))
        step = Step(
            _make_step(loss, self.optimizer, trees, precision.moments, offload, self.frozen, has_state=bool(kept.paths)),
            self._initialize(params, precision, tuple(given)),
            _make_feed(self.data, self.batch),
            given_indices=tuple(given),
            given=tuple(given.values()),
            loss=len(carried),
            written=written_shardings(params.examples + state.specs + kept.examples + self.batch.examples),
            training=None
            if kept.paths
            else Training(loss, self.optimizer, params.structure, self.batch.structure, precision.moments, precision.sums, self.frozen),
        )
        roles = [Role.PARAMETER] * len(params.paths) + [Role.OPTIMIZER_STATE] * len(state.paths) + [Role.MODEL_STATE] * len(kept.paths)
        paths = params.paths + state.paths + kept.paths
        program = build_program(
            self.title,
            step,
            paths + self.batch.paths,
            params.specs + state.specs + inputs.specs,
            roles + [Role.INPUT] * len(self.batch.paths),
            [*((paths[i], roles[i]) for i in carried), ("loss", Role.OUTPUT)],
            tuple(enumerate(carried)),
            self.dims,
            self.reference,
        )
        return replace(program, choices=(*choices, *(("offload", text) for text in offloads)))

    def _init_optimizer(self, leaves: Sequence[Any], moments: str | None) -> Any:
        return self.optimizer.init(cast(trained_tree(self.params.structure, leaves, self.frozen), moments))

    @property
    def _loss_input(self) -> Leaves:
        """The loss's second argument: the batch, or the model's state with the batch."""
        state, batch = self.model_state, self.batch
        if not state.paths:
            return batch
        structure = jax.tree.structure(WithState(state.tree(), batch.tree()))
        return Leaves(state.paths + batch.paths, state.examples + batch.examples, state.specs + batch.specs, structure)

    def _loss(self, params: Leaves, remat: Remat, precision: Precision) -> tuple[Callable[..., Any], list[tuple[str, str]]]:
        """The loss with this remat policy and precision, and the usual ones it allows; raises `TraceError` unless scalar."""
        trace = jax.make_jaxpr(partial(self.loss), return_shape=True)  # a temporary function, so that JAX does not cache the trace
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
        loss = InFloat8(loss, precision.products, self.title) if precision.products else loss
        traced = (closed, result) if loss is self.loss else None
        parts = [PARAMETERS] * len(self.params.paths) + [BATCH] * (len(closed.in_avals) - len(self.params.paths))
        precisions = ("as traced", *FLOATS, WIDE_MOMENTS, *(FLOAT8 if float8_products(closed, parts) else ()))
        choices = [*(("remat", text) for text in layers.choices), *(("precision", text) for text in precisions)]
        return Rematerialized(loss, remat, traced) if layers.marked or remat != AS_TRACED else loss, choices

    def _given(self, before: int) -> dict[int, Any]:
        """The given arrays of the state, by argument number; `before` arguments precede the model's state."""
        if self.init is not None:
            return {}
        places = [*enumerate(self.params.examples), *enumerate(self.model_state.examples, before)]
        return {i: leaf for i, leaf in places if not isinstance(leaf, jax.ShapeDtypeStruct)}

    def _initialize(
        self, params: Leaves, precision: Precision, given: tuple[int, ...]
    ) -> Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]:
        init, state = self.init, self.model_state

        def initialize(key: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
            known = dict(zip(given, values, strict=True))
            if init is not None:
                initial = init(key)
                weights, kept = initial if state.paths else (initial, ())
                leaves = cast(jax.tree.leaves(weights), precision.params)
                moments = jax.tree.leaves(self._init_optimizer(leaves, precision.moments))
                return (*leaves, *moments, *jax.tree.leaves(kept))
            leaves = [known[i] if i in known else random_like(jax.random.fold_in(key, i), spec) for i, spec in enumerate(params.specs)]
            leaves = cast(leaves, precision.params)
            moments = jax.tree.leaves(self._init_optimizer(leaves, precision.moments))
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
    frozen: frozenset[int] = frozenset(),
    *,
    has_state: bool = False,
) -> Callable[..., tuple[Any, ...]]:
    """The step on flat leaves with pytrees `trees`; with `has_state`, the loss takes and returns model state. It does not
    return `frozen` leaves.
    """
    param_tree, state_tree, batch_tree = trees
    count, carried = param_tree.num_leaves, param_tree.num_leaves + state_tree.num_leaves
    trained_structure = jax.tree.structure(trained_tree(param_tree, [0] * count, frozen))

    def update(gradient: Any, moments: Any, weights: Any) -> tuple[Any, Any]:
        gradient, weights = (jax.tree.unflatten(trained_structure, leaves_of_tree) for leaves_of_tree in (gradient, weights))
        moments = jax.tree.unflatten(state_tree, moments)
        updates, moments = optimizer.update(cast(gradient, moments_type), moments, cast(weights, moments_type))
        return jax.tree.leaves(optax.apply_updates(weights, updates)), jax.tree.leaves(moments)

    def call(*leaves: Any) -> tuple[Any, ...]:
        weights, batch = trained_tree(param_tree, leaves[:count], frozen), jax.tree.unflatten(batch_tree, leaves[carried:])
        result, gradient = jax.value_and_grad(of_trained(loss, param_tree, leaves[:count], frozen), has_aux=has_state)(weights, batch)
        value, kept = result if has_state else (result, ())
        with jax.named_scope("optimizer"):
            state = jax.tree.leaves(gradient), leaves[count:carried], jax.tree.leaves(weights)
            new_weights, moments = update_from_host(update, *state, value) if offload.optimizer_state else update(*state)
        return (*new_weights, *moments, *jax.tree.leaves(kept), value)

    return call


def keep_master(optimizer: optax.GradientTransformation, dtype: str, moments_type: str | None = None) -> optax.GradientTransformation:
    """The optimizer with a master copy of the parameters in its state; parameters follow its casts."""

    def init(params: Any) -> Any:
        master = cast(params, dtype)
        return {"master": master, "moments": optimizer.init(cast(master, moments_type))}

    def update(gradient: Any, state: Any, params: Any) -> tuple[Any, Any]:
        updates, moments = optimizer.update(cast(gradient, moments_type or dtype), state["moments"], cast(state["master"], moments_type))
        master = optax.apply_updates(state["master"], updates)
        changes = jax.tree.map(lambda new, old: new - old.astype(new.dtype), master, params)
        return changes, {"master": master, "moments": moments}

    return optax.GradientTransformation(init, update)


def _to_scalar_loss(loss: Callable[..., Any], result: Any, name: str) -> tuple[Callable[..., Any], Any]:
    """The loss as a scalar function and its result; raises `TraceError` if it is not a scalar."""
    has_auxiliary = isinstance(result, tuple) and len(result) == 2
    value = result[0] if has_auxiliary else result
    if not hasattr(value, "shape") or value.shape != () or not jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
        shown = f"{value.dtype}{list(value.shape)}" if hasattr(value, "shape") else f"a {type(value).__name__}"
        raise TraceError(
            f"`{name}` returns {shown}; a loss must be one floating-point number.", ["take the mean", "return (loss, auxiliary)"]
        )
    return ((lambda weights, data: loss(weights, data)[0]) if has_auxiliary else loss), value


def _make_feed(data: Callable[[int], Any] | None, batch: Leaves) -> Callable[[int], tuple[Any, ...]]:
    if data is not None:
        return lambda step: tuple(host_array(leaf) for leaf in fed_leaves(data, step, batch.paths))
    pairs = zip(batch.examples, batch.specs, strict=True)
    examples = [synthesize(spec) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf for leaf, spec in pairs]
    return lambda _step: tuple(example() if isinstance(example, Synthetic) else host_array(example) for example in examples)
