"""Match patterns against paths such as `params/layers/0/mlp/w1`, to select tensors and values by name."""

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from workbench.core.derived_value_cache import cache_with_program
from workbench.core.program import Program
from workbench.errors import unknown_name

_WILD = re.compile(r"[*?]")
_NUMBERS = re.compile(r"\[\d+(?:\.\.\d+)?(?:,\d+(?:\.\.\d+)?)*\]")


@functools.lru_cache(maxsize=1 << 12)
def _compile_pattern(pattern: str) -> tuple[str, re.Pattern[str]]:
    """What each matching path ends in, and the pattern as a regular expression."""
    words = (r"[^/]+(?:/[^/]+)*" if word == "**" else _word_regex(word) for word in pattern.strip("/").split("/"))
    return _WILD.split(pattern.strip("/"))[-1], re.compile(("" if pattern.startswith("/") else r"(?:.*/)?") + "/".join(words))


def _word_regex(word: str) -> str:
    """Translate one path component to a regular expression that never backtracks.

    Text between two stars matches at its first occurrence, as in `fnmatch`: patterns come from untrusted plan files,
    and backtracking over many stars would take exponential time.
    """
    first, *others = ("".join("[^/]" if c == "?" else re.escape(c) for c in piece) for piece in re.split(r"\*+", word))
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>[^/]*?{piece})" for piece in between) + f"[^/]*{last}"


def matches(pattern: str, path: str) -> bool:
    """Return whether `pattern` matches `path` or its tail.

    `*` matches within one component, `**` one or more components. A leading slash anchors the pattern at the start.

    >>> matches("w1", "params/layers/0/mlp/w1"), matches("layers/*/mlp/w1", "params/layers/0/mlp/w1")
    (True, True)
    >>> matches("w1", "params/layers/0/mlp/w1_bias"), matches("params/**", "params/head")
    (False, True)
    >>> matches("/mlp/dot", "mlp/dot"), matches("/mlp/dot", "grad/mlp/dot")
    (True, False)
    """
    ending, compiled = _compile_pattern(pattern)
    return path.endswith(ending) and compiled.fullmatch(path) is not None  # most of hundreds of paths have another ending


