"""The tasks of a stage for one micro-batch, as flat functions: forward, with or without residuals for the backward pass; backward, whole or
as the gradient of its input (which another stage waits for) and that of its weights (which none does).

Arguments are named groups of arrays, in this order, each task taking those it needs:

    param_slices       the stage's parameters
    batch              the leaves of the micro-batch that it reads
    input_activations  values from earlier stages
    kept               residuals that the forward pass left for the backward one (without recomputation)
    arriving           gradients of the stage's outputs, in the order of `StageFunction.output_activations`, those that flow back
    pending            what the gradient of the input left for that of the weights

Splitting a backward pass (zero bubble, Qi et al. 2024): the equations that the gradient of the input depends on are one task; the
others, mostly the dots that make weight gradients, are the other, and what they read of the first is passed on as `pending`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex_core

from workbench.tracing.jaxpr.equations import BATCH, BOTH, PARAMETERS, classify_equations, closed_jaxpr, inline, select_needed, variables
from workbench.tracing.stage_partition.partition_network import StageValues, spec_of

# A stage's forward pass with its residuals, and the backward pass that reads them.

Arrays = Sequence[Any]


@dataclass(frozen=True, eq=False)
class LinearizedStage:
    """A virtual stage's forward pass with its derivative.

    `closed(*inputs) -> (*results, *residuals)`; `kept` are the distinct residuals made by the network proper. Others
    are inputs or constants, or depend on weights or batch alone (a cast of weights): these are recomputed, not kept per
    micro-batch. `pull(inputs, kept, arriving) -> (*gradients, *departing)`.
    """

    closed: Any
    kept: tuple[Any, ...]
    keep: Callable[..., list[Any]]
    pull: Callable[[Arrays, Arrays, Arrays], tuple[Any, ...]]


def linearize_stage(stage: StageValues) -> LinearizedStage:
    """The derivative of a virtual stage with respect to its trained parameter slices and its inputs with gradients."""
    closed, structure, results = _trace_residuals(stage)
    residuals = closed.jaxpr.outvars[len(results) :]
    inputs = {var: i for i, var in enumerate(closed.jaxpr.invars)}
    constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    made = list(dict.fromkeys(var for var in variables(residuals) if var not in inputs and var not in constants))
    part = _classify_variables(stage, closed)
    kept = tuple(var for var in made if part[var] == BOTH)
    recomputed = [var for var in made if part[var] != BOTH]
    recompute = select_outputs(closed, recomputed)

    def pull(values: Arrays, kept_values: Arrays, arriving: Arrays) -> tuple[Any, ...]:
        known = constants | dict(zip(recomputed, recompute(*values), strict=True)) | dict(zip(kept, kept_values, strict=True))
        known |= {var: values[i] for var, i in inputs.items()}
        transpose = jax.tree.unflatten(structure, [_lookup(known, atom) for atom in residuals])
        gradients, departing = transpose(_make_cotangents(stage, results, arriving))
        return (*gradients, *departing)

    return LinearizedStage(closed, kept, select_outputs(closed, kept), pull)


def _trace_residuals(stage: StageValues) -> tuple[Any, Any, list[jax.ShapeDtypeStruct]]:
    """The forward pass with its residuals, their pytree in the pullback, and the results' shapes and types."""
    call, virtual_stage = stage.virtual_stage.call, stage.virtual_stage
    param_slices, batch = len(virtual_stage.param_slices), len(virtual_stage.batch)
    traced: list[tuple[Any, list[jax.ShapeDtypeStruct]]] = []  # filled during the trace

    def run(*values: Any) -> Any:
        input_activations = values[param_slices + batch :]

        def call_on_floats(trained: Arrays, flowing: Arrays) -> list[Any]:
            weights, all_inputs = list(values[:param_slices]), list(input_activations)
            for place, value in zip(stage.trained, trained, strict=True):
                weights[place] = value
            for place, value in zip(stage.departing, flowing, strict=True):
                all_inputs[place] = value
            return call(*weights, *values[param_slices : param_slices + batch], *all_inputs)

        outputs, pull = jax.vjp(call_on_floats, [values[i] for i in stage.trained], [input_activations[i] for i in stage.departing])
        leaves, structure = jax.tree.flatten(pull)
        traced.append((structure, [jax.ShapeDtypeStruct(output.shape, output.dtype) for output in outputs]))
        return (*outputs, *leaves)

    closed = jax.make_jaxpr(run)(*stage.param_slices, *stage.batch, *stage.input_activations)
    return closed, *traced[0]


