"""A function traced anew under each remat policy, precision and offload that an edit asks for, for each platform, and over each mesh."""

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

from workbench.core.offload import Offload
from workbench.core.precision import Precision
from workbench.core.program import MeshAxes, Program
from workbench.core.proposed_names import ProposedNames
from workbench.core.remat import Remat
from workbench.errors import TraceError
from workbench.propagation.module.source_meshes import find_partial_permutation
from workbench.recipes.propose_names import propose_names
from workbench.tracing.lower_for_platform import lowering_for
from workbench.tracing.mesh_context import call_over, over_mesh

MOST_VARIANTS = 16  # kept, so that going back to one is instant; a wide search has eight remats, each with and without offloading


class Variants:
    """`Program.retrace` of the programs it makes: `make(remat, precision, offload)`, each once for a platform and a mesh.

    What it keeps does not refer to it, only what it returns does: a program that refers to its variants, and they to it, would be freed by
    a full garbage collection alone, which Python puts off as long as most of what it finds is in use.
    It can be sent to another process if `make` can; what was traced is not sent along.
    """

    def __init__(self, make: Callable[[Remat, Precision, Offload], Program]) -> None:
        self._make = make
        self._tracer = _NamingTracer(make)
        self._known = lru_cache(maxsize=MOST_VARIANTS)(self._tracer)

    def __call__(self, remat: Remat, precision: Precision, offload: Offload, platform: str = "", mesh: MeshAxes = ()) -> Program:
        axes = () if mesh == self._tracer.mesh else mesh
        program = self._known(remat, precision, offload, platform or "cpu", axes)
        return replace(program, remat=remat, precision=precision, offload=offload, retrace=self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Variants, (self._make,)


class _NamingTracer:
    """Traces the variants; all of them have the dimension names that are proposed for the first. `mesh`: that of the first."""

    def __init__(self, make: Callable[[Remat, Precision, Offload], Program]) -> None:
        self._make = make
        self._names: ProposedNames | None = None
        self.mesh: MeshAxes = ()

    def __call__(self, remat: Remat, precision: Precision, offload: Offload, platform: str, axes: MeshAxes) -> Program:
        make = over_mesh(self._make, axes) if axes else self._make
        with _gc_paused(), lowering_for(platform):
            program = propose_names(call_over(axes, lambda: make(remat, precision, offload)), self._names)
        if axes:
            _verify_permutations(program)
        if self._names is None:
            self._names, self.mesh = program.proposed, program.manual_mesh
        return program


def _verify_permutations(program: Program) -> None:
    """Raises `TraceError` for a `ppermute` whose pairs were counted for a mesh of another size."""
    if (source := find_partial_permutation(program.lowered, math.prod(size for _, size in program.manual_mesh))) is not None:
        where = f" ({source})" if source else ""
        raise TraceError(
            f"the pairs of its `ppermute`{where} leave out devices.", ["compute the pairs from `jax.lax.axis_size` in the function"]
        )


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Tracing makes many objects and few cycles: repeated garbage collections would take a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
