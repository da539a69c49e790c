"""Run one more step under the JAX profiler, and read what each device did in it, in the plan's terms.

The profiler writes an `xplane.pb`: planes of lines of events. Where a device's instructions are in it depends on the platform:

- CPU: one plane, `/host:CPU`, a line a thread; an instruction's event has the stats `hlo_op`, `hlo_module` and `device_ordinal`. Threads
  are shared by the virtual devices, and a loop's event ends before its body does;
- GPU: a plane `/device:GPU:0` for each, a line `Stream #7(...)` for each stream; a kernel's event has the stats `hlo_op`, `hlo_module`;
- TPU: a plane `/device:TPU:0` for each, with a line `XLA Ops` of events that are named as the instructions are.
"""

import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from workbench.core.mesh import Mesh
from workbench.engine.hlo.op_names import SourceLines, path_of
from workbench.engine.spmd.compiled_step import CompiledStep
from workbench.reports.device_trace import Trace, TraceEvent, summarize_trace
from workbench.reports.kernel import COMPUTE
from workbench.spmd.compile_to_schedule import module_of
from workbench.spmd.device_groups import axes_of, read_groups
from workbench.spmd.hlo_flops import is_dot
from workbench.spmd.hlo_module import Computation, HloInstruction, HloModule
from workbench.spmd.locate_xla_collectives import kind_of

_DEVICE_PLANE = re.compile(r"/device:(?:GPU|TPU):(\d+)")
_INSTRUCTION_NAME = re.compile(r"%?([\w.\-]+)")
_CONTROL_FLOW = {"while", "conditional", "call"}  # their bodies' instructions have events of their own


class RawEvent(NamedTuple):
    """One execution of an instruction as the profiler has it: the device by its number in this process, times in nanoseconds."""

    device: int
    name: str
    start: float
    duration: float


class InstructionFacts(NamedTuple):
    """What the compiled module says of an instruction."""

    stream: str
    kind: str
    path: str
    source: str


def profile(step: CompiledStep, arguments: list[jax.Array]) -> tuple[Trace | None, str]:
    """Run one more step under the profiler; its trace, or why there is none.

    A profiler that fails is no failure of the run. With several processes each calls this alike and sees its own devices.
    """
    try:
        holder = tempfile.TemporaryDirectory(prefix="workbench-profile-")
    except OSError as error:
        step.advance(arguments, None)
        return None, f"no folder for the profiler's output: {error.strerror or error}"
    with holder as folder:
        why_not = _start(folder)
        try:
            step.advance(arguments, None)  # whether it is profiled or not: other processes wait for this one
        finally:
            why_not = why_not or _stop()
        if why_not:
            return None, why_not
        try:
            trace = read_trace(folder, step)
        except (RuntimeError, OSError, ValueError, KeyError) as error:  # the profiler's file format may change
            return None, f"the profiler's output cannot be read: {type(error).__name__}: {error}"
    return (trace, "") if trace.operations else (None, "the profile has no instruction of the step")


def _start(folder: str) -> str:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.host_tracer_level = 1  # the CPU's instructions are recorded at this level
    options.enable_hlo_proto = False
    try:
        jax.profiler.start_trace(folder, profiler_options=options)
    except (RuntimeError, OSError) as error:  # e.g. another profiler is running
        return f"the profiler did not start: {error}"
    return ""


def _stop() -> str:
    try:
        jax.profiler.stop_trace()
    except (RuntimeError, OSError) as error:
        return f"the profiler did not end: {error}"
    return ""


