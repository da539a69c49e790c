"""What a room asks of the server around it, with a notice of what came of it: the room goes on, whatever fails."""

from collections.abc import Mapping
from typing import Any, Protocol

from workbench.team.rooms.room_jobs import Tell
from workbench.team.rooms.room_notices import RoomGuest, problem_text, show_notice
from workbench.team.rooms.room_records import RoomSource


class RoomActions(Protocol):
    """What people do in a room that concerns more than it. Each raises `WorkbenchError` for somebody who may not."""

    def save(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> str:
        """Put a plan into the gallery; the address of where it is."""

    def hand_in(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any]) -> str:
        """Keep an answer of somebody whose work this is; what they have to know of it, or nothing."""

    def branch(self, source: RoomSource, guest: RoomGuest) -> str:
        """A room of the person's own with this history; its address."""

    def run(self, source: RoomSource, guest: RoomGuest, message: Mapping[str, Any], tell: Tell) -> None:
        """Submit a run of a plan as a job, and `tell` what happens to it."""

    def cancel(self, guest: RoomGuest, number: int, tell: Tell) -> None:
        """Ask for a job of this room to be ended."""

    def forget_jobs(self, tell: Tell) -> None:
        """Tell of jobs no more."""

    def gallery_of(self, source: RoomSource) -> str:
        """The address of the project's gallery, or of the room's assignment: where the room's page leads back to."""

    def comments_of(self, source: RoomSource) -> str:
        """The path under which comments are written."""


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
