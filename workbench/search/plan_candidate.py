"""A candidate of a search: one value per decision. Creating one costs nothing; `candidate_plans` makes its plan."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from workbench.search.traced_programs import ACTIVATIONS_ON_HOST, AS_TRACED, OF_SOME_LAYERS, ON_DEVICE, REMATS, TracedAs
from workbench.search.uneven_boundaries import BY_TIME

WHOLE = ""
"""The schedule of a step without stages and micro-batches."""
NO_ZERO = "no ZeRO"
SHARING = "zero_3"
"""The ZeRO stage at which replicas also shard the parameters, and gather them for each micro-batch."""
UNSHARED = (NO_ZERO, "zero_1")
"""ZeRO stages under which replicas share nothing that a micro-batch reads or writes, so blocks cost the same."""
RECOMPUTING = {"full": Fraction(1), "first_half": Fraction(1, 2), "first_quarter": Fraction(1, 4)}
"""The share of a pipeline's stages, counted from the first, whose schedule recomputes the whole forward pass. The
program is traced as keeping everything.
"""
_TOGETHER = {"schedule": ("schedule", "chunks"), "mesh": ("mesh", "axis_assignment")}
"""Fields that form one decision."""
DECISIONS = ("hardware", "mesh", "layout", "zero", "remat", "precision", "offload", "micro_batches", "schedule", "boundaries")
_USUAL = {"precision": AS_TRACED, "offload": ON_DEVICE, "boundaries": BY_TIME}
"""Default values, which are not mentioned."""


@dataclass(frozen=True, slots=True)
class PlanCandidate:
    """One value for each decision of a search space.

    - `hardware`: its text, `TPU v5p 8x16x16`; empty for none;
    - `mesh`: axes with sizes, major to minor, including stages; `axis_assignment`: the links they use, as text, empty
      for the default; both are one decision;
    - `layout`: the name of a `LayoutChoice`; `zero`: the name of a recipe or `NO_ZERO`; `remat`: a name in `REMATS` or
      `RECOMPUTING`;
    - `precision` and `offload`: as in `TracedAs`;
    - `micro_batches` per step, `schedule` and `chunks` per stage; `WHOLE` for a step without them;
    - `boundaries`: the rule of `BOUNDARIES` that assigns blocks to stages.

    **Invariants**

    - `WHOLE` has one micro-batch, one chunk and boundaries `BY_TIME`.
    """

    hardware: str
    mesh: tuple[tuple[str, int], ...]
    layout: str
    zero: str = NO_ZERO
    remat: str = AS_TRACED
    micro_batches: int = 1
    schedule: str = WHOLE
    chunks: int = 1
    axis_assignment: str = ""
    boundaries: str = BY_TIME
    precision: str = AS_TRACED
    offload: str = ON_DEVICE

    def size(self, axis: str) -> int:
        """Devices along a mesh axis; 1 without that axis."""
        return dict(self.mesh).get(axis, 1)

    def core(self) -> "PlanCandidate":
        """The candidate without ZeRO and schedule: the decisions that determine the work of a device."""
        return replace(self, zero=NO_ZERO, micro_batches=1, schedule=WHOLE, chunks=1, boundaries=BY_TIME)

    @property
    def recomputing_stages(self) -> int:
        """The number of stages, counted from the first, that recompute their forward pass.

        >>> PlanCandidate("", (("stage", 8),), "replicated", remat="first_quarter").recomputing_stages
        2
        """
        return int(RECOMPUTING.get(self.remat, 0) * self.size("stage"))

    @property
    def traced_as(self) -> TracedAs:
        """How the program is traced without a pipeline."""
        return TracedAs(self.remat, self.precision, self.offload)

    @property
    def staged_as(self) -> TracedAs:
        """How the program is traced in a pipeline, whose schedule recomputes."""
        return TracedAs("none" if self.remat in RECOMPUTING else self.remat, self.precision, self.offload)

    def decision(self, name: str) -> Any:
        """The value of one of `DECISIONS`, with the chunks of a schedule and the axis assignment of a mesh."""
        return tuple(getattr(self, field) for field in _TOGETHER.get(name, (name,)))

    def with_decision(self, name: str, other: "PlanCandidate") -> "PlanCandidate":
        """The candidate with one decision taken from another."""
        return replace(self, **{field: getattr(other, field) for field in _TOGETHER.get(name, (name,))})

    def mentions(self, name: str) -> bool:
        """Whether a decision is mentioned in text: not a default, and no micro-batches of a step without a pipeline.

        >>> [name for name in DECISIONS if PlanCandidate("", (), "megatron").mentions(name)]
        ['hardware', 'mesh', 'layout', 'zero', 'remat']
        """
        if name in ("micro_batches", "schedule"):
            return self.schedule != WHOLE
        return name not in _USUAL or bool(getattr(self, name) != _USUAL[name])

    def describe(self, name: str) -> str:
        """A decision in words; a mesh without axes of size 1.

        >>> PlanCandidate("", (("stage", 1), ("data", 4), ("model", 2)), "megatron").describe("mesh")
        'data:4 model:2'
        >>> PlanCandidate("", (), "megatron", remat="full_1/4").describe("remat")
        'remat full on 1 of every 4 layers'
        """
        match name:
            case "mesh":
                axes = " ".join(f"{axis}:{size}" for axis, size in self.mesh if size > 1) or "one device"
                return f"{axes} on {self.axis_assignment.replace('; ', ' ')}" if self.axis_assignment else axes
            case "schedule" if self.chunks > 1:
                return f"{self.schedule} with {self.chunks} chunks"
            case "schedule":
                return self.schedule or "one program"
            case "micro_batches":
                return f"{self.micro_batches:,} micro-batch{'es' * (self.micro_batches != 1)}"
            case "remat" if RECOMPUTING.get(self.remat, 1) < 1:
                return f"remat full on the {self.remat.replace('_', ' ')} of the stages"
            case "remat" if self.remat in OF_SOME_LAYERS:
                count, of = REMATS[self.remat].layers
                return f"remat full on {count} of every {of} layers"
            case "remat" if self.remat == ACTIVATIONS_ON_HOST:
                return "remat with activations on the host"
            case "remat":
                return f"remat {self.remat}"
            case "boundaries":
                return "boundaries that fit" if self.boundaries == "fit" else f"boundaries by {self.boundaries}"
            case "precision":
                return f"precision {self.precision}"
            case "offload":
                return "nothing offloaded" if self.offload == ON_DEVICE else f"{self.offload.replace('_', ' ')} offloaded"
            case "zero":
                return self.zero.replace("zero_", "ZeRO ")
        return str(getattr(self, name))

    def __str__(self) -> str:
        return ", ".join(self.describe(name) for name in DECISIONS if name != "hardware" and self.mentions(name))
