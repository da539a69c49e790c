"""What somebody asks of the server from a room's page, with a notice of what came of it: the room goes on, whatever fails."""

from collections.abc import Mapping
from typing import Any

from workbench.team.rooms.room_actions import RoomActions
from workbench.team.rooms.room_guest import RoomGuest
from workbench.team.rooms.room_notices import problem_text, show_notice
from workbench.team.rooms.room_records import RoomSource


def save_plan(actions: RoomActions, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> None:
    """Put a plan that the room's process describes into the gallery."""
    try:
        place = actions.save(source, guest, message)
    except Exception as error:  # noqa: BLE001
        show_notice(guest.screen, "This plan was not put into the gallery", problem_text(error))
        return
    text = f"This plan is in the gallery of {source.project}."
    show_notice(guest.screen, "In the gallery", text, [["open", "Show it", place]], good=True)


def hand_in_answer(actions: RoomActions, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> None:
    """Keep an answer of somebody whose work this is."""
    try:
        problem = actions.hand_in(source, guest, message)
    except Exception as error:  # noqa: BLE001
        problem = problem_text(error)
    if problem:
        show_notice(guest.screen, "This answer does not count", problem)


def branch_off(actions: RoomActions, source: RoomSource, guest: RoomGuest) -> None:
    """Make a room of the person's own with this room's history."""
    try:
        place = actions.branch(source, guest)
    except Exception as error:  # noqa: BLE001
        show_notice(guest.screen, "No branch was made", problem_text(error))
        return
    text = "It begins with this room's history, and what you do there changes nothing here."
    show_notice(guest.screen, "A room of your own", text, [["open", "Go there", place]], good=True)
