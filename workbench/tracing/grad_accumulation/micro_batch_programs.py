"""A training step in parts, as in pipelines and gradient accumulation: one micro-batch of one stage, and the final
update.

step = micro-batches of every stage, their gradients summed -> sum over the replicas -> optimizer -> parameters
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.extend import core as jex_core

from workbench.core.program import Program, Step
from workbench.core.tensor import Role
from workbench.tracing.leaves import named_leaves, spec_of
from workbench.tracing.trace_function import Dims, Synthetic, build_program, guard_tracing, synthesize

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
