"""Gestures of the search for a plan: what is fixed and what may be chosen, as the user typed it; and what is asked of the plans found."""

from dataclasses import dataclass
from typing import ClassVar

from workbench.widgets.gestures.fields import Flag, Text20, Text40, Text80, Text200
from workbench.widgets.gestures.gesture import TABLES, Gesture


@dataclass(frozen=True, slots=True)
class FindGesture(Gesture):
    """Search for plans; empty texts leave a choice open."""

    verb: ClassVar[str] = "find"
    refused_at: ClassVar[str] = TABLES
    devices: Text80 = ""
    hardware: Text80 = ""
    objective: Text20 = "seconds"
    memory: Text40 = ""
    seconds: Text40 = ""
    dollars: Text40 = ""
    within: Text20 = "30"
    until: Text20 = "complete"
    axes: Text200 = ""
    stages: Text80 = ""
    schedule: Text40 = ""
    micro_batches: Text80 = ""
    layout: Text200 = ""
    zero: Text20 = ""
    remat: Text20 = ""
    keep: Flag = False
    wide: Flag = False
    precision: Text80 = ""
    offload: Text40 = ""
    boundaries: Text20 = ""
    price: Text40 = ""


@dataclass(frozen=True, slots=True)
class StopFindingGesture(Gesture):
    """Stop the search; what it has found stays."""

    verb: ClassVar[str] = "stop_finding"
    refused_at: ClassVar[str] = TABLES


@dataclass(frozen=True, slots=True)
class ChooseFoundGesture(Gesture):
    """Choose one of the plans found, by its number; chosen again, it is no longer chosen."""

    verb: ClassVar[str] = "choose_found"
    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class TakeFoundGesture(Gesture):
    """Make one of the plans found the present plan."""

    verb: ClassVar[str] = "take_found"
    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class ExplainFoundGesture(Gesture):
    """Ask why one of the plans found stands where it stands: the ledger from another one, and what each decision does."""

    verb: ClassVar[str] = "explain_found"
    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""
    than: Text20 = ""


@dataclass(frozen=True, slots=True)
class VerifyFoundGesture(Gesture):
    """Ask XLA's partitioner and then the compiler about one of the plans found."""

    verb: ClassVar[str] = "verify_found"
    refused_at: ClassVar[str] = TABLES
    plan: Text20 = ""


@dataclass(frozen=True, slots=True)
class StopVerifyingGesture(Gesture):
    """Ask them no more; what they answered stays."""

    verb: ClassVar[str] = "stop_verifying"
    refused_at: ClassVar[str] = TABLES


@dataclass(frozen=True, slots=True)
class RelaxGesture(Gesture):
    """Search again with one of the requirements that clash in the weaker form that has a plan, by its place among them."""

    verb: ClassVar[str] = "relax"
    refused_at: ClassVar[str] = TABLES
    place: Text20 = ""
