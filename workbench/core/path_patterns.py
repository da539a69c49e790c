"""Patterns over paths such as `params/layers/0/mlp/w1`: the one way in which tensors and values are selected by name."""

import functools
import re
from collections.abc import Collection, Iterable

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.errors import unknown_name

_WILD = re.compile(r"[*?]")
_NUMBERS = re.compile(r"\[\d+(?:\.\.\d+)?(?:,\d+(?:\.\.\d+)?)*\]")


@functools.lru_cache(maxsize=1 << 12)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    words = (r"[^/]+(?:/[^/]+)*" if word == "**" else _word_regex(word) for word in pattern.strip("/").split("/"))
    return re.compile(("" if pattern.startswith("/") else r"(?:.*/)?") + "/".join(words))


def _word_regex(word: str) -> str:
    """One component as a regular expression. Text between two stars is matched at its first occurrence and never retried, as in `fnmatch`:

    patterns come from strangers' plan files, and backtracking over many stars would take exponential time.
    """
    first, *others = ("".join("[^/]" if c == "?" else re.escape(c) for c in piece) for piece in re.split(r"\*+", word))
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>[^/]*?{piece})" for piece in between) + f"[^/]*{last}"


def matches(pattern: str, path: str) -> bool:
    """Whether `pattern` names `path`, or the tail of it; `*` stands within one component, `**` for one or more.

    A slash in front holds the pattern to the whole path.

    >>> matches("w1", "params/layers/0/mlp/w1"), matches("layers/*/mlp/w1", "params/layers/0/mlp/w1")
    (True, True)
    >>> matches("w1", "params/layers/0/mlp/w1_bias"), matches("params/**", "params/head")
    (False, True)
    >>> matches("/mlp/dot", "mlp/dot"), matches("/mlp/dot", "grad/mlp/dot")
    (True, False)
    """
    return _compile_pattern(pattern).fullmatch(path) is not None


def match_patterns(patterns: Iterable[str], paths: Iterable[str]) -> dict[str, list[str]]:
    """For each path, the patterns that match it, in their order. There may be hundreds of both, so a pattern is tried only on paths that
    end in its last word.

    >>> match_patterns(["w1", "*/w1", "w*"], ["mlp/w1", "mlp/w2"])
    {'mlp/w1': ['w1', '*/w1', 'w*'], 'mlp/w2': ['w*']}
    """
    found: dict[str, list[str]] = {path: [] for path in paths}
    ending: dict[str, list[str]] = {}
    for path in found:
        ending.setdefault(path.rpartition("/")[2], []).append(path)
    for pattern in patterns:
        last = pattern.strip("/").rpartition("/")[2]
        for path in found if _WILD.search(last) else ending.get(last, ()):
            if matches(pattern, path):
                found[path].append(pattern)
    return found


def template(path: str) -> str:
    """`path` with its layer numbers replaced by `*`: the same for the same tensor of each repeated layer.

    >>> template("params/layers/12/mlp/w1"), template("params/blocks_3/attn")
    ('params/layers/*/mlp/w1', 'params/blocks_*/attn')
    """
    return "/".join(re.sub(r"(?<![A-Za-z])\d+$|(?<=[_.])\d+$", "*", word) for word in path.split("/"))


def find_parameter(path: str, parameters: Iterable[str]) -> str | None:
    """The parameter that a leaf of the optimiser's state belongs to: the longest of these paths, without their root, that ends its path.

    >>> find_parameter("opt_state/0/mu/head/w", ["w", "head/w"]), find_parameter("opt_state/0/count", ["w"])
    ('head/w', None)
    """
    return max((each for each in parameters if path.endswith(f"/{each}")), key=len, default=None)


def unfold_pattern(pattern: str, paths: Collection[str]) -> str:
    """The pattern that matches what a table shows as one row of repeated layers; empty if that is none of these paths.

    >>> unfold_pattern("params/layers[0..3]/up", ["params/layers/0/up"]), unfold_pattern("block_[0,2]/up", ["block_0/up"])
    ('params/layers/*/up', 'block_*/up')
    >>> unfold_pattern("layers[0..3]/up", ["layers/up"]), unfold_pattern("layers[0..3]/up", ["head"])
    ('layers/up', '')
    """
    candidates = [_NUMBERS.sub(numbers, pattern) for numbers in ("/*", "", "*")] if _NUMBERS.search(pattern) else []
    return next((each for each in candidates if any(matches(each, path) for path in paths)), "")


# Selectors: which intermediate values of a program a pattern of the layout names, by named scope or by the user's source line.
#
# `mlp/dot_general` names values by their path (`path_patterns.matches`); `gpt.py:42` those that line 42 makes in the forward pass (their
# counterparts in the backward pass follow by propagation), and `gpt.py:42/dot_general` those of them whose path ends so. In a group or a
# barrier, `@` marks a selector; without it the name is an argument's.

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


def stated_turns(turns: Iterable[tuple[str, int]], path: str, source: str) -> int | None:
    """How often the loop of this path and line runs, by the last statement of a layout that names it.

    >>> stated_turns([("solve", 8)], "solve", ""), stated_turns([("solve/while", 8)], "solve", ""), stated_turns([("while", 8)], "", "")
    (8, 8, 8)
    >>> stated_turns([("a.py:1", 4), ("a.py:2", 5)], "", "a.py:1"), stated_turns([("search", 8)], "solve", "")
    (4, None)
    """
    named = (count for pattern, count in turns if selects(pattern, path, source) or matches(pattern, f"{path}/while".lstrip("/")))
    return max(enumerate(named), default=(0, None))[1]


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
    end = "" if is_line(pattern) else _WILD.split(pattern.strip("/"))[-1].rpartition("/")[2]  # few of thousands of paths end so
    ending = ((i, op) for i, op in enumerate(program.operations) if op.path.endswith(end))
    named = {
        i
        for i, op in ending
        if (rank is None or len(op.shape) == rank) and op.dtype and op.kind not in _NO_VALUES and selects(pattern, op.path, op.source)
    }
    return tuple(i for i in sorted(named) if not (i + 1 in named and program.operations[i + 1].path == program.operations[i].path))


_NO_VALUES = frozenset({"constant", "data_flow_edge", "return"})  # operations that stand for other values or for none
