"""The end of a step, stage by stage: each stage's gradients through the optimiser into its own parameters.

An optimiser that treats each element for itself (SGD, Adam, AdamW, weight decay, schedules, one optimiser for each group of parameters)
may be run on a part of the parameters: the other leaves are taken out of the tree. One that looks at all of them together (a norm over all
gradients) may not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from workbench.errors import PipelineError
from workbench.program import Program, Training
from workbench.tensor import Role
from workbench.tracing.cast import cast
from workbench.tracing.cut import Cut
from workbench.tracing.flatten import inline, variables

_MIXING = (
    *("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "sort", "rev", "transpose", "dot_general", "scan", "while", "fft", "gather"),
    *("scatter", "scatter-add", "random_bits", "random_split", "random_fold_in", "random_wrap", "cholesky", "eigh", "qr", "svd"),
)
"""Primitives that keep a shape and yet mix elements, or number the leaves of a tree."""


@dataclass(frozen=True)
class StageUpdate:
    """The optimiser's step of one stage.

    - `owned`: numbers of the cut's pieces that this stage updates; a piece that several stages use belongs to the first of them;
    - `state`: for each leaf of the stage's optimiser state its number among the program's arguments, and the layer of it if it is stacked;
    - `call(pieces, state, gradients, total) -> (pieces, state)`; gradients are sums over micro-batches, `total` what the micro-batches
      weigh together.
    """

    owned: tuple[int, ...]
    state: tuple[tuple[int, int | None], ...]
    call: Callable[[Sequence[Any], Sequence[Any], Sequence[Any], Any], tuple[list[Any], list[Any]]]


def owners(cut: Cut) -> tuple[int, ...]:
    """The stage each piece belongs to: the first that uses it; one that none uses, to the first of all."""
    first: dict[int, int] = {}
    for segment in cut.segments:
        for piece in segment.pieces:
            first.setdefault(piece, segment.number)
    return tuple(first.get(piece, 0) for piece in range(len(cut.network.flat.pieces)))


def stage_update(program: Program, cut: Cut, stage: int) -> StageUpdate:
    """The update of one stage. Raises `PipelineError` for an optimiser that looks at all parameters together (`verify_separable`)."""
    training = program.step.training
    assert training is not None, "a cut is made of a training step"
    owned = tuple(piece for piece, owner in enumerate(owners(cut)) if owner == stage)
    flat = cut.network.flat
    specs = [jax.ShapeDtypeStruct(flat.pieces[i][1].aval.shape, flat.pieces[i][1].aval.dtype) for i in owned]
    state_specs = jax.eval_shape(lambda each: training.optimizer.init(cast(_tree(training, cut, owned, each), training.moments)), specs)
    places, structure = _state_places(program, cut, owned, state_specs), jax.tree.structure(state_specs)

    def call(pieces: Sequence[Any], state: Sequence[Any], gradients: Sequence[Any], total: Any) -> tuple[list[Any], list[Any]]:
        mean = [_mean(each, piece.dtype, total, cut, i) for each, piece, i in zip(gradients, pieces, owned, strict=True)]
        weights, gradient = (_tree(training, cut, owned, each) for each in (pieces, mean))
        moments = jax.tree.unflatten(structure, state)
        with jax.named_scope("optimizer"):
            updates, moments = training.optimizer.update(cast(gradient, training.moments), moments, cast(weights, training.moments))
            weights = optax.apply_updates(weights, updates)
        return jax.tree.leaves(weights), jax.tree.leaves(moments)

    return StageUpdate(owned, places, call)


def _mean(gradient: Any, dtype: Any, total: Any, cut: Cut, piece: int) -> Any:
    """A moving average counts every micro-batch alike (`micro_batch.moving_average`)."""
    divisor = cut.network.micro_batches if piece in cut.network.flat.averages else total
    return (gradient / divisor).astype(dtype)


def _tree(training: Training, cut: Cut, owned: Sequence[int], values: Sequence[Any]) -> Any:
    """The parameters' pytree with the leaves of other stages taken out; a stacked leaf is a tuple of its slices that are here."""
    leaves: list[Any] = [None] * training.params.num_leaves
    for piece, value in zip(owned, values, strict=True):
        leaf, layer = cut.network.flat.pieces[piece][0]
        leaves[leaf] = value if layer is None else (*(leaves[leaf] or ()), value)
    return jax.tree.unflatten(training.params, leaves)


def _state_places(program: Program, cut: Cut, owned: Sequence[int], state: Any) -> tuple[tuple[int, int | None], ...]:
    """Where in the program's arguments each leaf of a stage's optimiser state is; a slice's path has its place in the tuple behind it."""
    from workbench.tracing.leaves import named_leaves

    known = {tensor.path: i for i, tensor in enumerate(program.arguments) if tensor.role is Role.OPTIMIZER_STATE}
    layers: dict[str, list[int]] = {}
    for piece in owned:
        leaf, layer = cut.network.flat.pieces[piece][0]
        if layer is not None:
            layers.setdefault(cut.network.parameter_paths[leaf].partition("/")[2], []).append(layer)
    places: list[tuple[int, int | None]] = []
    for path in named_leaves("opt_state", state)[0]:
        stacked, _, number = path.rpartition("/")
        if path in known:
            places.append((known[path], None))
        else:
            leaf_path = max((each for each in layers if stacked.endswith(f"/{each}")), key=len)
            places.append((known[stacked], layers[leaf_path][int(number)]))
    return tuple(places)


def verify_separable(program: Program) -> None:
    """Raises `PipelineError` for an optimiser that is not element by element."""
    training = program.step.training
    assert training is not None, "asked of training steps"
    params = [each for each in program.arguments if each.role is Role.PARAMETER]
    specs = cast([jax.ShapeDtypeStruct(each.shape, each.dtype) for each in params], training.moments)
    tree = jax.tree.unflatten(training.params, specs)
    state = jax.eval_shape(training.optimizer.init, tree)
    eqns = inline(jax.make_jaxpr(training.optimizer.update)(tree, state, tree))[0]
    for eqn in eqns:
        if eqn.primitive.name in _MIXING or _mixes(eqn):
            raise PipelineError(
                f"The optimiser of {program.name} does not treat each element for itself: it takes {eqn.primitive.name} of "
                f"{eqn.invars[0].aval.str_short()}. Stages, which each hold a part of the parameters, cannot do that alone.",
                ["take an optimiser such as adam, adamw or sgd", "clip each element (`optax.clip`), not their common norm"],
            )


def _mixes(eqn: Any) -> bool:
    large = [atom.aval.shape for atom in variables(eqn.invars) if atom.aval.size > 1]
    return bool(large) and any(out.aval.shape not in large for out in eqn.outvars)


def accumulator(spec: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """What gradients of a parameter are summed in: at least float32."""
    return jax.ShapeDtypeStruct(spec.shape, jnp.promote_types(spec.dtype, jnp.float32))
