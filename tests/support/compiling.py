"""How the tests' own processes compile: with half of LLVM's effort, and what one of them compiled is kept for all, for the run.

Neither changes what is asked here: a program's collectives and buffers are decided before LLVM starts, and a kept executable is the same
machine code, under a key that has names and source lines in it. Processes that a test starts compile as a user's do, and so do files of
tests that are marked `worker`.
"""

import os
import shutil
import tempfile
import threading

import jax
from jax._src.lru_cache import LRUCache


class KeptPrograms:
    """JAX's persistent cache in a folder: a new one, or that of the process that started this one."""

    def __init__(self, folder: str | None = None) -> None:
        self._is_mine = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="compiled-")
        self._put, LRUCache.put = LRUCache.put, _put_whole
        jax.config.update("jax_disable_most_optimizations", True)
        jax.config.update("jax_compilation_cache_dir", self.folder)
        jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

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
