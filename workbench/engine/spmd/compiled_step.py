"""A plan ready to run: step compiled for the attached devices, state created sharded, inputs fed per shard. A pipeline
is one program for all devices.

Steps with explicit mesh axes are inside a `jit` over the plan's mesh, whose axes are left to the partitioner. The types
of values name mesh axes, and JAX checks them while it traces (`jax.sharding.explicit_axes`; JAX, "Explicit sharding").
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from workbench.core.program import Program
from workbench.core.tensor import Tensor
from workbench.engine.spmd.device_mesh import argument_shardings, device_mesh, named_sharding, put_sharded
from workbench.errors import EngineError
from workbench.pipeline.staged_program import as_spmd_program
from workbench.plan.plan import Plan
from workbench.propagation import argument_placements, result_placements, write_layout
from workbench.tracing.constrain import partition_spec

Arrays = tuple[jax.Array, ...]


@dataclass(frozen=True)
class CompiledStep:
    """A compiled step, `compiled(*arguments) -> results`, and the source of its arguments.

    - `shardings`: one per argument of the program;
    - `init_state() -> state arrays`, in the order of `program.state`; each call creates them anew;
    - `call(*arguments)` runs the step: it is `compiled`, unless that rejects arrays created by JAX (`_is_packed`).
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
        """Return all arguments of a first step with the inputs of step `step`; free old ones of that size before."""
        arguments: list[Any] = [None] * len(self.program.arguments)
        for i, array in zip(self.program.state, self.init_state(), strict=True):
            arguments[i] = array
        self.feed(arguments, step)
        return arguments

    def inputs(self, step: int) -> Arrays:
        """Return the inputs of step `step`; each device gets only its part."""
        program = self.program
        leaves = program.step.feed(step)
        arrays = tuple(put_sharded(leaf, self.shardings[i]) for i, leaf in zip(program.inputs, leaves, strict=True))
        for i, array in zip(program.inputs, arrays, strict=True):
            _verify_input(program.arguments[i], array, step)
        return arrays

    def feed(self, arguments: list[jax.Array], step: int) -> None:
        for i, array in zip(self.program.inputs, self.inputs(step), strict=True):
            arguments[i] = array

    def advance(self, arguments: list[jax.Array], feed_next: int | None) -> Arrays:
        """Run one step; `arguments` become those of the next, with the inputs of step `feed_next`, if any.

        The host feeds while the devices work; all results are ready on return.
        """
        results: Arrays = tuple(self.call(*arguments))
        for result, argument in self.program.carried:
            arguments[argument] = results[result]
        if feed_next is not None:
            self.feed(arguments, feed_next)
        return jax.block_until_ready(results)


def compile_step(plan: Plan) -> CompiledStep:
    """Compile the plan for the attached devices; raises `EngineError` if there are too few. Creates no state."""
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
    """Return whether an argument has elements smaller than a byte.

    Steps compiled ahead of time for CPUs require arrays declared as packed (JAX 0.10 and 0.11), which JAX does not
    create; `jit` accepts others.
    """
    return any(argument.dtype in _PACKED for argument in program.arguments)


def _verify_packed(plan: Plan) -> None:
    """Raises `EngineError` for packed arguments under a layout in the lowered module, which `jit` ignores."""
    if plan.layout.is_annotated:
        packed = next(argument for argument in plan.program.arguments if argument.dtype in _PACKED)
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
    """Lower the step over this mesh: arguments sharded, state donated, all layout statements applied.

    Statements that JAX cannot express (`Layout.is_plain`) are written into the lowered module for the compiler's
    partitioner; so are constraints, because no equation of the step names values that JAX creates during lowering (the
    halves of a `cumsum`, a rotation). Raises `EngineError` for partial sums between steps.
    """
    _verify_whole(plan)
    step = _lower(plan, mesh)
    if plan.layout.is_annotated:
        write_layout(step.compiler_ir("stablehlo"), plan)
    return step


def _lower(plan: Plan, mesh: jax.sharding.Mesh) -> jax.stages.Lowered:
    specs, fresh = argument_specs(plan.program), plan.layout.is_annotated

    def lower(call: Callable[..., Any]) -> jax.stages.Lowered:
        lowered: jax.stages.Lowered = jit_step(plan, mesh, call, fresh_function=fresh).lower(*specs)
        return lowered

    return lower_first(lower, plan, mesh)


