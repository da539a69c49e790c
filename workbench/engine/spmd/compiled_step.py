"""A plan made ready to run: its step compiled for the attached devices, its state created sharded, its inputs fed per shard; a pipelined
one as one program for all devices."""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import NamedSharding

from workbench.core.program import Program
from workbench.core.tensor import Tensor
from workbench.engine.spmd.device_mesh import argument_shardings, device_mesh, named_sharding, put_sharded
from workbench.engine.spmd.explicit_axes import lower_first, step_calls
from workbench.errors import EngineError
from workbench.pipeline.staged_program import as_spmd_program
from workbench.plan.plan import Plan
from workbench.propagation import argument_placements, result_placements, write_layout

Arrays = tuple[jax.Array, ...]


@dataclass(frozen=True)
class CompiledStep:
    """A compiled step, `compiled(*arguments) -> results`, and where its arguments come from.

    - `shardings`: one per argument of the program;
    - `init_state() -> state arrays`, in the order of `program.state`; each call makes them anew;
    - `call(*arguments)` runs it: it is `compiled`, but where that does not take the arguments JAX makes (`_is_packed`).
    """

    plan: Plan
    mesh: jax.sharding.Mesh
    shardings: tuple[NamedSharding, ...]
    compiled: jax.stages.Compiled
    init_state: Callable[[], Arrays]
    compile_seconds: float
    call: Callable[..., Any]

    @property
    def program(self) -> Program:
        return self.plan.program

    def arguments(self, step: int) -> list[jax.Array]:
        """All arguments of a first step, with the inputs of step number `step`; free the old ones before, as they are as large."""
        arguments: list[Any] = [None] * len(self.program.arguments)
        for i, array in zip(self.program.state, self.init_state(), strict=True):
            arguments[i] = array
        self.feed(arguments, step)
        return arguments

    def inputs(self, step: int) -> Arrays:
        """The inputs of step number `step`, each device's part sent to it alone."""
        program = self.program
        leaves = program.step.feed(step)
        arrays = tuple(put_sharded(leaf, self.shardings[i]) for i, leaf in zip(program.inputs, leaves, strict=True))
        for i, array in zip(program.inputs, arrays, strict=True):
            _verify_input(program.arguments[i], array, step)
        return arrays

    def feed(self, arguments: list[jax.Array], step: int) -> None:
        """Put the inputs of step number `step` among the arguments."""
        for i, array in zip(self.program.inputs, self.inputs(step), strict=True):
            arguments[i] = array

    def advance(self, arguments: list[jax.Array], feed_next: int | None) -> Arrays:
        """Run one step; `arguments` become those of the next, with the inputs of step number `feed_next` if there is one.

        The host feeds while the devices work; every result is there on return.
        """
        results: Arrays = tuple(self.call(*arguments))
        for result, argument in self.program.carried:
            arguments[argument] = results[result]
        if feed_next is not None:
            self.feed(arguments, feed_next)
        return jax.block_until_ready(results)


def compile_step(plan: Plan) -> CompiledStep:
    """Compile the plan for the attached devices; raises `EngineError` if there are too few. No state is made yet."""
    program, mesh = plan.program, device_mesh(plan)
    shardings = argument_shardings(plan, mesh)
    init_state = _make_init_state(program, shardings)
    is_packed = _is_packed(program) and mesh.devices.flat[0].platform == "cpu"
    if is_packed:
        _verify_packed(plan)
    start = time.perf_counter()
    compiled = lower_step(plan, mesh).compile()
    call = jit_step(plan, mesh) if is_packed else compiled
    return CompiledStep(plan, mesh, shardings, compiled, init_state, time.perf_counter() - start, call)


_PACKED = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")


def _is_packed(program: Program) -> bool:
    """Whether an argument has elements of less than a byte. A step compiled ahead of time for CPUs asks for arrays that are laid out packed
    (JAX 0.10 and 0.11), and JAX makes none that say they are; under `jit` it takes those that it makes."""
    return any(each.dtype in _PACKED for each in program.arguments)


def _verify_packed(plan: Plan) -> None:
    """Raises `EngineError` for packed arguments under a layout that is written into the lowered module: `jit` would not read it."""
    if plan.layout.is_annotated:
        packed = next(each for each in plan.program.arguments if each.dtype in _PACKED)
        raise EngineError(
            f"`{packed}` has elements smaller than a byte; on CPUs JAX runs such a step only if the layout has only rules and "
            f"overrides, but this layout is: `{plan.layout}`.",
            [
                "remove constraints, priorities, groups and barriers to run here",
                "store it as int8 and cast in the step",
                "run on a TPU or GPU",
            ],
        )


def lower_step(plan: Plan, mesh: jax.sharding.Mesh) -> jax.stages.Lowered:
    """The step lowered over this mesh: its arguments sharded, its state donated, with everything the layout says.

    What JAX cannot express (`Layout.is_plain`) is written into the lowered module, where the compiler's partitioner reads it; so are
    constraints, because no equation of the step names a value that JAX makes as it lowers (the halves of a `cumsum`, a rotation). Raises
    `EngineError` for partial sums between steps.
    """
    _verify_whole(plan)
    step = _lower(plan, mesh)
    if plan.layout.is_annotated:
        write_layout(step.compiler_ir("stablehlo"), plan)
    return step


