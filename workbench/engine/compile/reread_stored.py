"""Stored compilations read again: a reader that has changed since reads the stored module, which is not compiled anew."""

from workbench.core.mesh import Mesh
from workbench.engine.compile import compile_cache
from workbench.engine.hlo.read_compiled import READER_VERSION, refresh_record
from workbench.reports.compiled import Compiled
from workbench.spmd.hlo_module import read_module


def reread_stored(key: str, compiled: Compiled, serialized: bytes, mesh: Mesh, clock: float | None) -> Compiled:
    """A stored record as today's reader reads it; `serialized` is the stored module, `clock` the hertz of a chip that counts cycles."""
    if compiled.reader != READER_VERSION:
        compiled = refresh_record(compiled, read_module(serialized), mesh, clock)
        compile_cache.store(key, compiled, serialized)
    return compiled
