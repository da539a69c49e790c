"""How the tests and the processes they start compile: with half of LLVM's effort, and each program once a run.

None of this changes what the tests ask: the collectives and the buffers of a program are fixed before LLVM starts, and the cache is keyed
by the whole program, with its names and source lines. `XLA_FLAGS` and the level of optimisation apply to child processes too, so that both
round alike. Children that are forks of the warm process share the cache.
"""

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import jax
from jax._src.lru_cache import LRUCache

from workbench.documents.durable_files import replace_file
from workbench.engine.mpmd import execute_pipeline
from workbench.engine.spmd import execute_plan
from workbench.engine.spmd.calibrate import calibrate
from workbench.hardware.hardware import Hardware

CHEAP = ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")
"""The older code generator of XLA:CPU takes a third of the time: GPT, mixture and U-Net steps on eight devices 7.1 s instead of 19.9 s.
Code in one part takes an eighth less CPU time than in 32, which other cores could generate: five steps of the zoo 4.5 s instead of 5.1 s.
"""
MOST_RESIDENT = 3 << 29
"""Bytes of a process of a run above which it forgets what JAX has traced and compiled: programs of one file of tests are up to 1.3 GiB, and
the next file has others."""
FOLDER = "TESTS_COMPILED_FOLDER"
"""The environment variable with the folder of the shared cache."""


def compile_cheaply() -> None:
    """Set this process and the environment of its children. Call it before anything is compiled."""
    jax.config.update("jax_disable_most_optimizations", True)
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    cheap = " ".join(CHEAP)
    if cheap not in flags and _are_known(cheap):
        os.environ["XLA_FLAGS"] = f"{flags} {cheap}".strip()


def _are_known(flags: str) -> bool:
    """Whether this jaxlib takes the flags: XLA aborts the process on any that it does not know, though the library may name it."""
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def share_compiled(folder: str) -> None:
    """Keep what this process compiles in JAX's persistent cache in a folder, and take from there what another one compiled."""
    LRUCache.put = _put_whole
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    share_rates(folder)


def share_rates(folder: str) -> None:
    """Runs of plans take the rates of so many devices from a folder: each worker process would measure its own in one to two seconds."""

    def shared(devices: tuple[jax.Device, ...]) -> Hardware:
        path = Path(folder) / f"rates-{len(devices)}.pickle"
        if not path.exists():
            replace_file(path, pickle.dumps(calibrate(devices)))
        return pickle.loads(path.read_bytes())

    execute_plan.calibrate = execute_pipeline.calibrate = shared


class CompiledFolder:
    """The folder of the shared cache: a new one, or that of the process that started this one."""

    def __init__(self, folder: str | None = None) -> None:
        self._is_mine = folder is None
        self._put = LRUCache.put
        self.folder = os.environ[FOLDER] = folder or tempfile.mkdtemp(prefix="compiled-")
        share_compiled(self.folder)

    def close(self) -> None:
        jax.config.update("jax_compilation_cache_dir", None)
        LRUCache.put = self._put
        if self._is_mine:
            shutil.rmtree(self.folder, ignore_errors=True)


def _put_whole(cache: LRUCache, key: str, value: bytes) -> None:
    """JAX writes an entry in place, where another process would read half of it."""
    path = cache.path / f"{key}-cache"
    beside = cache.path / f"{os.getpid()}-{threading.get_ident()}"
    beside.write_bytes(value)
    beside.replace(path)


def free_memory() -> None:
    """Forget compiled programs, which the shared cache still has, once this process is large; only on Linux, where it is told its size."""
    if sys.platform == "linux" and int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_RESIDENT:
        jax.clear_caches()
        ctypes.CDLL(None).malloc_trim(0)