def read_trace(folder: str, step: CompiledStep) -> Trace:
    """Read the step from the newest file below `folder`."""
    files = sorted(Path(folder).rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    if not files:
        return summarize_trace(())
    module = module_of(step.compiled)
    raw = raw_events(jax.profiler.ProfileData.from_file(str(files[-1])), module.name)
    return summarize_trace(_to_trace_events(raw, read_instructions(module, step.plan.mesh), _device_positions(step.mesh)))


def raw_events(data: Any, module: str) -> list[RawEvent]:
    """The instructions of one program in a `ProfileData`, of every device in it."""
    with warnings.catch_warnings():  # Python 3.13 warns of jaxlib's types; made an error, that ends the process
        warnings.simplefilter("ignore", DeprecationWarning)
        return list(_read_events(data, module))


def _read_events(data: Any, module: str) -> Iterator[RawEvent]:
    for plane in data.planes:
        if found := _DEVICE_PLANE.fullmatch(plane.name):
            yield from _read_device_plane(plane, int(found[1]), module)
        elif plane.name == "/host:CPU":
            for line in plane.lines:
                yield from _read_host_line(line, module)


def _read_host_line(line: Any, module: str) -> Iterator[RawEvent]:
    for event in line.events:
        stats = dict(event.stats)
        if "hlo_op" in stats and "device_ordinal" in stats and stats.get("hlo_module") == module:
            yield RawEvent(int(stats["device_ordinal"]), str(stats["hlo_op"]), event.start_ns, event.duration_ns)


def _read_device_plane(plane: Any, device: int, module: str) -> Iterator[RawEvent]:
    """On a TPU the line of instructions, on a GPU its streams: other lines repeat the same in summary."""
    for line in plane.lines:
        if line.name in ("XLA Ops", "Async XLA Ops"):
            for event in line.events:
                if found := _INSTRUCTION_NAME.match(event.name):
                    yield RawEvent(device, found[1], event.start_ns, event.duration_ns)
        elif line.name.startswith("Stream"):
            for event in line.events:
                stats = dict(event.stats)
                if stats.get("hlo_module", module) == module:
                    yield RawEvent(device, str(stats.get("hlo_op", event.name)), event.start_ns, event.duration_ns)


def _to_trace_events(raw: Iterable[RawEvent], known: Mapping[str, InstructionFacts], positions: Mapping[int, int]) -> list[TraceEvent]:
    """Convert nanoseconds to seconds from the first event, and the process's device numbers to positions in the mesh; events of whole loops
    are left out."""
    events = [each for each in raw if each.device in positions and known.get(each.name, _UNKNOWN).kind not in _CONTROL_FLOW]
    first = min((each.start for each in events), default=0.0)
    return [
        TraceEvent(
            positions[each.device],
            (named := known.get(each.name, _UNKNOWN)).stream,
            each.name,
            named.kind,
            named.path,
            named.source,
            (each.start - first) * 1e-9,
            each.duration * 1e-9,
        )
        for each in events
    ]


_UNKNOWN = InstructionFacts(COMPUTE, "kernel", "", "")
"""A kernel that belongs to no instruction: the runtime's copies, or what runs in a command buffer."""


def read_instructions(module: HloModule, mesh: Mesh) -> dict[str, InstructionFacts]:
    """Every instruction of the compiled program by name."""
    sources = SourceLines(module)
    found = {}
    for computation in module.computations.values():
        for instruction in computation.values():
            kind, axes = _kind(instruction, computation, module, mesh)
            found[instruction.name] = InstructionFacts("+".join(axes) or COMPUTE, kind, path_of(instruction), sources.of(instruction))
    return found


def _kind(instruction: HloInstruction, computation: Computation, module: HloModule, mesh: Mesh) -> tuple[str, tuple[str, ...]]:
    """A collective's kind and axes, also of its `-start` and `-done`; for any other instruction its kind and no axes."""
    if instruction.opcode.endswith("-done"):
        return _kind(computation[instruction.operands[0]], computation, module, mesh)
    inside = [instruction]
    if instruction.opcode in ("fusion", "async-start"):
        inside += (each for name in module.callees(instruction) for each in module.computations[name].values())
    for each in inside:
        if kind := kind_of(each.opcode):
            return kind, axes_of(read_groups(each.fields, mesh.size), mesh)
    if any(is_dot(each) for each in inside):
        return "dot", ()
    return module.printed_opcode(instruction).removesuffix("-start"), ()


def _device_positions(mesh: jax.sharding.Mesh) -> dict[int, int]:
    """The position in the mesh of each device of this process, by the number that the profiler knows it under."""
    devices = list(mesh.devices.flat)
    return {device.local_hardware_id: devices.index(device) for device in mesh.local_devices}
