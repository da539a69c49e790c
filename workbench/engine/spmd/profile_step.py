"""Run one more step under the JAX profiler, and read the activity of each device in the plan's terms.

The profiler writes an `xplane.pb`: planes of lines of events. The location of a device's instructions depends on the
platform:

- CPU: one plane, `/host:CPU`, with a line per thread; an instruction's event has the stats `hlo_op`, `hlo_module` and
  `device_ordinal`. Virtual devices share threads, and a loop's event ends before its body;
- GPU: a plane `/device:GPU:0` per device, with a line `Stream #7(...)` per stream; a kernel's event has the stats
  `hlo_op`, `hlo_module`;
- TPU: a plane `/device:TPU:0` per device, with a line `XLA Ops` of events named like the instructions.
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
_CONTROL_FLOW = {"while", "conditional", "call"}  # the instructions of their bodies have separate events


class RawEvent(NamedTuple):
    """One execution of an instruction in the profile: device number in this process, times in nanoseconds."""

    device: int
    name: str
    start: float
    duration: float


class InstructionFacts(NamedTuple):
    """Facts about an instruction from the compiled module."""

    stream: str
    kind: str
    path: str
    source: str


def profile(step: CompiledStep, arguments: list[jax.Array]) -> tuple[Trace | None, str]:
    """Run one more step under the profiler, and return its trace, or the reason if there is none.

    A failing profiler is no failure of the run. With several processes each must make the same call, and sees its
    devices.
    """
    try:
        holder = tempfile.TemporaryDirectory(prefix="workbench-profile-")
    except OSError as error:
        step.advance(arguments, None)
        return None, f"no folder for the profiler's output: {error.strerror or error}"
    with holder as folder:
        why_not = _start(folder)
        try:
            step.advance(arguments, None)  # even without a profile, because other processes wait for this one
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
    """Return the instructions of one program on all devices of a `ProfileData`."""
    with warnings.catch_warnings():  # Python 3.13 warns of jaxlib's types; as an error, this ends the process
        warnings.simplefilter("ignore", DeprecationWarning)
        return list(_read_events(data, module))


def _read_events(data: Any, module: str) -> Iterator[RawEvent]:
    for plane in data.planes:
        if match := _DEVICE_PLANE.fullmatch(plane.name):
            yield from _read_device_plane(plane, int(match[1]), module)
        elif plane.name == "/host:CPU":
            for line in plane.lines:
                yield from _read_host_line(line, module)


def _read_host_line(line: Any, module: str) -> Iterator[RawEvent]:
    for event in line.events:
        stats = dict(event.stats)
        if "hlo_op" in stats and "device_ordinal" in stats and stats.get("hlo_module") == module:
            yield RawEvent(int(stats["device_ordinal"]), str(stats["hlo_op"]), event.start_ns, event.duration_ns)


def _read_device_plane(plane: Any, device: int, module: str) -> Iterator[RawEvent]:
    """Yield the TPU's line of instructions, or the GPU's streams; other lines summarize these."""
    for line in plane.lines:
        if line.name in ("XLA Ops", "Async XLA Ops"):
            for event in line.events:
                if match := _INSTRUCTION_NAME.match(event.name):
                    yield RawEvent(device, match[1], event.start_ns, event.duration_ns)
        elif line.name.startswith("Stream"):
            for event in line.events:
                stats = dict(event.stats)
                if stats.get("hlo_module", module) == module:
                    yield RawEvent(device, str(stats.get("hlo_op", event.name)), event.start_ns, event.duration_ns)


def _to_trace_events(raw: Iterable[RawEvent], known: Mapping[str, InstructionFacts], positions: Mapping[int, int]) -> list[TraceEvent]:
    """Convert to seconds since the first event and to positions in the mesh; events of whole loops are dropped."""
    events = [event for event in raw if event.device in positions and known.get(event.name, _UNKNOWN).kind not in _CONTROL_FLOW]
    first = min((event.start for event in events), default=0.0)
    return [
        TraceEvent(
            positions[event.device],
            (facts := known.get(event.name, _UNKNOWN)).stream,
            event.name,
            facts.kind,
            facts.path,
            facts.source,
            (event.start - first) * 1e-9,
            event.duration * 1e-9,
        )
        for event in events
    ]


_UNKNOWN = InstructionFacts(COMPUTE, "kernel", "", "")
"""A kernel without instruction: the runtime's copies, or kernels in a command buffer."""


def read_instructions(module: HloModule, mesh: Mesh) -> dict[str, InstructionFacts]:
    """Return the facts about every instruction of the compiled program by name."""
    sources = SourceLines(module)
    facts = {}
    for computation in module.computations.values():
        for instruction in computation.values():
            kind, axes = _kind(instruction, computation, module, mesh)
            facts[instruction.name] = InstructionFacts("+".join(axes) or COMPUTE, kind, path_of(instruction), sources.of(instruction))
    return facts


def _kind(instruction: HloInstruction, computation: Computation, module: HloModule, mesh: Mesh) -> tuple[str, tuple[str, ...]]:
    """Return a collective's kind and axes, also of `-start` and `-done`; for others the kind without axes."""
    if instruction.opcode.endswith("-done"):
        return _kind(computation[instruction.operands[0]], computation, module, mesh)
    inside = [instruction]
    if instruction.opcode in ("fusion", "async-start"):
        inside += (inner for name in module.callees(instruction) for inner in module.computations[name].values())
    for inner in inside:
        if kind := kind_of(inner.opcode):
            return kind, axes_of(read_groups(inner.fields, mesh.size), mesh)
    if any(is_dot(inner) for inner in inside):
        return "dot", ()
    return module.printed_opcode(instruction).removesuffix("-start"), ()


def _device_positions(mesh: jax.sharding.Mesh) -> dict[int, int]:
    devices = list(mesh.devices.flat)
    return {device.local_hardware_id: devices.index(device) for device in mesh.local_devices}
