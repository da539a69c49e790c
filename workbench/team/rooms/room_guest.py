"""One page in a room."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.team.access import Principal, ProjectRole
from workbench.team.rooms.room_screen import RoomScreen


@dataclass(slots=True)
class RoomGuest:
    """One page in the room, of one person."""

    number: int
    principal: Principal
    role: ProjectRole
    screen: RoomScreen
    is_participant: bool = False  # whose work on an assignment is done here
    held: ProjectRole | None = None  # the role in the project, which may be another than that in the room

    @property
    def may_branch(self) -> bool:
        """Whether a room of their own would be made for them."""
        return self.held is not None and self.held >= ProjectRole.EDITOR

    def entering(self) -> Mapping[str, Any]:
        """As the room's process learns of it."""
        person = {
            "user_id": self.principal.user_id,
            "display": self.principal.display,
            "role": int(self.role),
            "participant": self.is_participant,
            "student": self.held is ProjectRole.STUDENT,
        }
        return {"enter": person, "visitor": self.number}
