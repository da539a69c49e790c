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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
from jax.extend import core as jex_core

from workbench.tracing.jaxpr.equations import closed_jaxpr, select_needed, variables
from workbench.tracing.jaxpr.inline_jaxpr import inline
from workbench.tracing.stage_partition.linearized import LinearizedStage, linearize_stage, select_outputs
from workbench.tracing.stage_partition.stage_shapes import StageValues, spec_of


@dataclass(frozen=True)
class TracedStageTask:
    """`call(*arguments) -> results`, traceable.

    - `reads`: for each argument its group and place in it; arguments that are not read are left out;
    - `specs`: their shapes and types;
    - `gives`: for each result its group (`output_activations`, `loss`, `weight`, `kept`, `pending`, `departing`, `gradient`) and place in
      it;
    - `equations`: what it computes.
    """

    call: Callable[..., tuple[Any, ...]]
    reads: tuple[tuple[str, int], ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    gives: tuple[tuple[str, int], ...]
    equations: Sequence[Any] = field(default=(), compare=False)  # equations have no hash


@dataclass(frozen=True, eq=False)
class StageTasks(StageValues):
    """The tasks of one virtual stage, traced on first use.

    `departing` are the gradients of those input activations that flow back, in the order of `StageFunction.input_activations`; `gradient`
    those of the stage's floating-point parameters, by their place in `StageFunction.param_slices`.
    """

    @cached_property
    def _results(self) -> tuple[tuple[str, int], ...]:
        """The results of the virtual stage's call."""
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
        """The forward pass, which also returns what the backward pass reads."""
        linear = self._linear
        closed = linear.closed
        outvars = [*closed.jaxpr.outvars[: len(self._results)], *linear.kept]
        kept = [("kept", place) for place in range(len(linear.kept))]
        return _make_task(jex_core.ClosedJaxpr(closed.jaxpr.replace(outvars=outvars), closed.consts), self._inputs, (*self._results, *kept))

    def backward(self, *, recompute: bool) -> TracedStageTask:
        """Gradients of the weights and of the stage's inputs."""
        closed, names = self._backward(recompute=recompute)
        return _make_task(closed, names, self._gradients)

    @cached_property
    def forward_and_backward(self) -> TracedStageTask:
        """Both passes of a micro-batch at once, nothing computed twice: what the planner estimates."""
        linear, count, width = self._linear, len(self._inputs), len(self._results)
        arriving = [spec_of(self.partition.values[self.virtual_stage.output_activations[place]].aval) for place in self.arriving]
        outvars = [*linear.closed.jaxpr.outvars[:width], *linear.kept]
        forward = select_outputs(linear.closed, outvars)

        def run(*values: Any) -> tuple[Any, ...]:
            found = forward(*values[:count])
            return (*found[:width], *linear.pull(values[:count], found[width:], values[count:]))

        closed = jax.make_jaxpr(run)(*self.param_slices, *self.batch, *self.input_activations, *arriving)
        names = [*self._inputs, *(("arriving", i) for i in range(len(arriving)))]
        return _make_task(closed, names, (*self._results, *self._gradients))

    def backward_input(self, *, recompute: bool) -> TracedStageTask:
        """Gradients of the stage's inputs, and what `backward_weight` needs besides."""
        return self._halves(recompute=recompute)[0]

    def backward_weight(self, *, recompute: bool) -> TracedStageTask:
        return self._halves(recompute=recompute)[1]

    def find_halves(self, task: TracedStageTask) -> tuple[TracedStageTask, TracedStageTask] | None:
        """Both halves of the backward pass that a task is one of; `None` for any other task."""
        return next((halves for halves in self._split_backwards.values() if any(task is each for each in halves)), None)

    @cached_property
    def _gradients(self) -> tuple[tuple[str, int], ...]:
        return (*(("gradient", place) for place in self.trained), *(("departing", i) for i in range(len(self.departing))))

    def _backward(self, *, recompute: bool) -> tuple[Any, list[tuple[str, int]]]:
        """The backward pass and the names of what it reads; traced once."""
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
        made = {var for eqn in first for var in eqn.outvars}
        in_first = {id(eqn) for eqn in first}
        second = [eqn for eqn in select_needed(eqns, weights) if id(eqn) not in in_first]
        read = [*(var for eqn in second for var in variables(eqn.invars)), *variables(weights)]
        pending = [var for var in dict.fromkeys(read) if var in made]
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
    """A task of only those arguments that its results depend on."""
    jaxpr = closed.jaxpr
    eqns = select_needed(jaxpr.eqns, jaxpr.outvars)
    read = {var for eqn in eqns for var in variables(eqn.invars)} | set(variables(jaxpr.outvars))
    used = [i for i, var in enumerate(jaxpr.invars) if var in read]
    invars = [jaxpr.invars[i] for i in used]
    trimmed = jaxpr.replace(invars=invars, eqns=eqns, debug_info=jaxpr.debug_info.with_unknown_names())
    call = jex_core.jaxpr_as_fun(jex_core.ClosedJaxpr(trimmed, closed.consts))
    reads, specs = tuple(names[i] for i in used), tuple(spec_of(var.aval) for var in invars)
    return TracedStageTask(lambda *values: tuple(call(*values)), reads, specs, tuple(gives), eqns)