def _classify_variables(stage: StageValues, closed: Any) -> dict[Any, int]:
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
    """The cotangent of each result: the arriving one, one for the loss, zero for the weight and for integers."""
    arriving_by_place = dict(zip(stage.arriving, arriving, strict=True))
    cotangents = []
    for place, spec in enumerate(results):
        if place in arriving_by_place:
            cotangents.append(arriving_by_place[place])
        elif not jnp.issubdtype(spec.dtype, jnp.inexact):
            cotangents.append(jnp.zeros(spec.shape, jax.dtypes.float0))
        elif place == len(stage.virtual_stage.output_activations):
            cotangents.append(jnp.ones(spec.shape, spec.dtype))
        else:
            cotangents.append(jnp.zeros(spec.shape, spec.dtype))
    return cotangents


@dataclass(frozen=True)
class TracedStageTask:
    """`call(*arguments) -> results`, traceable.

    - `reads`: for each argument its group and position; unread arguments are left out;
    - `specs`: their shapes and types;
    - `gives`: for each result its group (`output_activations`, `loss`, `weight`, `kept`, `pending`, `departing`,
      `gradient`) and position;
    - `equations`: its equations.
    """

    call: Callable[..., tuple[Any, ...]]
    reads: tuple[tuple[str, int], ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    gives: tuple[tuple[str, int], ...]
    equations: Sequence[Any] = field(default=(), compare=False)  # equations have no hash


@dataclass(frozen=True, eq=False)
class StageTasks(StageValues):
    """The tasks of one virtual stage, traced on first use.

    `departing` are the gradients of input activations that flow back, in the order of
    `StageFunction.input_activations`; `gradient` those of floating-point parameters, by position in
    `StageFunction.param_slices`.
    """

    @cached_property
    def _results(self) -> tuple[tuple[str, int], ...]:
        names = [("output_activations", place) for place in range(len(self.virtual_stage.output_activations))]
        weighs = self.partition.network.flat.weight is not None
        return (*names, *([("loss", 0)] if self.is_last else []), *([("weight", 0)] if self.is_last and weighs else []))

    @cached_property
    def _inputs(self) -> list[tuple[str, int]]:
        groups = {"param_slices": self.param_slices, "batch": self.batch, "input_activations": self.input_activations}
        return [(name, place) for name, specs in groups.items() for place in range(len(specs))]

    @cached_property
    def _linear(self) -> LinearizedStage:
        return linearize_stage(self)

    @cached_property
    def forward(self) -> TracedStageTask:
        closed = jax.make_jaxpr(self.virtual_stage.call)(*self.param_slices, *self.batch, *self.input_activations)
        return _make_task(closed, self._inputs, self._results)

    @cached_property
    def forward_keeping(self) -> TracedStageTask:
        """The forward pass, which also returns the residuals of the backward pass."""
        linear = self._linear
        closed = linear.closed
        outvars = [*closed.jaxpr.outvars[: len(self._results)], *linear.kept]
        kept = [("kept", place) for place in range(len(linear.kept))]
        return _make_task(jex_core.ClosedJaxpr(closed.jaxpr.replace(outvars=outvars), closed.consts), self._inputs, (*self._results, *kept))

    def backward(self, *, recompute: bool) -> TracedStageTask:
        closed, names = self._backward(recompute=recompute)
        return _make_task(closed, names, self._gradients)

    @cached_property
    def forward_and_backward(self) -> TracedStageTask:
        """Both passes of a micro-batch at once without recomputation, for estimates."""
        linear, count, width = self._linear, len(self._inputs), len(self._results)
        arriving = [spec_of(self.partition.values[self.virtual_stage.output_activations[place]].aval) for place in self.arriving]
        outvars = [*linear.closed.jaxpr.outvars[:width], *linear.kept]
        forward = select_outputs(linear.closed, outvars)

        def run(*values: Any) -> tuple[Any, ...]:
            outputs = forward(*values[:count])
            return (*outputs[:width], *linear.pull(values[:count], outputs[width:], values[count:]))

        closed = jax.make_jaxpr(run)(*self.param_slices, *self.batch, *self.input_activations, *arriving)
        names = [*self._inputs, *(("arriving", i) for i in range(len(arriving)))]
        return _make_task(closed, names, (*self._results, *self._gradients))

    def backward_input(self, *, recompute: bool) -> TracedStageTask:
        """Gradients of the stage's inputs, and the values that `backward_weight` needs from it."""
        return self._halves(recompute=recompute)[0]

    def backward_weight(self, *, recompute: bool) -> TracedStageTask:
        return self._halves(recompute=recompute)[1]

    def find_halves(self, task: TracedStageTask) -> tuple[TracedStageTask, TracedStageTask] | None:
        """Both halves of the backward pass that a task belongs to; `None` for any other task."""
        return next((halves for halves in self._split_backwards.values() if any(task is half for half in halves)), None)

    @cached_property
    def _gradients(self) -> tuple[tuple[str, int], ...]:
        return (*(("gradient", place) for place in self.trained), *(("departing", i) for i in range(len(self.departing))))

    def _backward(self, *, recompute: bool) -> tuple[Any, list[tuple[str, int]]]:
        if recompute not in self._backwards:
            self._backwards[recompute] = self._trace_backward(recompute=recompute)
        return self._backwards[recompute]

    @cached_property
    def _backwards(self) -> dict[bool, tuple[Any, list[tuple[str, int]]]]:
        return {}

    def _trace_backward(self, *, recompute: bool) -> tuple[Any, list[tuple[str, int]]]:
        linear = self._linear
        arriving = [spec_of(self.partition.values[self.virtual_stage.output_activations[place]].aval) for place in self.arriving]
        names = [*self._inputs, *([] if recompute else [("kept", i) for i in range(len(linear.kept))])]
        names += [("arriving", i) for i in range(len(arriving))]
        count = len(self._inputs)

        def run(*values: Any) -> tuple[Any, ...]:
            inputs = values[:count]
            kept = linear.keep(*inputs) if recompute else values[count : count + len(linear.kept)]
            return linear.pull(inputs, kept, values[len(values) - len(arriving) :])

        specs = [
            *self.param_slices,
            *self.batch,
            *self.input_activations,
            *([] if recompute else [spec_of(var.aval) for var in linear.kept]),
            *arriving,
        ]
        return jax.make_jaxpr(run)(*specs), names

    def _halves(self, *, recompute: bool) -> tuple[TracedStageTask, TracedStageTask]:
        if recompute not in self._split_backwards:
            self._split_backwards[recompute] = self._split_backward(recompute=recompute)
        return self._split_backwards[recompute]

    @cached_property
    def _split_backwards(self) -> dict[bool, tuple[TracedStageTask, TracedStageTask]]:
        return {}

    def _split_backward(self, *, recompute: bool) -> tuple[TracedStageTask, TracedStageTask]:
        closed, names = self._backward(recompute=recompute)
        eqns, constants, outvars = inline(closed)
        weights, inputs = outvars[: len(self.trained)], outvars[len(self.trained) :]
        first = select_needed(eqns, inputs)
        produced = {var for eqn in first for var in eqn.outvars}
        in_first = {id(eqn) for eqn in first}
        second = [eqn for eqn in select_needed(eqns, weights) if id(eqn) not in in_first]
        read = [*(var for eqn in second for var in variables(eqn.invars)), *variables(weights)]
        pending = [var for var in dict.fromkeys(read) if var in produced]
        pending_names = [("pending", i) for i in range(len(pending))]
        departing_names = [("departing", i) for i in range(len(inputs))]
        arguments = list(closed.jaxpr.invars)
        input_half = closed_jaxpr(closed.jaxpr, constants, arguments, first, [*inputs, *pending])
        weight_half = closed_jaxpr(closed.jaxpr, constants, [*arguments, *pending], second, weights)
        gradients = [("gradient", place) for place in self.trained]
        return _make_task(input_half, names, [*departing_names, *pending_names]), _make_task(
            weight_half, [*names, *pending_names], gradients
        )


def _make_task(closed: Any, names: Sequence[tuple[str, int]], gives: Sequence[tuple[str, int]]) -> TracedStageTask:
    """A task with only the arguments that its results depend on."""
    jaxpr = closed.jaxpr
    eqns = select_needed(jaxpr.eqns, jaxpr.outvars)
    read = {var for eqn in eqns for var in variables(eqn.invars)} | set(variables(jaxpr.outvars))
    used = [i for i, var in enumerate(jaxpr.invars) if var in read]
    invars = [jaxpr.invars[i] for i in used]
    trimmed = jaxpr.replace(invars=invars, eqns=eqns, debug_info=jaxpr.debug_info.with_unknown_names())
    call = jex_core.jaxpr_as_fun(jex_core.ClosedJaxpr(trimmed, closed.consts))
    reads, specs = tuple(names[i] for i in used), tuple(spec_of(var.aval) for var in invars)
    return TracedStageTask(lambda *values: tuple(call(*values)), reads, specs, tuple(gives), eqns)
