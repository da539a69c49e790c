"""What XLA's partitioner says aloud while it compiles: on this process's standard error, which the parent of a worker keeps in a file."""

import os
import re
import stat

from workbench.compiled import Rematerialised
from workbench.partition import readable_path

_WARNING = re.compile(
    r"Involuntary full rematerialization\. The compiler cannot go from sharding (?P<before>\{[^}]*\}) to (?P<after>\{[^}]*\}) "
    r"efficiently for HLO operation %(?P<name>\S+) = (?P<shape>\S+\])[^\n]*"
)
_SCOPE = re.compile(r'op_name="([^"]*)"')


def said_so_far() -> int:
    """How much has been said; -1 if it cannot be read back (a terminal, a pipe)."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def rematerialised_since(start: int) -> tuple[Rematerialised, ...]:
    """The involuntary full rematerialisations warned of since `said_so_far` said this; none where nothing can be read back."""
    if start < 0:
        return ()
    try:
        text = os.pread(2, os.fstat(2).st_size - start, start).decode(errors="replace")
    except OSError:  # open for writing alone
        return ()
    return rematerialised(text)


def rematerialised(text: str) -> tuple[Rematerialised, ...]:
    """The warnings in what XLA wrote, each once."""
    found = (
        Rematerialised(
            readable_path(scope[1]) if (scope := _SCOPE.search(match[0])) else "",
            match["name"],
            match["shape"],
            match["before"],
            match["after"],
        )
        for match in _WARNING.finditer(text)
    )
    return tuple(dict.fromkeys(found))
