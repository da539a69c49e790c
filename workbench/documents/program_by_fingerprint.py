"""A program that no document can name, traced from functions of a running process: the history of its board names it by its fingerprint.

Such a document is of use only to a process that has that program already: it is read with the program that is served again, and refused if
that has changed.
"""

from collections.abc import Mapping

from workbench.core.program import Program, Reference
from workbench.errors import DocumentError

_MARK = "#"


def known_reference(program: Program, known: Program) -> Reference | None:
    """The reference in a document if `program` is the `known` one, with any remat and precision; `None` if it is not, or has a name."""
    same = program.fingerprint == known.fingerprint or (program.retrace is not None and program.retrace is known.retrace)
    return Reference(_MARK + known.fingerprint) if same and program.reference is None else None


def is_known_reference(reference: Reference) -> bool:
    """Whether a document names its program in this way."""
    return reference.target.startswith(_MARK)


def known_program(reference: Reference, known: Program | None, name: str) -> Program:
    """The `known` program; raises `DocumentError` if the document is not of that. `name` is what errors call the document."""
    if known is None or reference.target != _MARK + known.fingerprint:
        raise DocumentError(
            f"{name} is of a program that was traced in another process and that has no name to find it by; it is not the one here.",
            [
                "serve that program again",
                'trace it with `reference=wb.Reference("my_module:build")`: its plans can be opened anywhere then',
            ],
        )
    return known


def names_from_trace(program: Program, renamed: Mapping[str, str]) -> Mapping[str, str]:
    """The renames, by the names of the trace, that give `renamed`; some dimensions may have been renamed before."""
    traced_names = program.renamed or program.dims
    renamed = {name if name in traced_names else program.former_dims.get(name, name): present for name, present in renamed.items()}
    now = {traced: present for traced, present in program.renamed.items() if traced in renamed}
    return {now.get(traced, traced): name for traced, name in renamed.items() if now.get(traced, traced) != name}
