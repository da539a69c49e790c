"""Run XLA's SPMD partitioner on a plan's module, up to code generation. No device of that kind is needed.

An XLA CPU client with as many virtual devices as the mesh compiles the module; a public hook of JAX
(`jax.extend.xla.register_hlo_module_transformation`, stage `PRE_SCHEDULER`) receives the module after Shardy, the
partitioner and the passes after it, and ends the compilation there. The hook is process-wide, and a failed check inside
XLA aborts the process, so this runs in a worker process (`engine.partitioner`).
"""

import functools
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from jax.extend import backend, xla
from jaxlib import xla_client

from workbench.core.operating_system import can_read
from workbench.errors import PartitionError, opening_text

MAX_DEVICES = 2048  # XLA's limit for a CPU client in one process
_HOOK = "workbench-partitioner"
_LEAST_DEVICES = 8  # smaller meshes share a client
_SKIPPED_PASSES = (  # XLA:CPU passes after the partitioner: they fuse, copy, and combine different collectives
    *("fusion", "fusion-wrapper", "copy-insertion", "cpu-parallel-task-assigner", "dot-library-rewriter", "cpu-all-reduce-combiner"),
)
_NARROW_FLOATS = "bf16 f16 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f8e8m0fnu f4e2m1fn"
_WIDENING_PASSES = (  # XLA:CPU has no arithmetic for floats of at most two bytes
    *(f"float-normalization-{dtype}" for dtype in _NARROW_FLOATS.split()),
    *("operand_upcaster", "all-reduce-promotion"),
)

_BATCHED = re.compile(rb"\b(?:cusolver_\w+_ffi|cuhybrid_\w+|cusparse_gtsv2_ffi|cu_lu_pivots_to_permutation)\b")
"""Kernels that JAX's GPU plugins allow XLA to split along the batch (`batch_partitionable_targets`)."""


class PartitionerAnswer(NamedTuple):
    """Serialized `HloModuleProto` from the partitioner, and its printed output (warnings)."""

    module: bytes
    printed_text: str


class XlaRefusedError(PartitionError):
    """XLA refuses the module; its `words` name operations as in the module."""

    def __init__(self, words: str) -> None:
        super().__init__(f"XLA refuses this plan: {opening_text(words, 300)}", ["revert the layout"], words)
        self.words = words


class _StopCompilation(Exception):  # noqa: N818 - no error: the way out of a compilation
    """Ends the compilation once the module is received."""


def ask(module: bytes, devices: int, open_results: tuple[bool, ...], *, widens: bool = False) -> PartitionerAnswer:
    """Partition `module` (StableHLO in MLIR bytecode, with Shardy's shardings) over `devices` devices.

    `open_results`: results whose sharding is left to propagation. `widens`: compute and send two-byte floats as
    four-byte floats, like XLA:CPU.

    Raises `XlaRefusedError` with XLA's message, `PartitionError` for more devices than a client can have.
    """
    client = client_of(devices)
    for target in set(_BATCHED.findall(module)):
        xla_client.register_custom_call_as_batch_partitionable(target.decode())
    skipped = (*_SKIPPED_PASSES, *(() if widens else _WIDENING_PASSES))
    flags = {"xla_disable_hlo_passes": ",".join(skipped)}
    modules: list[bytes] = []

    def stop_with_module(partitioned: bytes) -> bytes | None:
        modules.append(partitioned)
        raise _StopCompilation

    xla.register_hlo_module_transformation(stop_with_module, name=_HOOK, platforms="cpu")
    try:
        with _capture_stderr() as words:
            _compile_until_stopped(client, module, devices, open_results, flags, stopped=modules)
    finally:
        xla.clear_hlo_module_transformation(_HOOK, platforms="cpu")
    return PartitionerAnswer(modules[0], words[0])


def _compile_until_stopped(
    client: Any, module: bytes, devices: int, open_results: tuple[bool, ...], flags: dict[str, str], stopped: list[bytes]
) -> None:
    options = compile_options(client, range(devices), open_results, flags)
    try:
        client.compile_and_load(module, client.devices()[:devices], options)
    except Exception as error:  # the hook's, wrapped, or XLA's
        if not stopped:
            raise XlaRefusedError(str(error)) from error


def compile_options(client: Any, numbers: Sequence[int], open_results: Sequence[bool], flags: Mapping[str, str | bool]) -> Any:
    """Compile options of one program over the client's devices with these numbers, in mesh order."""
    devices = np.array(numbers).reshape(1, len(numbers))
    options = backend.get_compile_options(1, len(numbers), devices, env_options_overrides=flags, backend=client)
    options.executable_build_options.use_shardy_partitioner = True
    options.executable_build_options.allow_spmd_sharding_propagation_to_output = list(open_results)
    return options


def client_of(devices: int) -> Any:
    """Return a cached CPU client with at least this number of virtual devices; raises `PartitionError` if too large."""
    if devices > MAX_DEVICES:
        raise PartitionError(
            f"XLA's partitioner answers here for at most {MAX_DEVICES:,} devices; the mesh has {devices:,}.",
            ["make an axis smaller", "keep the planned figures"],
        )
    return _client(max(_LEAST_DEVICES, 1 << (devices - 1).bit_length()))


@functools.lru_cache(maxsize=4)
def _client(devices: int) -> Any:
    return xla_client.make_cpu_client(num_devices=devices)


@contextmanager
def _capture_stderr() -> Iterator[list[str]]:
    """Capture XLA's standard error, its only channel for warnings; the list has the text after the block.

    If standard error is a file, as in a worker, it is read there, so that the text survives a crash.
    """
    captured: list[str] = []
    if can_read(2) and stat.S_ISREG(os.fstat(2).st_mode):  # a shell's `2>` cannot be read
        start_offset = os.fstat(2).st_size
        yield captured
        captured.append(os.pread(2, os.fstat(2).st_size - start_offset, start_offset).decode(errors="replace"))
        return
    saved_stderr = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield captured
        finally:
            os.dup2(saved_stderr, 2)
            os.close(saved_stderr)
            file.seek(0)
            captured.append(file.read().decode(errors="replace"))


# Warnings of XLA's partitioner, which are only printed.

_SHARDING = r"\{(?:[^{}]|\{[^{}]*\})*\}"  # nested braces from JAX 0.12 on: {mesh['r'=2,'c'=4], [{'r'}, {}]}
_WARNING = re.compile(
    rf"Involuntary full rematerialization\. The compiler cannot go from sharding (?P<before>{_SHARDING}) to (?P<after>{_SHARDING}) "
    r"efficiently for HLO operation %(?P<name>\S+) = (?P<shape>\S+\])[^\n]*"
)
_SCOPE = re.compile(r'op_name="([^"]*)"')


class FullRematerialization(NamedTuple):
    """An *involuntary full rematerialization* printed by XLA, a reshard by gathering; `op_name` is its scope, if any."""

    op_name: str
    name: str
    shape: str
    before: str
    after: str


def read_warnings(words: str) -> tuple[FullRematerialization, ...]:
    """Return the distinct warnings in XLA's output."""
    warnings = (
        FullRematerialization(scope[1] if (scope := _SCOPE.search(match[0])) else "", *match.group("name", "shape", "before", "after"))
        for match in _WARNING.finditer(words)
    )
    return tuple(dict.fromkeys(warnings))
