"""First steps of the zoo's programs by plain `jit` on one device: what a sharded step is held against. Made once for all files of tests."""

import functools
from typing import NamedTuple

import jax
import numpy as np

from workbench.core.program import Program
from workbench.engine.spmd.compiled_step import CompiledStep
from workbench.engine.spmd.device_mesh import host_value, put_sharded
from workbench.models import build

Arguments = tuple[tuple[str, object], ...]


BATCH = 1
"""The batch to compare steps on. Batch 0 has a tie in `mixture`: two tokens compete for an expert's last place and their weights differ
by one part in ten million, so that the order of a sum decides; in this one they differ by 8e-5 at least."""


class Unsharded(NamedTuple):
    """A program, the arguments of its first step, and what that gives."""

    program: Program
    arguments: dict[int, np.ndarray]
    results: list[np.ndarray]


@functools.cache
def zoo_program(name: str, arguments: Arguments = ()) -> Program:
    return build(name, **dict(arguments))


@functools.cache
def unsharded(name: str, arguments: Arguments = (), batch: int = 0) -> Unsharded:
    """The step on the batch of this number."""
    program = zoo_program(name, arguments)
    return reference_of(program, batch, _state(name, arguments))


@functools.cache
def _state(name: str, arguments: Arguments) -> tuple[np.ndarray, ...]:
    return state_of(zoo_program(name, arguments))


def state_of(program: Program) -> tuple[np.ndarray, ...]:
    """The state a first step starts from."""
    state = jax.jit(program.step.initialize)(jax.random.key(0), program.step.given) if program.state else ()
    return tuple(map(np.asarray, state))


def reference_of(program: Program, batch: int, state: tuple[np.ndarray, ...]) -> Unsharded:
    leaves = map(np.asarray, program.step.feed(batch))
    values = dict(zip(program.state + program.inputs, (*state, *leaves), strict=True))
    found = jax.jit(program.step.call)(*(values[i] for i in range(len(values))))
    return Unsharded(program, values, [np.asarray(each) for each in found])


def sharded_results(step: CompiledStep, arguments: dict[int, np.ndarray]) -> list[np.ndarray]:
    """Of the compiled step, which is given its state: how it makes that itself is another matter, and takes as long to compile."""
    given = [put_sharded(np.array(arguments[i]), sharding) for i, sharding in enumerate(step.shardings)]
    return [host_value(each) for each in step.advance(given, None)]
