"""Marks on chips and tags on rows for annotations other than placements; one click removes a tag."""

from typing import Any

from workbench.core.layout import Layout
from workbench.core.layout_text import barrier_text, group_text
from workbench.core.path_patterns import matches, selects
from workbench.core.sharding import Sharding
from workbench.widgets.gestures.gesture import TABLES, Gesture
from workbench.widgets.gestures.tensor_gestures import UnbarGesture, UngroupGesture

Mark = dict[str, str]
Tag = dict[str, Any]

_PASSES = {"none": "stops here", "forward": "forward only", "backward": "backward only"}


def marks_of(sharding: Sharding | None) -> tuple[tuple[Mark, ...], ...]:
    """Marks of each dimension: `?` if propagation may shard it further, `p1` for its user priority."""
    if sharding is None or sharding.is_plain:
        return ()
    return tuple(_marks(sharding, place) for place in range(len(sharding.dims)))


def _marks(sharding: Sharding, place: int) -> tuple[Mark, ...]:
    marks = []
    if sharding.is_open(place):
        title = "open: propagation may shard it further" if sharding.dims[place] else "open: propagation decides"
        marks.append({"text": "?", "title": title})
    if priority := sharding.priority(place):
        marks.append(priority_mark(priority))
    return tuple(marks)


def priority_mark(priority: int) -> Mark:
    return {"text": f"p{priority}", "title": f"propagation priority {priority}; 0 is first"}


def tags_of(layout: Layout, path: str, source: str | None = None) -> list[Tag]:
    """Tags for the groups and barriers of an argument, or of a value if `source` names its line."""
    ties = [group_text(places) for places in layout.groups if is_at(places, path, source)]
    stops = [(place, allows) for place, allows in layout.barriers if is_at((place,), path, source)]
    return [
        *(_tag(f"tied {text[5:]}", text, UngroupGesture(text, zone=TABLES)) for text in ties),
        *(_tag(_PASSES[allows], barrier_text(place, allows), UnbarGesture(place, zone=TABLES)) for place, allows in stops),
    ]


def _tag(label: str, title: str, gesture: Gesture) -> Tag:
    return {"label": label, "title": f"{title}. Remove it", "gesture": gesture.as_message()}


def is_at(places: tuple[str, ...], path: str, source: str | None) -> bool:
    """Whether a group or barrier names an argument, or a value if `source` names its line."""
    if source is None:
        return any(matches(place, path) for place in places if not place.startswith("@"))
    return any(selects(place[1:], path, source) for place in places if place.startswith("@"))
