"""A person in a room, as its planner process knows them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.errors import WorkbenchError
from workbench.team.access import ProjectRole


@dataclass(frozen=True, slots=True)
class RoomPerson:
    """`user_id` is what the log names; `display` is what colleagues read. The role is that in the room's project, or of the link by which
    the person came; `is_participant` is who works on an assignment in this room, `is_student` who is in the project for the sake of
    assignments alone."""

    user_id: str
    display: str
    role: ProjectRole = ProjectRole.VIEWER
    is_participant: bool = False
    is_student: bool = False

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> "RoomPerson":
        """The person in a message of the server."""
        flags = (bool(message.get(name)) for name in ("participant", "student"))
        return cls(message["user_id"], message["display"], ProjectRole(message["role"]), *flags)

    def verify(self, needed: ProjectRole, to_do: str) -> None:
        """Raises `WorkbenchError` if the role is not enough."""
        if self.role < needed:
            raise WorkbenchError(
                f"To {to_do} takes the role {needed} in this project; yours is {self.role}.",
                ["ask an owner of the project", "export the plan, and go on with it in a workbench of your own"],
            )


NOBODY = RoomPerson("", "The workbench", ProjectRole.OWNER)
"""Who acts when no person does: a log that is replayed, an answer of XLA's partitioner."""
