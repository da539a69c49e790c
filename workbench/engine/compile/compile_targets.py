"""Targets of compilation: attached devices, or absent ones for which XLA can compile.

A chip's `target` names its compiler: `tpu:v5e` is libtpu's, `cuda:H100` XLA:GPU's with that device's description, `cpu`
the attached (virtual) CPU devices. Devices are numbered row-major over the hardware's physical axes, like
`axis_placement.device_order`.
"""

import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from workbench.core.installation import install_command
from workbench.core.jax_installation import NO_TPU
from workbench.core.mesh import Mesh
from workbench.engine.spmd.device_mesh import device_mesh, device_mesh_over, row_major
from workbench.errors import EngineError
from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.units import format_count

CLOCKS = {
    # Hz, to convert XLA:TPU's estimated cycles to seconds. v2 and v3: Jouppi et al. 2021, "Ten Lessons From Three Generations", table 1;
    # v4: Jouppi et al. 2023, "TPU v4", table 4. The others are the published peak over the FLOP per cycle of the chip's matrix units
    # (2 x 128 x 128 each; 256 x 256 from v6e on): 4 in v5e, 8 in v5p, 4 in v6e, 4 in a core of v7. For v2 to v4 this is within 2 %.
    "tpu:v2": 700e6,
    "tpu:v3": 940e6,
    "tpu:v4": 1050e6,
    "tpu:v5e": 197e12 / (4 * 2 * 128 * 128),
    "tpu:v5p": 459e12 / (8 * 2 * 128 * 128),
    "tpu:v6e": 918e12 / (4 * 2 * 256 * 256),
    "tpu:tpu7x": 2307e12 / 2 / (4 * 2 * 256 * 256),
}

ABSENT_TPU = {
    **NO_TPU,
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a concurrent second compilation stops at /tmp/libtpu_lockfile
    "JAX_PLATFORMS": "cpu",
}
_ABSENT_GPU = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "JAX_PLATFORMS": "cpu"}
_CUDA_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")
_HOST_SIDES = (2, 2, 1)  # chips of one TPU host; smaller slices are part of one host


@dataclass(frozen=True)
class Target:
    """Devices to compile for, arranged as the plan's mesh; `name` is displayed, `clock` in Hz if cycles are given."""

    name: str
    mesh: jax.sharding.Mesh
    compiler: str
    clock: float | None = None


def environment_for(hardware: Hardware | None) -> Mapping[str, str]:
    """Return the environment variables that a process needs, before it imports JAX, to compile for this hardware."""
    kind = _platform_of(hardware)
    return {"tpu": ABSENT_TPU, "cuda": _ABSENT_GPU, "cpu": {"JAX_PLATFORMS": "cpu"}}.get(kind, {})


def verify_target(plan: Plan, hardware: Hardware | None) -> None:
    """Raises `EngineError` for an unknown target, a missing compiler package, or a wrong number of devices."""
    if hardware is None:
        return
    kind = _platform_of(hardware)
    if kind not in ("tpu", "cuda", "cpu"):
        raise EngineError(
            f"There is no compiler for {hardware} here: its chip `{hardware.chip.name}` has no target.",
            ['compile for hardware of the catalogue, such as "TPU v5e 4x4"', 'give the chip a `target`, such as "tpu:v5e" or "cpu"'],
        )
    if kind == "tpu" and not has_compiler(hardware):
        raise EngineError(
            f"Compiling for {hardware} needs libtpu, XLA's compiler for TPUs, which is not installed. No TPU is needed.",
            [install_command("tpu")],
        )
    if kind == "cuda" and not has_compiler(hardware):
        raise EngineError(
            f"Compiling for {hardware} needs JAX's CUDA plug-in, which is not installed. No GPU is needed.",
            [f"{install_command('cuda')} (4.4 GB)"],
        )
    if kind != "cpu" and plan.mesh.size != hardware.size:
        raise _wrong_size_error(plan.mesh, hardware)


def has_compiler(hardware: Hardware) -> bool:
    """Return whether the compiler package for this hardware is installed."""
    needed = {"tpu": ("libtpu",), "cuda": _CUDA_PLUGINS}.get(_platform_of(hardware))
    return needed is None or any(map(_is_installed, needed))


def open_target(plan: Plan, hardware: Hardware | None) -> Target:
    """Open the devices; raises `EngineError` if they are unavailable."""
    verify_target(plan, hardware)
    kind = _platform_of(hardware)
    if hardware is None or kind == "cpu":
        mesh = device_mesh(plan)
        device = mesh.devices.flat[0]
        name = str(hardware or f"{plan.mesh.size} attached {device.device_kind}")
        return Target(name, mesh, f"XLA:{device.platform.upper()} of jaxlib {_version('jaxlib')}")
    devices = _tpu_devices(hardware) if kind == "tpu" else _gpu_devices(hardware)
    if len(devices) != hardware.size:
        raise EngineError(
            f"{hardware} has {hardware.size:,} devices, but the compiler's description of it has {len(devices):,}.",
            ["write the slice in the vendor's notation", "compare with `jax.experimental.topologies.get_topology_desc`"],
        )
    mesh = device_mesh_over(devices, plan, hardware)
    return Target(str(hardware), mesh, compiler_of(hardware), CLOCKS.get(hardware.chip.target))


def compiler_of(hardware: Hardware) -> str:
    return f"libtpu {_version('libtpu')}" if _platform_of(hardware) == "tpu" else f"XLA:GPU of jaxlib {_version('jaxlib')}"


