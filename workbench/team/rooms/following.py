"""Gestures that come from elsewhere than the board: of following somebody, whose board opens and selects what the leader's does, and of
the bar above it."""

from collections.abc import Mapping
from typing import Any

from workbench.team.rooms.presence import PresentPerson, RoomPresence


def leader_for(presence: RoomPresence, visitor: int, leader: object) -> int:
    """The visitor whom somebody follows from now on, 0 for nobody: neither oneself, nor one who follows oneself in turn. A circle would
    pass what its people see round and round."""
    known = {person.visitor: person for person in presence.people()}
    if type(leader) is not int or leader not in known:
        return 0
    at, seen = leader, {visitor}
    while at in known and at not in seen:
        seen.add(at)
        at = known[at].following
    return 0 if at == visitor else leader


def gestures_of_following(mine: PresentPerson, theirs: PresentPerson) -> list[Mapping[str, Any]]:
    """What brings a follower's board to what the leader sees; to select again what is selected clears it."""
    gestures: list[Mapping[str, Any]] = []
    if theirs.tab and mine.tab != theirs.tab:
        gestures.append({"verb": "open", "tab": theirs.tab})
    if mine.selected != theirs.selected:
        gestures.append({"verb": "select", "path": theirs.selected or mine.selected})
    return gestures


def asked_gesture(heard: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is asked of the board in the bar: to go to the plan of a comment, to undo and to redo; none for anything else."""
    if heard.get("kind") == "go":
        return {"verb": "go", "number": heard.get("node")}
    return {"verb": heard["kind"]} if heard.get("kind") in ("undo", "redo") else None
