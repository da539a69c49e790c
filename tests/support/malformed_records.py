"""Hypothesis strategies: records of edits that nobody wrote, from nearly right to nothing like a record."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_TEXTS = (
    *(
        "",
        " ",
        "\x00",
        "\ud800",
        "x" * 3000,
        "@",
        "**",
        "w1",
        "#x",
        "forward",
        "os:system",
        "antigravity:build",
        "tests.support.importable:mlp",
    ),
    *(
        "[",
        "[data",
        "[data]",
        "[a+a]",
        "[? p9]",
        "[data p1001]",
        "d_ff:model",
        "data:4 model:2",
        "model",
        "data:x",
        "data:x(0)",
        "data:x+x",
    ),
    *("8 H100", "0 H100", "TPU v5e 0x0", "8 H100, node=0 Gb/s", "8 H100, eager, 0 $/h", "bfloat16", "params=int8", "optimizer_state"),
    *("stages:2 micro_batches:4", "stages:0 micro_batches:4", "save:a", "save:a offload:a", "dots_every:0", "full layers:1/2"),
)
_VALUES = (
    *(True, None, -1, 0, 4.0, 1e300, 10**39, 10**50, 10**5000, float("nan"), float("inf")),
    *([], {}, [[]], {"": {}}, ["data", 0], [["data", 2]], [["data", 2.0]], [["data", 2], ["data", 2]], {"rules": {"batch": "a+a"}}),
)
STRANGE = st.sampled_from((*_TEXTS, *_VALUES)).map(deepcopy)
"""Texts that are right elsewhere, or nearly; numbers, lists and objects that are seldom right."""


@st.composite
def changed_records(draw: st.DrawFn, records: Sequence[Mapping[str, Any]]) -> Any:
    """One of these records, in which one to three values were replaced, added, removed or misspelt."""
    whole = {"": json.loads(json.dumps(draw(st.sampled_from(records))))}
    for _ in range(draw(st.integers(1, 3))):
        *path, key = draw(st.sampled_from([path for path in _paths(whole) if path]))
        parent: Any = whole
        for step in path:
            parent = parent[step]
        _change(draw, parent, key)
    return whole[""]


@st.composite
def unlikely_records(draw: st.DrawFn, fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The right fields of some edit, each with any value at all."""
    name = draw(st.sampled_from([*fields]))
    return {"edit": name, **{field: draw(STRANGE | JSON) for field in fields[name]}}


def _change(draw: st.DrawFn, parent: Any, key: Any) -> None:
    change = draw(st.sampled_from(("misspell", "misspell", "misspell", "replace", "remove", "add")))
    if change == "misspell" and isinstance(parent[key], str):
        place = draw(st.integers(0, len(parent[key])))
        parent[key] = parent[key][:place] + draw(st.sampled_from(("", *"[]:;,+=? p1-@é"))) + parent[key][place + 1 :]
    elif key == "" or change in ("misspell", "replace"):
        parent[key] = draw(STRANGE | JSON)
    elif change == "remove":
        del parent[key]
    elif isinstance(parent, dict):
        parent[draw(st.sampled_from(("edit", "edits", "axes", "name", "plan", "x")))] = draw(STRANGE)
    else:
        parent.append(draw(STRANGE))


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a record, the record's own first."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _paths(value[key], (*path, key))
