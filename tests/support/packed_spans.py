"""Spans as a chart sends them, read back."""

import base64
from array import array
from typing import Any, NamedTuple

from workbench.visualize.charts.packed_spans import NUMBER


class SentSpan(NamedTuple):
    """A span in words and numbers; times in seconds."""

    lane: str
    tier: str
    title: str
    start: float
    seconds: float
    number: int
    share: float


def read_spans(*parts: dict[str, Any]) -> list[SentSpan]:
    """Of the JSON of packed spans, part after part and lane after lane; all have the styles of the first."""
    return [span for part in parts for span in _read_part(part, parts[0]["styles"])]


def _read_part(state: dict[str, Any], styles: list[Any]) -> list[SentSpan]:

    def values(kind: str, name: str, default: float) -> list[Any]:
        return list(array(kind, base64.b64decode(state[name]))) if state[name] else [default] * state["firsts"][-1]

    columns = (
        values("d", "starts", 0),
        values("f", "seconds", 0),
        values("I", "kinds", 0),
        values("i", "numbers", -1),
        values("f", "shares", 0.0),
    )
    rows = list(zip(*columns, strict=True))
    found = []
    for lane, first, last in zip(state["lanes"], state["firsts"], state["firsts"][1:], strict=False):
        for start, seconds, kind, number, share in rows[first:last]:
            title = styles[kind][1].replace(NUMBER, str(number))
            found.append(SentSpan(lane["name"], lane["tier"], title, start, seconds, number, share))
    return found
