"""How the tests and the processes they start compile: with half of LLVM's effort, and each program once a run.

None of this changes what the tests ask: the collectives and the buffers of a program are fixed before LLVM starts, and the cache is keyed
by the whole program, with its names and source lines. `XLA_FLAGS` and the level of optimisation apply to child processes too, so that both
round alike. Children that are forks of the warm process share the cache.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading

import jax
from jax._src.lru_cache import LRUCache

NO_FUSION_EMITTERS = "--xla_cpu_use_fusion_emitters=false"
"""The older code generator of XLA:CPU takes a third of the time: GPT, mixture and U-Net steps on eight devices 7.1 s instead of 19.9 s."""
FOLDER = "TESTS_COMPILED_FOLDER"
"""The environment variable with the folder of the shared cache."""


def compile_cheaply() -> None:
    """Set this process and the environment of its children. Call it before anything is compiled."""
    jax.config.update("jax_disable_most_optimizations", True)
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    if NO_FUSION_EMITTERS not in flags and _is_known(NO_FUSION_EMITTERS):
        os.environ["XLA_FLAGS"] = f"{flags} {NO_FUSION_EMITTERS}".strip()


def _is_known(flag: str) -> bool:
    """Whether this jaxlib takes the flag: XLA aborts the process on one that it does not know, and its name may still be in the library."""
    environment = {**os.environ, "XLA_FLAGS": flag, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0


def share_compiled(folder: str) -> None:
    """Keep what this process compiles in JAX's persistent cache in a folder, and take from there what another one compiled."""
    LRUCache.put = _put_whole
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


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
