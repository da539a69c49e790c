"""What makes micro-batches add up: marks in a loss for its weight in the mean and its moving averages, the gradient of a step from the sum
over micro-batches, and the leaves of a batch as each of them has them.

A step of m micro-batches is the mean of their losses and of their gradients. Three cases need care:

- *Means over unequal masks.* The mean of a batch is (sum of losses) / (sum of counts), not the mean of the micro-batches' means. Write

      return total / wb.micro_batch_weight(mask.sum())

  and each micro-batch counts with its `mask.sum()`.

- *Statistics of a batch* (batch normalisation). Each micro-batch is normalised by its own, in training and in every pipeline
  (GPipe, Huang et al. 2019, section 2.2); what is kept for later is one average a mini-batch over all of it. Keep running means of x and
  of x * x as parameters and write

      x = wb.moving_average(x, params["mean"], x.mean(0))

  where the gradient of `mean` becomes (mean - x.mean(0)), the average over the micro-batches; `optax.sgd(0.1)` on these parameters
  (`optax.multi_transform`) then makes of it mean <- 0.9 mean + 0.1 x.mean(0), once a mini-batch, and the optimizer of the others leaves
  them alone.

- *Dropout.* A random key in the batch, without a batch dimension, is folded with the micro-batch's number, so that each draws its own
  mask and recomputation draws the same again. A key for every example (a key array with the batch dimension) is split with the batch:
  then the mask is the same for every number of micro-batches.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.ad_checkpoint import checkpoint_name
from jax.extend import core as jex_core

from workbench.core.pipeline_spec import Split
from workbench.core.program import Program, Step
from workbench.core.tensor import Role
from workbench.tracing.leaves import named_leaves, spec_of
from workbench.tracing.trace_function import Dims, Synthetic, build_program, guard_tracing, synthesize

WEIGHT = "workbench_micro_batch_weight"
AVERAGE = "workbench_moving_average"


def micro_batch_weight(count: Any) -> Any:
    """Mark the scalar `count` as the weight of this micro-batch in the mean over micro-batches, and return it unchanged.

    >>> float(micro_batch_weight(3.0))
    3.0
    """
    return jax.lax.stop_gradient(checkpoint_name(jax.numpy.asarray(count), WEIGHT))


def moving_average(x: Any, average: Any, value: Any) -> Any:
    """`x` unchanged; the gradient of parameter `average` is `average - value`, averaged over micro-batches.

    >>> jax.grad(lambda mean: moving_average(2.0, mean, jax.numpy.ones(())))(3.0).item()
    2.0
    """
    average = checkpoint_name(jax.numpy.asarray(average), AVERAGE)
    return _follow_average(x, average, jax.lax.stop_gradient(value).astype(average.dtype))


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _follow_average(x: Any, average: Any, value: Any) -> Any:  # noqa: ARG001 - used by the derivative
    return x


def _forward(x: Any, average: Any, value: Any) -> tuple[Any, Any]:
    return x, average - value


def _backward(gap: Any, cotangent: Any) -> tuple[Any, Any, Any]:
    return cotangent, gap, jax.numpy.zeros_like(gap)


_follow_average.defvjp(_forward, _backward)


# The gradient of a step from the gradients of its micro-batches.


def mean_gradient(gradient_sum: Any, dtype: Any, total: Any, micro_batches: int, *, is_average: bool) -> Any:
    """The mean of a parameter's gradients, in the parameter's `dtype`.

    Each micro-batch is weighted (`micro_batch_weight`), and `total` is the sum of the weights; for a `moving_average`,
    micro-batches count equally.
    """
    return (gradient_sum / (micro_batches if is_average else total)).astype(dtype)


# The leaves of a micro-batch (`core.pipeline_spec` defines how a batch is split).


def micro_batch_spec(spec: jax.ShapeDtypeStruct, split: Split, micro_batches: int) -> jax.ShapeDtypeStruct:
    """Shape and type of a leaf in one micro-batch."""
    if split.dim is None:
        return spec
    shape = (*spec.shape[: split.dim], spec.shape[split.dim] // micro_batches, *spec.shape[split.dim + 1 :])
    return jax.ShapeDtypeStruct(shape, spec.dtype, weak_type=spec.weak_type)


def micro_batch_leaves(leaf: Any, split: Split, micro_batches: int) -> list[Any]:
    """A leaf of a batch split into micro-batches; views for host arrays."""
    if split.dim is not None:
        size = leaf.shape[split.dim] // micro_batches
        at = (slice(None),) * split.dim
        return [leaf[(*at, slice(i * size, (i + 1) * size))] for i in range(micro_batches)]
    if split.folds and micro_batches > 1:
        return [_fold_key(leaf, i) for i in range(micro_batches)]
    return [leaf] * micro_batches


def _fold_key(key: Any, number: int) -> Any:
    if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        return fold_each(key, number)
    return np.asarray(jax.random.key_data(fold_each(jax.random.wrap_key_data(jax.numpy.asarray(key)), number)))


def fold_each(keys: Any, number: Any) -> Any:
    """The keys of the micro-batch with this number."""
    fold = jax.random.fold_in
    for _ in keys.shape:
        fold = jax.vmap(fold, in_axes=(0, None))
    return fold(keys, number)


# A training step in parts, as in pipelines and gradient accumulation: one micro-batch of one stage, and the final
# update.
#
# step = micro-batches of every stage, their gradients summed -> sum over the replicas -> optimizer -> parameters


_Tree = Any
_ACCUMULATE = "accumulate"


def trace_micro_batch(
    stage: Callable[[_Tree, _Tree], Any], params: _Tree, batch: _Tree, *, accumulate: str = "float32", dims: Dims = None, name: str = ""
) -> Program:
    """Forward and backward pass of one micro-batch through `stage(params, batch)`, its gradients added to accumulators.

    `batch` is a dictionary. A stage that returns a scalar is the last, and the scalar its loss; any other has an
    argument `cotangent`, the gradient from the next stage. Floating-point entries of `batch` come from the previous
    stage, and their gradients are results. Arguments are `params/...`, `gradients/...` (of type `accumulate`, updated
    in place), `batch/...`, `cotangent`.
    """
    from_stage_before = {key: leaf for key, leaf in batch.items() if jnp.issubdtype(leaf.dtype, jnp.floating)}
    integer_inputs = {key: leaf for key, leaf in batch.items() if key not in from_stage_before}
    output = guard_tracing(lambda: jax.eval_shape(stage, params, batch), name)
    sums = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, accumulate), params)
    trees = {"params": params, "gradients": sums, "batch": batch} | ({} if output.shape == () else {"cotangent": output})

    def run(params: _Tree, gradients: _Tree, batch: _Tree, cotangent: Any = None) -> Any:
        activations = {key: leaf for key, leaf in batch.items() if key in from_stage_before}
        value, pull = jax.vjp(
            lambda weights, activations: stage(weights, {**{key: batch[key] for key in integer_inputs}, **activations}), params, activations
        )
        fresh, back = pull(jnp.ones_like(value) if cotangent is None else cotangent)
        with jax.named_scope(_ACCUMULATE):
            gradients = jax.tree.map(lambda total, part: total + part.astype(total.dtype), gradients, fresh)
        return gradients, back, value

    roles = {"params": Role.PARAMETER, "gradients": Role.GRADIENT}
    return _make_program(name, partial(_add_gradients_early, run), trees, {"gradients": 0}, roles, dims)


def _add_gradients_early(run: Callable[..., Any], *trees: _Tree) -> Any:
    """`run(*trees)` with each gradient added right after it is made, to shorten its lifetime."""
    closed, shapes = jax.make_jaxpr(run, return_shape=True)(*trees)
    keys_of: dict[Any, float] = {}
    keys = []
    for index, eqn in enumerate(closed.jaxpr.eqns):
        operand_key = max((keys_of.get(atom, -1) for atom in eqn.invars if not isinstance(atom, jex_core.Literal)), default=-1)
        key = operand_key if _ACCUMULATE in str(eqn.source_info.name_stack) else float(index)
        keys.append(key)
        keys_of.update(dict.fromkeys(eqn.outvars, key))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    jaxpr = closed.jaxpr.replace(eqns=[closed.jaxpr.eqns[i] for i in order])
    results = jex_core.jaxpr_as_fun(jex_core.ClosedJaxpr(jaxpr, closed.consts))(*jax.tree.leaves(trees))
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def trace_update(
    params: _Tree,
    *,
    optimizer: optax.GradientTransformation,
    replicas: _Tree = 1,
    accumulate: str = "float32",
    dims: Dims = None,
    name: str = "",
) -> Program:
    """The end of a step: sum the replicas' gradients, run the optimizer, return the new parameters.

    `replicas` is a number, or a tree with one for each parameter: the size of dimension `replica` of `gradients/...`; 0
    for a gradient without that dimension, such as an expert's. Parameters that are not float32 have a float32 copy in
    the optimizer's state, as in mixed-precision training (Micikevicius et al. 2018).
    """
    exact = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, "float32"), params)
    state = {"moments": guard_tracing(lambda: jax.eval_shape(optimizer.init, exact), "optimizer.init")}
    has_copy = any(leaf.dtype != jnp.float32 for leaf in jax.tree.leaves(params))
    state |= {"master": exact} if has_copy else {}
    counts = jax.tree.map(lambda _: replicas, params) if isinstance(replicas, int) else replicas
    sums = jax.tree.map(lambda leaf, count: jax.ShapeDtypeStruct((*[count] * (count > 0), *leaf.shape), accumulate), params, counts)

    def run(params: _Tree, opt_state: _Tree, gradients: _Tree) -> Any:
        with jax.named_scope("reduce"):
            mean = jax.tree.map(lambda leaf, count: leaf.sum(0) / count if count else leaf, gradients, counts)
        with jax.named_scope("optimizer"):
            weights = opt_state["master"] if has_copy else params
            updates, moments = optimizer.update(mean, opt_state["moments"], weights)
            weights = optax.apply_updates(weights, updates)
        with jax.named_scope("cast"):
            fresh = jax.tree.map(lambda old, new: new.astype(old.dtype), params, weights)
        return fresh, {"moments": moments} | ({"master": weights} if has_copy else {})

    trees = {"params": params, "opt_state": state, "gradients": sums}
    roles = {"params": Role.PARAMETER, "opt_state": Role.OPTIMIZER_STATE, "gradients": Role.GRADIENT}
    return _make_program(name, run, trees, {"params": 0, "opt_state": 1}, roles, dims)


def _make_program(
    name: str, run: Callable[..., Any], trees: dict[str, _Tree], carried: dict[str, int], roles: dict[str, Role], dims: Dims
) -> Program:
    """The program of `run(*trees)`; `carried` gives the number of the result that replaces a tree."""
    leaves = {root: named_leaves(root, tree) for root, tree in trees.items()}
    specs = [spec_of(path, leaf) for paths, tree_leaves in leaves.values() for path, leaf in zip(paths, tree_leaves, strict=True)]
    paths = [path for tree_leaves, _ in leaves.values() for path in tree_leaves]
    structure = jax.tree.structure(tuple(trees.values()))

    def call(*values: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(run(*jax.tree.unflatten(structure, values))))

    shapes = guard_tracing(lambda: jax.eval_shape(run, *jax.tree.unflatten(structure, specs)), name)
    by_number = {number: root for root, number in carried.items()}
    results = [
        (path if i in by_number else f"result/{path}", roles[by_number[i]] if i in by_number else Role.OUTPUT)
        for i, part in enumerate(shapes)
        for path in named_leaves(by_number.get(i, str(i)), part)[0]
    ]
    carried_pairs = tuple((i, paths.index(path)) for i, (path, _) in enumerate(results) if path in paths)
    argument_roles = [roles.get(path.partition("/")[0], Role.INPUT) for path in paths]
    return build_program(name, _make_step(call, specs, argument_roles), paths, specs, argument_roles, results, carried_pairs, dims, None)


def _make_step(call: Callable[..., tuple[Any, ...]], specs: list[Any], roles: list[Role]) -> Step:
    state = [spec for spec, role in zip(specs, roles, strict=True) if role in (Role.PARAMETER, Role.OPTIMIZER_STATE)]
    inputs: list[Synthetic] = [
        synthesize(spec) for spec, role in zip(specs, roles, strict=True) if role not in (Role.PARAMETER, Role.OPTIMIZER_STATE)
    ]
    zeros = partial(jax.tree.map, lambda spec: jnp.zeros(spec.shape, spec.dtype))
    return Step(call, lambda _key, _given: tuple(zeros(state)), lambda _step: tuple(make_input() for make_input in inputs))
