"""Gestures on how the program is traced."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Needed, Needed400
from workbench.widgets.gestures.gesture import EditGesture

PROGRAM_ZONE = "program"
"""Where it is chosen how the program is traced: a refusal there is shown under it."""


@dataclass(frozen=True, slots=True)
class TracedAsGesture(EditGesture):
    """Choose `remat`, `precision` or `offload`, as `name`, a text of the command line; an empty one is the default."""

    verb: ClassVar[str] = "traced_as"
    refused_at: ClassVar[str] = PROGRAM_ZONE
    option: Needed
    name: Needed400
