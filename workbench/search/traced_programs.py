"""The program of a search, traced with each choice of remat, precision and offload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from workbench.core.offload import OPTIMIZER_STATE, Offload
from workbench.core.precision import Precision
from workbench.core.program import Program
from workbench.core.remat import ALL_LAYERS, OFFLOAD_DOTS, Remat
from workbench.errors import WorkbenchError
from workbench.propagation import structure_of

AS_TRACED = "as traced"
ACTIVATIONS_ON_HOST = "offloaded"
REMATS: Mapping[str, Remat] = {
    AS_TRACED: Remat(),
    "none": Remat("none"),
    "selective": Remat("dots_no_batch"),
    ACTIVATIONS_ON_HOST: Remat(OFFLOAD_DOTS),
    "full": Remat("full"),
    **{f"full_{count}/{of}": Remat("full", layers=(count, of)) for count, of in ((3, 4), (1, 2), (1, 4))},
}
"""Remat by name; `full_1/2` applies `full` to 1 of every 2 layers.

In a pipeline, `full` is done by the schedule (a stage keeps its inputs); `offloaded` needs a step without pipeline.
"""
USUAL_REMATS = ("none", "selective", "full")
OF_SOME_LAYERS = tuple(name for name, remat in REMATS.items() if remat.layers != ALL_LAYERS)
WIDE_REMATS = ("none", "selective", ACTIVATIONS_ON_HOST, "full", *OF_SOME_LAYERS)
ON_DEVICE = str(Offload())
OFFLOADS = (ON_DEVICE, OPTIMIZER_STATE)


@dataclass(frozen=True, slots=True)
class TracedAs:
    """How a program is traced: a name in `REMATS`, and the text of a `Precision` and an `Offload`."""

    remat: str = AS_TRACED
    precision: str = AS_TRACED
    offload: str = ON_DEVICE


TracedPrograms = tuple[tuple[TracedAs, Program], ...]


def trace_programs(
    program: Program,
    remats: Sequence[str] | None,
    precisions: Sequence[str] = (),
    offloads: Sequence[str] | None = (),
    usual: Sequence[str] = USUAL_REMATS,
) -> TracedPrograms:
    """Trace the program with all combinations of remat, precision and offload.

    `None` means all `usual` remats, or all `OFFLOADS`, that the program allows; an empty sequence means the program's
    own. Remat is `AS_TRACED` if the program cannot be traced again. Raises `WorkbenchError` for a named choice that
    does not fit the program.
    """
    remat_choices = _list_remats(program, remats, usual)
    offload_choices = (
        _list_offloads(program, next(iter(remat_choices.values())))
        if offloads is None
        else [Offload.parse(offload_) for offload_ in offloads]
    )
    types = list(dict.fromkeys(map(Precision.parse, precisions)))
    return tuple(
        (TracedAs(name, str(precision), str(offload)), program.variant(remat=remat, precision=precision, offload=offload))
        for precision, offload, (name, remat) in product(
            types or [program.precision], offload_choices or [program.offload], remat_choices.items()
        )
    )


def _list_remats(program: Program, remats: Sequence[str] | None, usual: Sequence[str]) -> dict[str, Remat]:
    """Remats by name that the program allows; its own is `none` if it recomputes nothing."""
    allowed: dict[str, Remat] = {}
    for name in usual if remats is None else [remat for remat in remats if remat in REMATS]:
        if name == "none" and program.remat == REMATS[AS_TRACED] and not any(op.is_recomputed for op in structure_of(program).ops):
            allowed[name] = program.remat
            continue
        try:
            allowed[name] = program.variant(remat=REMATS[name]).remat
        except WorkbenchError:
            if remats is not None:
                raise
    return allowed or {AS_TRACED: program.remat}


def _list_offloads(program: Program, remat: Remat) -> list[Offload]:
    """Offloads that the program allows. They are tried with one remat: the others give the same answer."""
    allowed = []
    for offload in map(Offload.parse, OFFLOADS):
        try:
            allowed.append(program.variant(remat=remat, offload=offload).offload)
        except WorkbenchError:
            continue
    return allowed
