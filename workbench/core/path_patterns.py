"""Patterns over paths such as `params/layers/0/mlp/w1`: the one way in which tensors and values are selected by name."""

import functools
import re
from collections.abc import Collection, Iterable

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