def jit_step(plan: Plan, mesh: jax.sharding.Mesh, call: Callable[..., Any] | None = None, *, fresh_function: bool = False) -> Any:
    """Return the step under `jit`: sharded arguments and results, constraints applied, state donated.

    With `fresh_function`, the step is wrapped in a new function and its constraints are not yet written: JAX lowers a
    function once and caches the module.
    """
    program, call = plan.program, call or step_calls(plan, mesh)[0]
    shardings = argument_shardings(plan, mesh)
    if fresh_function:
        call = functools.wraps(call)(lambda *arguments, inner=call: inner(*arguments))
    carried = dict(program.carried)
    fixed = {result: named_sharding(placement, mesh) for result, placement in result_placements(plan).items()}
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
    places += tuple((plan.program.results[i], placement) for i, placement in result_placements(plan).items())
    for tensor, sharding in places:
        if sharding.unreduced:
            raise EngineError(
                f"`{tensor.path}` would be a partial sum over `{'+'.join(sharding.unreduced)}` between steps; "
                "a run passes complete values between steps.",
                ["set the partial sum on an intermediate value, `@path=[...] unreduced:...`", f"remove `unreduced` from `{tensor.path}`"],
            )


def _make_init_state(program: Program, shardings: tuple[NamedSharding, ...]) -> Callable[[], Arrays]:
    """Return a function that creates the state sharded, so that no device holds all; given arrays are fed per shard."""
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
    """Copy arrays that share a buffer, such as an average of the parameters, since a buffer is donated only once."""
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
    """Return shapes and types of all arguments for lowering; nothing is allocated."""
    specs: list[Any] = [None] * len(program.arguments)
    step = program.step
    state = jax.eval_shape(lambda given: step.initialize(jax.random.key(0), given), step.given) if program.state else ()
    inputs = jax.eval_shape(lambda *leaves: leaves, *step.feed(0))
    for i, spec in zip(program.state + program.inputs, (*state, *inputs), strict=True):
        specs[i] = spec
    return specs


# The SPMD pipeline engine runs a pipelined plan as one program for all devices (`workbench.pipeline.staged_program`),
# on one or several hosts. The ordinary engine compiles and runs it.


def spmd_plan(plan: Plan, mesh: jax.sharding.Mesh | None = None) -> Plan:
    """Return the plan with its pipeline as one SPMD program, over these devices or the attached ones.

    Raises `PipelineError` if its layers do not allow that.
    """
    return as_spmd_program(plan, mesh or device_mesh(plan))


Call = Callable[..., Any]


def step_calls(plan: Plan, mesh: jax.sharding.Mesh) -> tuple[Call, ...]:
    """Return the step; for a program with explicit axes its possible forms, one of which JAX accepts.

    Arguments are typed by the plan's layout, else as traced, which reshards them; the mesh is the abstract one of
    functions from another process, else that of these devices.
    """
    program = plan.program
    if not program.step.written.explicit:
        return (program.step.call,)
    planned = [partition_spec(placement) for placement in argument_placements(plan)]
    traced = [PartitionSpec() if sharding is None else partition_spec(sharding) for sharding in program.step.written.shardings]
    meshes = (AbstractMesh(mesh.axis_sizes, mesh.axis_names, mesh.axis_types), mesh.abstract_mesh)
    return tuple(_typed(program.step.call, over, program.step.written.explicit, specs) for specs in (planned, traced) for over in meshes)


def lower_first(lower: Callable[[Call], jax.stages.Lowered], plan: Plan, mesh: jax.sharding.Mesh) -> jax.stages.Lowered:
    """Return `lower(call)` for the first form of the step that JAX accepts.

    Raises the step's error if it has one form, `EngineError` with JAX's first message if it has explicit axes.
    """
    calls, refusals = step_calls(plan, mesh), list[Exception]()
    for call in calls:
        try:
            return lower(call)
        except Exception as error:  # JAX has no public name for its type error
            if len(calls) == 1:
                raise
            refusals.append(error)
    raise EngineError(
        f"`{plan.program.name}` computes over explicit mesh axes, whose types JAX checks, and does not take its arguments so: "
        f"{refusals[0]}",
        ['shard them as they were traced, `layout="as written"`', "make the mesh with `axis_types=(jax.sharding.AxisType.Auto, ...)`"],
    ) from refusals[0]


def _typed(call: Callable[..., Any], mesh: AbstractMesh, axes: Sequence[str], specs: Sequence[PartitionSpec]) -> Callable[..., Any]:
    explicit_axes = tuple(axis for axis in axes if axis in mesh.axis_names)
    types = tuple(PartitionSpec(*(_only(explicit_axes, entry) for entry in spec)) for spec in specs)

    def typed(*arguments: Any) -> Any:
        with jax.sharding.use_abstract_mesh(mesh):
            return jax.sharding.explicit_axes(call, axes=explicit_axes, in_sharding=types)(*arguments)

    return typed


def _only(axes: Sequence[str], entry: Any) -> Any:
    names: Iterator[str] = (name for name in ((entry,) if isinstance(entry, str) else entry or ()) if name in axes)
    return tuple(names) or None