def compiler_flags() -> str:
    """Return the compiler flags from environment variables, which affect the result."""
    return " ".join(f"{name}={os.environ.get(name, '')}" for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"))


def versions() -> str:
    """Return the versions of all packages that affect the compiled program."""
    return " ".join(f"{name}={_version(name)}" for name in ("jax", "jaxlib", "libtpu", *(name.replace("_", "-") for name in _CUDA_PLUGINS)))


def _platform_of(hardware: Hardware | None) -> str:
    return "" if hardware is None else hardware.chip.platform


def _tpu_devices(hardware: Hardware) -> "np.ndarray[Any, Any]":
    sizes = {axis.name: axis.size for axis in hardware.axes}
    sides = tuple(sizes[name] for name in "xyz" if name in sizes)
    version = hardware.chip.target.partition(":")[2]
    options: dict[str, Any] = {}
    if "slice" in sizes:
        options["num_slices"] = sizes["slice"]
    if any(side % host for side, host in zip(sides, _HOST_SIDES, strict=False)):
        options["chips_per_host_bounds"] = [min(side, host) for side, host in zip((*sides, 1, 1), _HOST_SIDES, strict=False)]
    if version == "v4" and "core" not in sizes:
        options["chip_config_name"] = "megacore"  # both cores of a chip are one device, as on a TPU VM
    devices = _describe_topology(hardware, "tpu", f"{version}:{'x'.join(map(str, sides))}", options)
    return row_major(devices)


def _gpu_devices(hardware: Hardware) -> "np.ndarray[Any, Any]":
    name = hardware.chip.target.partition(":")[2]
    if name not in GPUS:
        raise EngineError(f"XLA has no description of `{name}` here; there are {', '.join(GPUS)}.", ["compile for one of these"])
    sizes = {axis.name: axis.size for axis in hardware.axes}
    options = {
        "target_config": target_config_text(name, hardware.chip.memory, hardware.chip.memory_bandwidth),
        "topology": f"1x{sizes.get('node', 1)}x{sizes.get('device', 1)}",
    }
    return row_major(_describe_topology(hardware, "cuda", name, options))


def _describe_topology(hardware: Hardware, platform: str, name: str, options: Mapping[str, Any]) -> list[Any]:
    from jax.experimental import topologies

    try:
        return list(topologies.get_topology_desc(topology_name=name, platform=platform, **options).devices)
    except Exception as error:  # plug-ins may raise anything
        message = " ".join(str(error).split())[:300]
        raise EngineError(
            f"The compiler knows no {hardware} (`{name}`): {message}",
            ['write a shape that is sold, such as "TPU v5e 4x4" or "TPU v5p 4x4x4"'],
        ) from error


def _wrong_size_error(mesh: Mesh, hardware: Hardware) -> EngineError:
    product = " x ".join(f"{name} {size}" for name, size in mesh.axes)
    smaller = [
        f"make `{name}` {other}"
        for name, size in mesh.axes
        if (other := hardware.size * size // mesh.size) and other * (mesh.size // size) == hardware.size
    ]
    return EngineError(
        f"The mesh {mesh} is {product} = {mesh.size:,} devices; {hardware} has {hardware.size:,}. A program is compiled for all of them.",
        [*smaller[:2], f"choose hardware with {format_count(mesh.size)} devices"],
    )


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


# Descriptions of NVIDIA devices for compiling with XLA:GPU without a GPU: its `GpuTargetConfigProto` as text.
#
# Sizes of a multiprocessor are from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; counts, clocks and
# caches from NVIDIA's architecture white papers (A100, H100, Blackwell).


@dataclass(frozen=True, slots=True)
class GPU:
    model: str
    capability: int
    cores: int
    fpus: int
    clock: float
    l2: int
    shared: int  # per multiprocessor
    shared_block: int  # per block that requests more than the default 48 KiB

    @property
    def features(self) -> str:
        return "ACCELERATED_FEATURES" if self.capability >= 9 else "NONE"


GPUS = {
    "A100": GPU("NVIDIA A100-SXM4", 8, 108, 64, 1.41, 40 << 20, 164 << 10, 163 << 10),
    "H100": GPU("NVIDIA H100 80GB HBM3", 9, 132, 128, 1.98, 50 << 20, 228 << 10, 227 << 10),
    "H200": GPU("NVIDIA H200", 9, 132, 128, 1.98, 50 << 20, 228 << 10, 227 << 10),
    "B200": GPU("NVIDIA B200", 10, 148, 128, 1.965, 126 << 20, 228 << 10, 227 << 10),
}


def target_config_text(name: str, memory: int, bandwidth: float) -> str:
    """Return the proto text of a GPU with this memory in bytes and memory bandwidth in bytes per second."""
    gpu = GPUS[name]
    return f"""\
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: {48 << 10}
  shared_memory_per_core: {gpu.shared}
  shared_memory_per_block_optin: {gpu.shared_block}
  threads_per_core_limit: 2048
  core_count: {gpu.cores}
  fpus_per_core: {gpu.fpus}
  block_dim_limit_x: {2**31 - 1}
  block_dim_limit_y: {2**16 - 1}
  block_dim_limit_z: {2**16 - 1}
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  registers_per_core_limit: {64 << 10}
  registers_per_block_limit: {64 << 10}
  memory_bandwidth: {int(bandwidth)}
  device_memory_size: {memory}
  l2_cache_size: {gpu.l2}
  clock_rate_ghz: {gpu.clock}
  cuda_compute_capability {{ major: {gpu.capability} feature_extension: {gpu.features} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
device_description_str: "{gpu.model}"
"""
