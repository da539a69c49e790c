"""How the tests' own process compiles: with half of LLVM's effort, and what was compiled before is kept for the run.

Neither changes what is asked here: a program's collectives and buffers are decided before LLVM starts, and a kept executable is the same
machine code, under a key that has names and source lines in it. Processes that a test starts compile as a user's do.
"""

import shutil
import tempfile

import jax


class KeptPrograms:
    """JAX's persistent cache in a folder of this process: written without a lock, it is no place for two."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="compiled-")
        jax.config.update("jax_disable_most_optimizations", True)
        jax.config.update("jax_compilation_cache_dir", self._folder)
        jax.config.update("jax_compilation_cache_include_metadata_in_key", True)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

    def close(self) -> None:
        jax.config.update("jax_compilation_cache_dir", None)
        shutil.rmtree(self._folder, ignore_errors=True)
