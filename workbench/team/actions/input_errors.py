"""What can be wrong with what somebody sent."""

from workbench.errors import WorkbenchError


class InputError(WorkbenchError):
    """Something that was sent is not as it has to be."""


class ConflictError(WorkbenchError):
    """It cannot be as things are: the name is taken, the room is closed, the project is archived."""


class UnavailableError(WorkbenchError):
    """A part of the server that this needs is not there, or not now."""
