"""The trace event format as a schema, and what its readers need besides: "Trace Event Format", Google, 2016."""

from collections.abc import Sequence
from typing import Any

_NUMBER, _WHOLE, _TEXT = {"type": "number", "minimum": 0}, {"type": "integer", "minimum": 0}, {"type": "string", "minLength": 1}


def _event(phase: str, *required: str, **fields: Any) -> dict[str, Any]:
    known = {"ph": {"const": phase}, "pid": _WHOLE, "tid": _WHOLE, "name": _TEXT, "args": {"type": "object"}, **fields}
    return {"type": "object", "properties": known, "required": ["ph", "pid", "name", *required], "additionalProperties": False}


_METADATA = {"enum": ["process_name", "process_sort_index", "thread_name", "thread_sort_index"]}
_ASYNC = {"cat": _TEXT, "ts": _NUMBER, "id": _TEXT}
EVENTS = {
    "type": "object",
    "required": ["traceEvents"],
    "additionalProperties": False,
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "minItems": 1,
            "items": {
                "oneOf": [
                    _event("M", "tid", "args", name=_METADATA),
                    _event("X", "tid", "ts", "dur", "cat", "args", ts=_NUMBER, dur=_NUMBER, cat=_TEXT),
                    _event("b", "tid", "ts", "cat", "id", **_ASYNC),
                    _event("e", "tid", "ts", "cat", "id", **_ASYNC),
                    _event("C", "ts", "args", ts=_NUMBER),
                ]
            },
        },
    },
}


def verify_threads(events: Sequence[dict[str, Any]]) -> None:
    """Asserts that every thread has a name, that what is done on one comes one after the other, as Perfetto takes what overlaps for nested
    calls, and that what begins ends."""
    threads = {(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"}
    for thread in {(each["pid"], each["tid"]) for each in events if each["ph"] == "X"}:
        assert thread in threads
        done = sorted((each["ts"], each["dur"]) for each in events if each["ph"] == "X" and (each["pid"], each["tid"]) == thread)
        ends = [round(1e3 * (start + seconds)) for start, seconds in done]
        assert all(end <= round(1e3 * start) for end, (start, _) in zip(ends, done[1:], strict=False))
    begun = {(each["pid"], each["id"], each["name"]): each["ts"] for each in events if each["ph"] == "b"}
    ended = {(each["pid"], each["id"], each["name"]): each["ts"] for each in events if each["ph"] == "e"}
    assert begun.keys() == ended.keys()
    assert all(begun[key] <= ended[key] for key in begun)