def _lower(plan: Plan, mesh: jax.sharding.Mesh) -> jax.stages.Lowered:
    specs, fresh = argument_specs(plan.program), plan.layout.is_annotated

    def lower(call: Callable[..., Any]) -> jax.stages.Lowered:
        found: jax.stages.Lowered = jit_step(plan, mesh, call, fresh_function=fresh).lower(*specs)
        return found

    return lower_first(lower, plan, mesh)


def jit_step(plan: Plan, mesh: jax.sharding.Mesh, call: Callable[..., Any] | None = None, *, fresh_function: bool = False) -> Any:
    """The step under `jit`: arguments and results in their shardings, constraints applied, state donated. With `fresh_function`, wrapped in
    a new function, its constraints yet to be written: JAX lowers a function once and caches the module."""
    program, call = plan.program, call or step_calls(plan, mesh)[0]
    shardings = argument_shardings(plan, mesh)
    if fresh_function:
        call = functools.wraps(call)(lambda *arguments, inner=call: inner(*arguments))
    carried = dict(program.carried)
    fixed = {result: named_sharding(each, mesh) for result, each in result_placements(plan).items()}
    fixed |= {result: shardings[argument] for result, argument in carried.items() if argument in program.on_host}
    return jax.jit(
        call,
        in_shardings=shardings,
        out_shardings=tuple(fixed.get(result) for result in range(len(program.results))),
        donate_argnums=tuple(carried.values()),
        keep_unused=True,
    )


def _verify_whole(plan: Plan) -> None:
    places = (*zip(plan.program.arguments, argument_placements(plan), strict=True),)
    places += tuple((plan.program.results[i], each) for i, each in result_placements(plan).items())
    for tensor, sharding in places:
        if sharding.unreduced:
            raise EngineError(
                f"`{tensor.path}` would be a partial sum over `{'+'.join(sharding.unreduced)}` between steps; "
                "a run passes complete values between steps.",
                [
                    "set the partial sum on an intermediate value, `@path=[...] unreduced:...`",
                    f"remove `unreduced` from `{tensor.path}`",
                ],
            )


def _make_init_state(program: Program, shardings: tuple[NamedSharding, ...]) -> Callable[[], Arrays]:
    """A function that makes the state under `jit` with its shardings, so that no device ever holds all of it; the arrays the user gave are
    fed per shard."""
    step = program.step
    if not program.state:
        return tuple

    def initialize(given: tuple[Any, ...]) -> tuple[Any, ...]:
        return step.initialize(jax.random.key(0), given)

    jitted = jax.jit(initialize, out_shardings=tuple(shardings[i] for i in program.state))
    places = tuple(shardings[i] for i in step.given_indices)

    def init_state() -> Arrays:
        return _copy_shared_buffers(jitted(tuple(map(put_sharded, step.given, places))))

    return init_state


def _copy_shared_buffers(arrays: Arrays) -> Arrays:
    """Copies of arrays that share a buffer with another (an average that starts as the parameters, say): a buffer is donated only once."""
    seen: set[int] = set()
    separate = []
    for array in arrays:
        pointer = array.addressable_shards[0].data.unsafe_buffer_pointer() if array.size else id(array)
        separate.append(jax.numpy.copy(array) if pointer in seen else array)
        seen.add(pointer)
    return tuple(separate)


def _verify_input(tensor: Tensor, array: jax.Array, step: int) -> None:
    if array.shape != tensor.shape or array.dtype.name != tensor.dtype:
        raise EngineError(
            f"The batch of step {step} has {array.dtype.name}{list(array.shape)} for `{tensor}`.",
            ["give every batch the shape and type the program was traced with"],
        )


def argument_specs(program: Program) -> list[jax.ShapeDtypeStruct]:
    """Shapes and types of all arguments, for lowering; nothing is allocated."""
    specs: list[Any] = [None] * len(program.arguments)
    step = program.step
    state = jax.eval_shape(lambda given: step.initialize(jax.random.key(0), given), step.given) if program.state else ()
    inputs = jax.eval_shape(lambda *leaves: leaves, *step.feed(0))
    for i, spec in zip(program.state + program.inputs, (*state, *inputs), strict=True):
        specs[i] = spec
    return specs


# The SPMD pipeline engine: a pipelined plan as one program for all devices (`workbench.pipeline.staged_program`),
# on one host or on several. The ordinary engine compiles and runs it.


def spmd_plan(plan: Plan, mesh: jax.sharding.Mesh | None = None) -> Plan:
    """The plan whose step is the SPMD form of the pipeline, over these devices or the attached ones; it has no pipeline any more.

    Raises `PipelineError` where its layers do not allow that.
    """
    return as_spmd_program(plan, mesh or device_mesh(plan))
