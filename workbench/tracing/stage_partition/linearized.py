"""A stage's forward pass with its residuals, and the backward pass that reads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core

from workbench.tracing.jaxpr.equations import BATCH, BOTH, PARAMETERS, classify_equations, select_needed, variables
from workbench.tracing.stage_partition.stage_shapes import StageValues

Arrays = Sequence[Any]


@dataclass(frozen=True, eq=False)
class LinearizedStage:
    """A virtual stage's forward pass with its derivative.

    `closed(*inputs) -> (*results, *residuals)`; `kept` are the residuals that the network proper makes, each once. Others are inputs or
    constants, or follow from weights or batch alone (a cast of weights): those are made again, not kept of every micro-batch.
    `pull(inputs, kept, arriving) -> (*gradients, *departing)`.
    """

    closed: Any
    kept: tuple[Any, ...]
    keep: Callable[..., list[Any]]
    pull: Callable[[Arrays, Arrays, Arrays], tuple[Any, ...]]


def linearize_stage(stage: StageValues) -> LinearizedStage:
    """The derivative of a virtual stage, with respect to its trained parameter slices and its inputs that have gradients."""
    closed, structure, results = _trace_residuals(stage)
    residuals = closed.jaxpr.outvars[len(results) :]
    inputs = {var: i for i, var in enumerate(closed.jaxpr.invars)}
    constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    made = list(dict.fromkeys(var for var in variables(residuals) if var not in inputs and var not in constants))
    part = _classify_variables(stage, closed)
    kept = tuple(var for var in made if part[var] == BOTH)
    again = [var for var in made if part[var] != BOTH]
    make_again = select_outputs(closed, again)

    def pull(values: Arrays, kept_values: Arrays, arriving: Arrays) -> tuple[Any, ...]:
        known = constants | dict(zip(again, make_again(*values), strict=True)) | dict(zip(kept, kept_values, strict=True))
        known |= {var: values[i] for var, i in inputs.items()}
        transpose = jax.tree.unflatten(structure, [_lookup(known, atom) for atom in residuals])
        gradients, departing = transpose(_make_cotangents(stage, results, arriving))
        return (*gradients, *departing)

    return LinearizedStage(closed, kept, select_outputs(closed, kept), pull)


def _trace_residuals(stage: StageValues) -> tuple[Any, Any, list[jax.ShapeDtypeStruct]]:
    """The forward pass with its residuals, their structure in the pullback (a pytree), and the results' shapes and types."""
    call, virtual_stage = stage.virtual_stage.call, stage.virtual_stage
    param_slices, batch = len(virtual_stage.param_slices), len(virtual_stage.batch)
    traced: list[tuple[Any, list[jax.ShapeDtypeStruct]]] = []  # by the trace, as it goes

    def run(*values: Any) -> Any:
        input_activations = values[param_slices + batch :]

        def call_on_floats(trained: Arrays, flowing: Arrays) -> list[Any]:
            weights, all_inputs = list(values[:param_slices]), list(input_activations)
            for place, value in zip(stage.trained, trained, strict=True):
                weights[place] = value
            for place, value in zip(stage.departing, flowing, strict=True):
                all_inputs[place] = value
            return call(*weights, *values[param_slices : param_slices + batch], *all_inputs)

        found, pull = jax.vjp(call_on_floats, [values[i] for i in stage.trained], [input_activations[i] for i in stage.departing])
        leaves, structure = jax.tree.flatten(pull)
        traced.append((structure, [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in found]))
        return (*found, *leaves)

    closed = jax.make_jaxpr(run)(*stage.param_slices, *stage.batch, *stage.input_activations)
    return closed, *traced[0]


def _classify_variables(stage: StageValues, closed: Any) -> dict[Any, int]:
    """For each variable, whether it depends on parameters, on the batch, or on both."""
    param_slices, batch = len(stage.virtual_stage.param_slices), len(stage.virtual_stage.batch)
    kinds = [PARAMETERS] * param_slices + [BATCH] * batch
    part = {var: kinds[i] if i < len(kinds) else BOTH for i, var in enumerate(closed.jaxpr.invars)}
    classify_equations(closed.jaxpr.eqns, part)
    return part


def _lookup(known: Mapping[Any, Any], atom: Any) -> Any:
    return jnp.asarray(atom.val, atom.aval.dtype) if isinstance(atom, jex_core.Literal) else known[atom]


def select_outputs(closed: Any, outvars: Sequence[Any]) -> Callable[..., list[Any]]:
    """A function that computes some of a jaxpr's variables."""
    jaxpr = closed.jaxpr.replace(
        outvars=list(outvars), eqns=select_needed(closed.jaxpr.eqns, outvars), debug_info=closed.jaxpr.debug_info.with_unknown_names()
    )
    function: Callable[..., list[Any]] = jex_core.jaxpr_as_fun(jex_core.ClosedJaxpr(jaxpr, closed.consts))
    return function


def _make_cotangents(stage: StageValues, results: Sequence[jax.ShapeDtypeStruct], arriving: Arrays) -> list[Any]:
    """The cotangent of each result: what arrived, one for the loss, nothing for the weight and for whole numbers."""
    given = dict(zip(stage.arriving, arriving, strict=True))
    found = []
    for place, spec in enumerate(results):
        if place in given:
            found.append(given[place])
        elif not jnp.issubdtype(spec.dtype, jnp.inexact):
            found.append(jnp.zeros(spec.shape, jax.dtypes.float0))
        elif place == len(stage.virtual_stage.output_activations):
            found.append(jnp.ones(spec.shape, spec.dtype))
        else:
            found.append(jnp.zeros(spec.shape, spec.dtype))
    return found
