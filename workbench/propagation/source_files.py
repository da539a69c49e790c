"""The user's files that a program was traced from. They are named by its own module, never by a document or a page."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from jax.extend.mlir import ir

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.propagation.module.location import user_frame
from workbench.propagation.prepared_program import load_prepared


@cache_with_program(1)
def source_files(program: Program) -> Mapping[str, str]:
    """By the name that reports give lines with (`gpt.py`), the path of the file; a name that several files have is left out."""
    found: dict[str, set[str]] = {}
    for file in set(_files(load_prepared(program).module)):
        found.setdefault(Path(file).name, set()).add(file)
    return {name: paths.pop() for name, paths in found.items() if len(paths) == 1}


def _files(module: ir.Module) -> Iterator[str]:
    """The user's file of each operation."""
    pending = [module.operation]
    while pending:
        op = pending.pop()
        if (frame := user_frame(op.location)) is not None:
            yield frame[0]
        pending += [inner.operation for region in op.regions for block in region for inner in block]
