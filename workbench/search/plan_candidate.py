"""A candidate of a search: one value for each decision. Naming it costs nothing; `candidate_plans` makes its plan."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from workbench.search.traced_programs import ACTIVATIONS_ON_HOST, AS_TRACED, OF_SOME_LAYERS, ON_DEVICE, REMATS, TracedAs
from workbench.search.uneven_boundaries import BY_TIME

WHOLE = ""
"""The schedule of a step that is one program: no stages, no micro-batches."""
NO_ZERO = "no ZeRO"
SHARING = "zero_3"
"""The stage of ZeRO at which replicas share the parameters too, and gather them for each micro-batch."""
UNSHARED = (NO_ZERO, "zero_1")
"""Where replicas share nothing that a micro-batch reads or writes: blocks cost the same."""
RECOMPUTING = {"full": Fraction(1), "first_half": Fraction(1, 2), "first_quarter": Fraction(1, 4)}
"""What share of a pipeline's stages, the first ones, recompute all of their forward pass: by the schedule, the program being traced as one
that keeps everything."""
_TOGETHER = {"schedule": ("schedule", "chunks"), "mesh": ("mesh", "axis_assignment")}
"""Fields that are one decision."""
DECISIONS = ("hardware", "mesh", "layout", "zero", "remat", "precision", "offload", "micro_batches", "schedule", "boundaries")
_USUAL = {"precision": AS_TRACED, "offload": ON_DEVICE, "boundaries": BY_TIME}
"""What is not worth mentioning."""


@dataclass(frozen=True, slots=True)
class PlanCandidate:
    """One value for each decision of a search space.

    - `hardware`: its text, `TPU v5p 8x16x16`; empty where the plan names none;
    - `mesh`: axes with their sizes, major to minor, the stages' included; `axis_assignment`: over which links they run, as text, empty
      for the default; the two are one decision;
    - `layout`: the name of a `LayoutChoice`; `zero`: a recipe's name or `NO_ZERO`; `remat`: of `REMATS` or `RECOMPUTING`;
    - `precision` of the program and what of it the host keeps (`offload`), as `TracedAs` has them;
    - `micro_batches` a step, `schedule` and `chunks` of each stage; `WHOLE` is a step without them;
    - `boundaries`: by which rule of `BOUNDARIES` the blocks of the network are shared out among the stages.

    **Invariants**

    - `WHOLE` has one micro-batch and one chunk, and boundaries `BY_TIME`.
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
        """Devices along a mesh axis; 1 where there is none."""
        return dict(self.mesh).get(axis, 1)

    def core(self) -> "PlanCandidate":
        """What decides the work of a device: the candidate without ZeRO and without a schedule."""
        return replace(self, zero=NO_ZERO, micro_batches=1, schedule=WHOLE, chunks=1, boundaries=BY_TIME)

    @property
    def recomputing_stages(self) -> int:
        """How many stages of a pipeline, the first ones, recompute their forward pass.

        >>> PlanCandidate("", (("stage", 8),), "replicated", remat="first_quarter").recomputing_stages
        2
        """
        return int(RECOMPUTING.get(self.remat, 0) * self.size("stage"))

    @property
    def traced_as(self) -> TracedAs:
        """How the program is traced where it is no pipeline."""
        return TracedAs(self.remat, self.precision, self.offload)

    @property
    def staged_as(self) -> TracedAs:
        """How the program is traced where it is a pipeline, whose schedule recomputes."""
        return TracedAs("none" if self.remat in RECOMPUTING else self.remat, self.precision, self.offload)

    def decision(self, name: str) -> Any:
        """The value of one of `DECISIONS`; the schedule has its chunks with it, the mesh its axis assignment."""
        return tuple(getattr(self, each) for each in _TOGETHER.get(name, (name,)))

    def with_decision(self, name: str, other: "PlanCandidate") -> "PlanCandidate":
        """The candidate with one decision taken from another."""
        return replace(self, **{each: getattr(other, each) for each in _TOGETHER.get(name, (name,))})

    def mentions(self, name: str) -> bool:
        """Whether a decision is worth mentioning: not what is as usual, and no micro-batches of a step that is one program.

        >>> [name for name in DECISIONS if PlanCandidate("", (), "megatron").mentions(name)]
        ['hardware', 'mesh', 'layout', 'zero', 'remat']
        """
        if name in ("micro_batches", "schedule"):
            return self.schedule != WHOLE
        return name not in _USUAL or bool(getattr(self, name) != _USUAL[name])

    def describe(self, name: str) -> str:
        """A decision as people write it; of the mesh without axes of one device.

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
