"""Check a pipelined step against its reference: the same micro-batches in sequence on one device, without a pipeline."""

from collections.abc import Callable, Iterable, Sequence
from math import ceil, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workbench.core.pipeline_spec import plan_input_splits
from workbench.core.program import Program
from workbench.core.tensor import Role, itemsize
from workbench.engine.mpmd.mpmd_step import MpmdStep
from workbench.engine.spmd.against_unsharded import (
    StepCheck,
    count_not_numbers,
    explained_error,
    free_bytes,
    largest_epsilon,
    largest_gap,
    largest_magnitude,
    move_by_rounding,
    relative,
)
from workbench.engine.spmd.compiled_step import CompiledStep
from workbench.tracing.grad_accumulation.accumulate_gradients import grad_accumulation_step
from workbench.tracing.grad_accumulation.micro_batch_marks import micro_batch_leaves
from workbench.units import format_bytes

StepResults = tuple[Any, Sequence[Any]]
"""Loss and state after a step."""


def why_not(program: Program) -> str:
    """Return the reason why one device cannot run the micro-batches in sequence; empty if it can."""
    argument_bytes = sum(ceil(prod(tensor.shape) * itemsize(tensor.dtype)) for tensor in program.arguments)
    gradient_bytes = sum(4 * prod(tensor.shape) for tensor in program.arguments if tensor.role is Role.PARAMETER)
    needed_bytes, free = (
        2 * argument_bytes + 2 * gradient_bytes,
        free_bytes(jax.local_devices()[0]),
    )  # old and new arguments; a gradient and the gradient sum
    if jax.process_count() > 1:
        return "the results are on the devices of several processes"
    if needed_bytes > free:
        return f"the step without a pipeline needs at least {format_bytes(needed_bytes)} on one device, which has {format_bytes(free)} free"
    return ""


def largest_error(step: MpmdStep, reference: StepResults | None = None) -> float:
    """Largest error of loss, parameters and state after one step, relative to the largest magnitude of the role."""
    program, count = step.plan.program, step.compilation.micro_batches
    values = step.begin()
    step.feed(values, 0)
    expected_loss, expected = reference or run_reference_step(program, count)
    loss = step.advance(values)
    by_argument = dict(zip(program.state, expected, strict=True))
    results = step.results(values)
    pairs = [(Role.OUTPUT, loss, expected_loss)]
    for name, argument, layer in state_slots(step):
        reference_value = by_argument[argument]
        pairs.append(
            (program.arguments[argument].role, results[name], reference_value if layer is None else reference_value[layer : layer + 1])
        )
    return _relative_error(pairs)


def largest_error_of(step: CompiledStep, program: Program, micro_batches: int, reference: StepResults | None = None) -> float:
    """Largest relative error of a pipeline that is one SPMD program (engine `spmd`); `program` is the original program."""
    loss, state = reference or run_reference_step(program, micro_batches)
    results = step.call(*step.arguments(0))
    assert step.program.step.loss is not None, "a training step has a loss"
    pairs = [(Role.OUTPUT, results[step.program.step.loss], loss)]
    expected = dict(zip(program.state, state, strict=True))
    pairs += [(program.arguments[argument].role, results[i], expected[argument]) for i, argument in program.carried]
    return _relative_error(pairs)


def _relative_error(pairs: Iterable[tuple[Role, Any, Any]]) -> float:
    """Largest difference of two results, relative to the largest magnitude of the second ones of that role."""
    gaps: dict[Role, float] = {}
    scales: dict[Role, float] = {}
    for role, ours, theirs in pairs:
        gaps[role] = max(gaps.get(role, 0.0), largest_gap(np.asarray(ours), np.asarray(theirs)))
        scales[role] = max(scales.get(role, 0.0), largest_magnitude(theirs))
    return relative(gaps, scales)


def state_slots(step: MpmdStep) -> list[tuple[tuple[str, int, int], int, int | None]]:
    """Return (buffer slot, program argument, layer if stacked) of each parameter and optimizer state leaf."""
    program, flat = step.plan.program, step.stages.partition.network.flat
    parameters = [i for i in program.state if program.arguments[i].role is Role.PARAMETER]
    slots: list[tuple[tuple[str, int, int], int, int | None]] = []
    for number, (param_slice, _) in enumerate(flat.param_slices):
        slots.append((("piece", step.stages.owners[number], number), parameters[param_slice.leaf], param_slice.layer))
    for stage, update in enumerate(step.stages.updates):
        slots += [(("state", stage, place), argument, layer) for place, (argument, layer) in enumerate(update.state)]
    return slots


def check_pipeline(program: Program, micro_batches: int, error_from: Callable[[StepResults], float]) -> StepCheck:
    """Compare a pipeline with its reference and with the error explained by rounding.

    The latter is the change of the reference if the state moves by one rounding, measured if the device has memory for
    another state.
    """
    if reason := why_not(program):
        return StepCheck(None, reason=reason)
    reference = run_reference_step(program, micro_batches)
    error, (loss, state) = error_from(reference), reference
    if why_not(program):  # the reference's state now takes memory
        return StepCheck(error)
    epsilon = largest_epsilon(program, jax.devices()[0].platform)
    moved_loss, moved_state = run_reference_step(program, micro_batches, epsilon)
    roles = [Role.OUTPUT, *(program.arguments[argument].role for argument in program.state)]
    sensitivity = _relative_error(zip(roles, (moved_loss, *moved_state), (loss, *state), strict=True))
    return StepCheck(error, explained_error(sensitivity, epsilon), not_numbers=count_not_numbers((loss, *state)))


def run_reference_step(program: Program, micro_batches: int, moved_by: float = 0.0) -> StepResults:
    """Return loss and state after one step on one device, from an initial state moved by a rounding of `moved_by`."""
    splits = plan_input_splits(program, micro_batches)
    leaves = [micro_batch_leaves(leaf, split, micro_batches) for leaf, split in zip(program.step.feed(0), splits, strict=True)]
    with jax.default_device(jax.devices()[0]):
        given = jax.tree.map(jnp.asarray, program.step.given)
        state = jax.jit(program.step.initialize)(jax.random.key(0), given)
        state = tuple(move_by_rounding(state, moved_by)) if moved_by else state
        batches = [[jnp.asarray(parts[i]) for parts in leaves] for i in range(micro_batches)]
        return grad_accumulation_step(program, micro_batches)(state, batches)
