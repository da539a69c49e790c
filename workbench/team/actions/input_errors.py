"""What can be wrong with what somebody sent."""

from workbench.errors import WorkbenchError


class InputError(WorkbenchError):
    """Something that was sent is not as it has to be."""


class ConflictError(WorkbenchError):
    """It cannot be as things are: the name is taken, the room is closed, the project is archived."""
