"""What a room asks of the server around it."""

from collections.abc import Mapping
from typing import Any, Protocol

from workbench.team.rooms.room_guest import RoomGuest
from workbench.team.rooms.room_jobs import Tell
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
