"""What is set by hand and does not show as a place on the mesh: small marks on chips, and tags on rows that one click takes back."""

from typing import Any

from workbench.layout import Layout
from workbench.layout_text import barrier_text, group_text
from workbench.paths import matches
from workbench.places import picks
from workbench.sharding import Sharding

Mark = dict[str, str]
Tag = dict[str, Any]

_PASSES = {"none": "stops here", "forward": "forward only", "backward": "backward only"}


def marks_of(sharding: Sharding | None) -> tuple[tuple[Mark, ...], ...]:
    """Of each dimension: `?` if propagation may split it further, `p1` for its round."""
    if sharding is None or sharding.is_plain:
        return ()
    return tuple(_marks(sharding, place) for place in range(len(sharding.dims)))


def _marks(sharding: Sharding, place: int) -> tuple[Mark, ...]:
    found = []
    if sharding.is_open(place):
        title = "open: propagation may split it further" if sharding.dims[place] else "open: left to propagation"
        found.append({"text": "?", "title": title})
    if priority := sharding.priority(place):
        found.append(priority_mark(priority))
    return tuple(found)


def priority_mark(priority: int) -> Mark:
    return {"text": f"p{priority}", "title": f"spreads in round {priority}; 0 goes first"}


def tags_of(layout: Layout, path: str, source: str | None = None) -> list[Tag]:
    """The groups and barriers of an argument, or with a `source` line of a value."""
    ties = [
        _tag(f"tied {group_text(places)[5:]}", "untie", group=group_text(places))
        for places in layout.groups
        if _names(places, path, source)
    ]
    stops = [
        _tag(_PASSES[allows], "unbar", barrier_text(place, allows), at=place)
        for place, allows in layout.barriers
        if _names((place,), path, source)
    ]
    return ties + stops


def _tag(label: str, verb: str, title: str = "", **fields: str) -> Tag:
    return {
        "label": label,
        "title": f"{title or fields.get('group', '')}. Take it back",
        "gesture": {"verb": verb, **fields, "zone": "tables"},
    }


def _names(places: tuple[str, ...], path: str, source: str | None) -> bool:
    if source is None:
        return any(matches(place, path) for place in places if not place.startswith("@"))
    return any(picks(place[1:], path, source) for place in places if place.startswith("@"))
