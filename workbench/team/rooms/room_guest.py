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

    def entering(self) -> Mapping[str, Any]:
        """As the room's process learns of it."""
        person = {
            "user_id": self.principal.user_id,
            "display": self.principal.display,
            "role": int(self.role),
            "participant": self.is_participant,
        }
        return {"enter": person, "visitor": self.number}
