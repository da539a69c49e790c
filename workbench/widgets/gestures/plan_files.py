"""Plans in and out of the board: files, exports, links."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import FileText, MaybeText, Text, Text40
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class _FileGesture(Gesture):
    """A gesture of the toolbar, where its refusal is shown."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class SaveGesture(_FileGesture):
    """Save the plan; where the host has no files, it is a download in the `view` that asked."""

    verb: ClassVar[str] = "save"
    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class OpenFileGesture(_FileGesture):
    """Open the plan of a file; its text has a separate limit."""

    verb: ClassVar[str] = "open_file"
    name: Text = ""
    text: FileText = None


@dataclass(frozen=True, slots=True)
class ExportGesture(_FileGesture):
    """Export the plan as code, in one of the formats or the first of them; or as a file, a download in the `view` that asked."""

    verb: ClassVar[str] = "export"
    form: MaybeText = None
    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class LinkGesture(_FileGesture):
    """Make a URL that contains the plan."""

    verb: ClassVar[str] = "link"


@dataclass(frozen=True, slots=True)
class CloseSheetGesture(_FileGesture):
    """Close the export or link."""

    verb: ClassVar[str] = "close_sheet"
