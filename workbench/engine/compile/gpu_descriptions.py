"""Descriptions of NVIDIA devices with which XLA:GPU compiles without a GPU: its `GpuTargetConfigProto`, as text.

Sizes of a multiprocessor are from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; counts, clocks and
caches from NVIDIA's architecture white papers (A100, H100, Blackwell).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GPU:
    """A GPU; clock in GHz, on-chip memories in bytes."""

    model: str
    capability: int
    cores: int
    fpus: int
    clock: float
    l2: int
    shared: int  # per multiprocessor
    shared_block: int  # per block that asks for more than the usual 48 KiB

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
    """The text of the proto for a GPU with this memory in bytes and this memory bandwidth in bytes per second."""
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
