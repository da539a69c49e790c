"""Plans in and out of the board: files, exports, links."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import FileText, MaybeText, Text, Text40
from workbench.widgets.gestures.gesture import Gesture


@dataclass(frozen=True, slots=True)
class _FileGesture(Gesture):
    """A gesture of the head; what is refused of it is said under it."""

    refused_at: ClassVar[str] = "tools"


@dataclass(frozen=True, slots=True)
class SaveGesture(_FileGesture):
    """The plan saved; where the host has no files, it is a download of the `view` that asked."""

    verb: ClassVar[str] = "save"
    view: Text40 = ""


@dataclass(frozen=True, slots=True)
class OpenFileGesture(_FileGesture):
    """The plan of a file; its text has a bound of its own."""

    verb: ClassVar[str] = "open_file"
    name: Text = ""
    text: FileText = None


@dataclass(frozen=True, slots=True)
class ExportGesture(_FileGesture):
    """The plan as code, in one of the forms or the first of them."""

    verb: ClassVar[str] = "export"
    form: MaybeText = None


@dataclass(frozen=True, slots=True)
class LinkGesture(_FileGesture):
    """An address that holds the plan."""

    verb: ClassVar[str] = "link"


@dataclass(frozen=True, slots=True)
class CloseSheetGesture(_FileGesture):
    """The export or link closed."""

    verb: ClassVar[str] = "close_sheet"
