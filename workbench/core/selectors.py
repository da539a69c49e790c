"""Selectors: which intermediate values of a program a pattern of the layout names, by named scope or by the user's source line.

`mlp/dot_general` names values by their path (`path_patterns.matches`); `gpt.py:42` those that line 42 makes in the forward pass (their
counterparts in the backward pass follow by propagation), and `gpt.py:42/dot_general` those of them whose path ends so. In a group or a
barrier, `@` marks a selector; without it the name is an argument's.
"""

import re
from collections.abc import Iterable

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.path_patterns import matches
from workbench.core.program import Program
from workbench.errors import unknown_name

_LINE = re.compile(r"(?P<line>[^/\s]+:\d+)(?:/(?P<path>.+))?")


def is_line(pattern: str) -> bool:
    """Whether a pattern names a source line.

    >>> is_line("gpt.py:42"), is_line("gpt.py:42/dot_general"), is_line("mlp/dot_general")
    (True, True, False)
    """
    return _LINE.fullmatch(pattern) is not None


def selects(pattern: str, path: str, source: str) -> bool:
    """Whether a pattern names the value of this path, made by this line.

    >>> selects("gpt.py:42", "mlp/dot_general", "gpt.py:42"), selects("gpt.py:42", "grad/mlp/dot_general", "gpt.py:42")
    (True, False)
    """
    found = _LINE.fullmatch(pattern)
    if found is None:
        return matches(pattern, path)
    in_forward = not path.startswith("grad/")
    return in_forward and source == found["line"] and (found["path"] is None or matches(found["path"], path))


def unknown_line(pattern: str, values: Iterable[tuple[str, str]]) -> tuple[str, tuple[str, ...]]:
    """Message and suggestions for a line that makes no value, given the (path, source) of all values; the nearest lines first.

    >>> unknown_line("gpt.py:7", [("mlp/dot_general", "gpt.py:12"), ("mlp/add", "gpt.py:9"), ("grad/mlp/add", "gpt.py:8")])
    ('There is no line with an intermediate value `gpt.py:7`; there are `gpt.py:9`, `gpt.py:12`.', ('the nearest is `gpt.py:9`',))
    """
    file, _, number = pattern.partition("/")[0].rpartition(":")
    lines = {source for path, source in values if is_line(source) and selects(source, path, source)}
    near = sorted(lines, key=lambda line: (not line.startswith(f"{file}:"), abs(int(line.rpartition(":")[2]) - int(number)), line))
    message, ways_out = unknown_name("line with an intermediate value", pattern, near)
    return message, (f"the nearest is `{near[0]}`",) if near and near[0].startswith(f"{file}:") else ways_out


@cache_with_program(4)
def operations_at(program: Program, pattern: str, rank: int | None = None) -> tuple[int, ...]:
    """The ids of the operations whose values a pattern selects, of rank `rank` if that is given.

    A primitive may lower to several operations of one path; its value is what the last of a run of them makes.
    """
    named = {
        i
        for i, op in enumerate(program.operations)
        if (rank is None or len(op.shape) == rank) and op.dtype and op.kind not in _NO_VALUES and selects(pattern, op.path, op.source)
    }
    return tuple(i for i in sorted(named) if not (i + 1 in named and program.operations[i + 1].path == program.operations[i].path))


_NO_VALUES = frozenset({"constant", "data_flow_edge", "return"})  # operations that stand for other values or for none