def match_patterns(patterns: Iterable[str], paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Map each path to the patterns that match it, in order.

    There may be hundreds of both, so a pattern without stars is looked up, and one with stars is tried only on paths
    that end in its last word.

    >>> match_patterns(["w1", "*/w1", "w*", "/mlp/w1"], ["mlp/w1", "mlp/w2"])
    {'mlp/w1': ['w1', '*/w1', 'w*', '/mlp/w1'], 'mlp/w2': ['w*']}
    """
    return _match_known(tuple(patterns), tuple(paths))


@functools.lru_cache(maxsize=256)  # a search validates the same layout on hundreds of meshes
def _match_known(patterns: tuple[str, ...], paths: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    order = {pattern: place for place, pattern in enumerate(patterns)}
    starred = [pattern for pattern in order if _WILD.search(pattern)]
    plain: dict[str, list[str]] = {}
    for pattern in order.keys() - {*starred}:
        plain.setdefault("/" * pattern.startswith("/") + pattern.strip("/"), []).append(pattern)
    patterns_of = {path: [pattern for end in _ends(path) for pattern in plain.get(end, ())] for path in paths}
    paths_by_last: dict[str, list[str]] = {}
    for path in patterns_of:
        paths_by_last.setdefault(path.rpartition("/")[2], []).append(path)
    for pattern in starred:
        last = pattern.strip("/").rpartition("/")[2]
        for path in patterns_of if _WILD.search(last) else paths_by_last.get(last, ()):
            if matches(pattern, path):
                patterns_of[path].append(pattern)
    return {path: sorted(found, key=order.__getitem__) for path, found in patterns_of.items()}


def _ends(path: str) -> list[str]:
    """The path anchored at its start, and each of its tails: `/mlp/w1`, `mlp/w1`, `w1`."""
    words = path.split("/")
    return [f"/{path}", *("/".join(words[place:]) for place in range(len(words)))]


def template(path: str) -> str:
    """Replace layer numbers in `path` by `*`, so that equal tensors of repeated layers share a template.

    >>> template("params/layers/12/mlp/w1"), template("params/blocks_3/attn")
    ('params/layers/*/mlp/w1', 'params/blocks_*/attn')
    """
    return "/".join(re.sub(r"(?<![A-Za-z])\d+$|(?<=[_.])\d+$", "*", word) for word in path.split("/"))


def find_parameter(path: str, parameters: Iterable[str]) -> str | None:
    """Return the parameter of an optimizer-state leaf: the longest of these paths (without root) that ends its path.

    >>> find_parameter("opt_state/0/mu/head/w", ["w", "head/w"]), find_parameter("opt_state/0/count", ["w"])
    ('head/w', None)
    """
    return max((name for name in parameters if path.endswith(f"/{name}")), key=len, default=None)


def unfold_pattern(pattern: str, paths: Collection[str]) -> str:
    """Return the pattern for a table row of repeated layers; empty if it matches none of the paths.

    >>> unfold_pattern("params/layers[0..3]/up", ["params/layers/0/up"]), unfold_pattern("block_[0,2]/up", ["block_0/up"])
    ('params/layers/*/up', 'block_*/up')
    >>> unfold_pattern("layers[0..3]/up", ["layers/up"]), unfold_pattern("layers[0..3]/up", ["head"])
    ('layers/up', '')
    """
    candidates = [_NUMBERS.sub(numbers, pattern) for numbers in ("/*", "", "*")] if _NUMBERS.search(pattern) else []
    return next((candidate for candidate in candidates if any(matches(candidate, path) for path in paths)), "")


# Selectors name intermediate values of a program by named scope or by the user's source line.
#
# `mlp/dot_general` selects values by path (`matches`); `gpt.py:42` selects the values that line 42 computes in the forward pass (their
# counterparts in the backward pass follow by propagation); `gpt.py:42/dot_general` also requires this end of the path. In a group or
# barrier, `@` marks a selector; without it the name is an argument.

_LINE = re.compile(r"(?P<line>[^/\s]+:\d+)(?:/(?P<path>.+))?")


def is_line(pattern: str) -> bool:
    """Return whether a pattern names a source line.

    >>> is_line("gpt.py:42"), is_line("gpt.py:42/dot_general"), is_line("mlp/dot_general")
    (True, True, False)
    """
    return _LINE.fullmatch(pattern) is not None


def selects(pattern: str, path: str, source: str) -> bool:
    """Return whether a pattern selects the value with this path and source line.

    >>> selects("gpt.py:42", "mlp/dot_general", "gpt.py:42"), selects("gpt.py:42", "grad/mlp/dot_general", "gpt.py:42")
    (True, False)
    """
    match = _LINE.fullmatch(pattern)
    if match is None:
        return matches(pattern, path)
    in_forward = not path.startswith("grad/")
    return in_forward and source == match["line"] and (match["path"] is None or matches(match["path"], path))


def stated_trip_count(turns: Iterable[tuple[str, int]], path: str, source: str) -> int | None:
    """Return the trip count of a loop from the last layout statement that names it, or `None`.

    >>> [stated_trip_count([(pattern, 8)], path, "") for pattern, path in (("solve", "solve"), ("solve/while", "solve"), ("while", ""))]
    [8, 8, 8]
    >>> stated_trip_count([("a.py:1", 4), ("a.py:2", 5)], "", "a.py:1"), stated_trip_count([("search", 8)], "solve", "")
    (4, None)
    """
    counts = (count for pattern, count in turns if selects(pattern, path, source) or matches(pattern, f"{path}/while".lstrip("/")))
    return max(enumerate(counts), default=(0, None))[1]


def unknown_line(pattern: str, values: Iterable[tuple[str, str]]) -> tuple[str, tuple[str, ...]]:
    """Return an error message and suggestions, nearest lines first, for a source line without values.

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
    """Return the ids of the operations selected by a pattern; of a run with one path, the last makes the value."""
    end = "" if is_line(pattern) else _WILD.split(pattern.strip("/"))[-1].rpartition("/")[2]  # cheap pre-filter: few paths have this end
    candidates = ((i, op) for i, op in enumerate(program.operations) if op.path.endswith(end))
    selected = {
        i
        for i, op in candidates
        if (rank is None or len(op.shape) == rank) and op.dtype and op.kind not in _NO_VALUES and selects(pattern, op.path, op.source)
    }
    return tuple(i for i in sorted(selected) if not (i + 1 in selected and program.operations[i + 1].path == program.operations[i].path))


_NO_VALUES = frozenset({"constant", "data_flow_edge", "return"})  # operations that stand for other values or for none
