"""The program of a search, traced in every way that may be chosen: what is recomputed, in which types, what is in the host's memory."""

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
"""What each word keeps of a layer; `full_1/2` is `full` on 1 of every 2 layers. In a pipeline `full` is done by the schedule: a stage keeps
its inputs; `offloaded` is for steps without one."""
USUAL_REMATS = ("none", "selective", "full")
OF_SOME_LAYERS = tuple(name for name, remat in REMATS.items() if remat.layers != ALL_LAYERS)
WIDE_REMATS = ("none", "selective", ACTIVATIONS_ON_HOST, "full", *OF_SOME_LAYERS)
ON_DEVICE = str(Offload())
OFFLOADS = (ON_DEVICE, OPTIMIZER_STATE)


@dataclass(frozen=True, slots=True)
class TracedAs:
    """How a program is traced: `remat` of `REMATS`; `precision` and `offload` as `Precision` and `Offload` print."""

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
    """The program in all combinations of remats, precisions and offloads. `None` is all of `usual` remats, or of `OFFLOADS`, that the
    program allows; no precision, or no offload, is the program's own. Remat is `AS_TRACED` where it cannot be traced again with any.

    Raises `WorkbenchError` for what was named and does not fit the program.
    """
    ways = _list_remats(program, remats, usual)
    known = _list_offloads(program, next(iter(ways.values()))) if offloads is None else [Offload.parse(each) for each in offloads]
    types = list(dict.fromkeys(map(Precision.parse, precisions)))
    return tuple(
        (TracedAs(name, str(precision), str(offload)), program.variant(remat=remat, precision=precision, offload=offload))
        for precision, offload, (name, remat) in product(types or [program.precision], known or [program.offload], ways.items())
    )


def _list_remats(program: Program, remats: Sequence[str] | None, usual: Sequence[str]) -> dict[str, Remat]:
    """The remats by name, as far as the program allows them; its own where it recomputes nothing as it is."""
    found: dict[str, Remat] = {}
    for name in usual if remats is None else [each for each in remats if each in REMATS]:
        if name == "none" and program.remat == REMATS[AS_TRACED] and not any(op.is_recomputed for op in structure_of(program).ops):
            found[name] = program.remat
            continue
        try:
            found[name] = program.variant(remat=REMATS[name]).remat
        except WorkbenchError:
            if remats is not None:
                raise
    return found or {AS_TRACED: program.remat}


def _list_offloads(program: Program, remat: Remat) -> list[Offload]:
    """What the host may keep of the program: by `OFFLOADS`, the others being legal with any remat if they are with one."""
    found = []
    for each in map(Offload.parse, OFFLOADS):
        try:
            found.append(program.variant(remat=remat, offload=each).offload)
        except WorkbenchError:
            continue
    return found
