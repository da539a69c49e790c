"""The warnings of XLA's partitioner, which it can only print."""

import re
from typing import NamedTuple

_WARNING = re.compile(
    r"Involuntary full rematerialization\. The compiler cannot go from sharding (?P<before>\{[^}]*\}) to (?P<after>\{[^}]*\}) "
    r"efficiently for HLO operation %(?P<name>\S+) = (?P<shape>\S+\])[^\n]*"
)
_SCOPE = re.compile(r'op_name="([^"]*)"')


class FullRematerialization(NamedTuple):
    """An *involuntary full rematerialization*: XLA could reshard a value only by gathering it whole. As XLA writes it, with the named scope
    of the instruction, empty if it has none."""

    op_name: str
    name: str
    shape: str
    before: str
    after: str


def read_warnings(words: str) -> tuple[FullRematerialization, ...]:
    """The warnings in XLA's output, each once."""
    found = (
        FullRematerialization(scope[1] if (scope := _SCOPE.search(match[0])) else "", *match.group("name", "shape", "before", "after"))
        for match in _WARNING.finditer(words)
    )
    return tuple(dict.fromkeys(found))
