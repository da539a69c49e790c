"""What a hand takes from what the workbench offers: suggested edits and recipes."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import FlagUnlessFalse, Needed, Purpose, RecipeAxes, Text, Text80
from workbench.widgets.gestures.gesture import EditGesture, Gesture


@dataclass(frozen=True, slots=True)
class MendGesture(EditGesture):
    """An edit that a note or a tried remedy of the present report suggests, by its text."""

    verb: ClassVar[str] = "mend"
    edit: Needed


@dataclass(frozen=True, slots=True)
class DecideGesture(Gesture):
    """An edit that was found for a conflict or the fewest statements, by its text."""

    verb: ClassVar[str] = "decide"
    edit: Text = ""


@dataclass(frozen=True, slots=True)
class TryEditsGesture(Gesture):
    """Remedies looked for, of one resharding."""

    verb: ClassVar[str] = "try_edits"
    refused_at: ClassVar[str] = "tools"
    key: Text = ""


@dataclass(frozen=True, slots=True)
class RecipesGesture(Gesture):
    """The list of recipes opened or closed."""

    verb: ClassVar[str] = "recipes"
    refused_at: ClassVar[str] = "tools"
    open: FlagUnlessFalse = True


@dataclass(frozen=True, slots=True)
class RecipeAxisGesture(Gesture):
    """A mesh axis chosen for one purpose of a recipe."""

    verb: ClassVar[str] = "recipe_axis"
    refused_at: ClassVar[str] = "tools"
    name: Text80 = ""
    place: Purpose = -1
    axis: Text80 = ""


@dataclass(frozen=True, slots=True)
class RecipeGesture(EditGesture):
    """All the edits of a recipe as one."""

    verb: ClassVar[str] = "recipe"
    refused_at: ClassVar[str] = "tools"
    name: Text80 = ""
    axes: RecipeAxes = ()
