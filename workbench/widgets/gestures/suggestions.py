"""Gestures that accept what the workbench offers: suggested edits and recipes."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import FlagUnlessFalse, Needed, Purpose, RecipeAxes, Text, Text80
from workbench.widgets.gestures.gesture import EditGesture, Gesture


@dataclass(frozen=True, slots=True)
class MendGesture(EditGesture):
    """Make an edit that a diagnostic or a tried remedy of the present report suggests, named by its text."""

    verb: ClassVar[str] = "mend"
    edit: Needed


@dataclass(frozen=True, slots=True)
class DecideGesture(Gesture):
    """Make an edit that was found for a conflict or the fewest statements, named by its text."""

    verb: ClassVar[str] = "decide"
    edit: Text = ""


@dataclass(frozen=True, slots=True)
class TryEditsGesture(Gesture):
    """Search remedies for one resharding."""

    verb: ClassVar[str] = "try_edits"
    refused_at: ClassVar[str] = "tools"
    key: Text = ""


@dataclass(frozen=True, slots=True)
class RecipesGesture(Gesture):
    """Open or close the list of recipes."""

    verb: ClassVar[str] = "recipes"
    refused_at: ClassVar[str] = "tools"
    open: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class RecipeAxisGesture(Gesture):
    """Choose a mesh axis for one purpose of a recipe."""

    verb: ClassVar[str] = "recipe_axis"
    refused_at: ClassVar[str] = "tools"
    name: Text80 = ""
    place: Purpose = -1
    axis: Text80 = ""


@dataclass(frozen=True, slots=True)
class RecipeGesture(EditGesture):
    """Apply all the edits of a recipe as one."""

    verb: ClassVar[str] = "recipe"
    refused_at: ClassVar[str] = "tools"
    name: Text80 = ""
    axes: RecipeAxes = ()
