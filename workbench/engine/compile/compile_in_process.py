"""Compile a plan in this process and read the result; called by the worker process, which a compiler abort takes down."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from workbench.core.mesh import Mesh
from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.engine.compile import compile_cache
from workbench.engine.compile.compile_targets import Target, compiler_flags, open_target, versions
from workbench.engine.compile.read_memory import compile_and_read_memory, read_rematerialisations_since, stderr_offset
from workbench.engine.hlo.read_compiled import READER_VERSION, read_compiled, refresh_record
from workbench.engine.mpmd.aot_compile import compile_pipeline
from workbench.engine.spmd.compiled_step import lower_step, spmd_plan
from workbench.engine.worker.failure_messages import compilation_failed
from workbench.errors import EngineError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.run_events import Progress, RunListener
from workbench.spmd.compile_to_schedule import module_text, serialize_module
from workbench.spmd.hlo_module import read_module

_FRACTIONS = {"starting": 0.0, "lowering": 0.05, "compiling": 0.15, "reading": 0.95}
_HEARTBEAT = 1.0  # seconds
_KEYS = "6"  # increment if the inputs of the key change, or results that are not read from the module


def compile_here(
    plan: Plan,
    on_event: RunListener | None = None,
    hardware: Hardware | None = None,
    *,
    keep: bool = True,
    compiler_options: Mapping[str, str | bool | int | float] | None = None,
    hlo_file: str | None = None,
) -> Compiled:
    """Compile the plan for this hardware (`None`: the attached devices) in a process prepared with `environment_for`.

    `keep` uses the disk cache of compiled programs. `hlo_file` receives the scheduled HLO text. Raises `EngineError`.
    """
    stages = _Stages(on_event or (lambda _: None))
    try:
        compiled, hlo_text = _compile(plan, hardware, stages, compiler_options or {}, keep=keep)
    except Exception as error:  # a user's function or a compiler may raise anything
        raise compilation_failed(error, plan, str(hardware or "the attached devices"), stages.name) from error
    if hlo_file is not None:
        _write(hlo_file, hlo_text())
    return compiled


class _Stages:
    """Reports the current stage of the work at its start and every second."""

    def __init__(self, tell: RunListener) -> None:
        self._tell = tell
        self.name = "starting"
        self._said: tuple[str, float] = "starting", 0.0

    def say(self, name: str, fraction: float) -> None:
        self._said = name, _FRACTIONS["compiling"] + fraction * (_FRACTIONS["reading"] - _FRACTIONS["compiling"])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.name = name
        self._said = name, _FRACTIONS[name]
        is_done, start = threading.Event(), time.monotonic()

        def tell() -> None:
            label, fraction = self._said
            self._tell(Progress(label, fraction, time.monotonic() - start))

        def beat() -> None:
            while not is_done.wait(_HEARTBEAT):
                tell()

        tell()  # before anything in the stage can abort this process
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            thread.join()


def _compile(
    plan: Plan, hardware: Hardware | None, stages: _Stages, options: Mapping[str, str | bool | int | float], *, keep: bool
) -> tuple[Compiled, Callable[[], str]]:
    with stages.stage("starting"):
        target = open_target(plan, hardware)
    if plan.pipeline is not None and plan.pipeline.engine == "mpmd":
        with stages.stage("compiling"):
            return compile_pipeline(plan, target, stages.say, options)
    with stages.stage("lowering"):
        step = lower_step(spmd_plan(plan, target.mesh) if plan.pipeline is not None else plan, target.mesh)
        key = _key(plan, target, step, options) if keep else ""
    if keep and (cached := compile_cache.load(key)):
        return replace(reread_stored(key, *cached, plan.mesh, target.clock), target=target.name), partial(module_text, cached[1])
    with stages.stage("compiling"):
        start, output_offset = time.perf_counter(), stderr_offset()
        executable, packed = compile_and_read_memory(step, options, target.compiler)
        seconds = time.perf_counter() - start
    with stages.stage("reading"):
        serialized = serialize_module(executable)
        compiled = read_compiled(
            read_module(serialized),
            plan.mesh,
            executable.memory_analysis(),
            packed,
            target=target.name,
            clock=target.clock,
            compile_seconds=seconds,
            compiler=target.compiler,
        )
        compiled = replace(compiled, rematerialised=read_rematerialisations_since(output_offset))
        if keep:
            compile_cache.store(key, compiled, serialized)
    return compiled, executable.as_text


def _key(plan: Plan, target: Target, step: Any, options: Mapping[str, Any]) -> str:
    """Hash the program text (with shardings, scopes and source lines) and all settings; devices are in mesh order."""
    devices = " ".join(f"{device.device_kind}{getattr(device, 'coords', '')}{device.id}" for device in target.mesh.devices.flat)
    settings = " ".join((compiler_flags(), *(f"{name}={value}" for name, value in sorted(options.items()))))
    program = step.as_text(debug_info=True)
    return compile_cache.hash_key(program, str(plan.mesh), target.compiler, str(target.clock), devices, versions(), settings, _KEYS)


def _write(file: str, text: str) -> None:
    with explain_write_errors(file, EngineError):
        replace_file(Path(file), text.encode())


# Stored compilations: a newer reader reads the stored module again, which is not recompiled.


def reread_stored(key: str, compiled: Compiled, serialized: bytes, mesh: Mesh, clock: float | None) -> Compiled:
    """Return a stored record as read by the current reader; `clock` is in Hz, for chips that count cycles."""
    if compiled.reader != READER_VERSION:
        compiled = refresh_record(compiled, read_module(serialized), mesh, clock)
        compile_cache.store(key, compiled, serialized)
    return compiled
