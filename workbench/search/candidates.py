"""A candidate of a search: one value for each decision. Naming it costs nothing; `candidate_plans` makes its plan."""

from dataclasses import dataclass, replace
from typing import Any

WHOLE = ""
"""The schedule of a step that is one program: no stages, no micro-batches."""
NO_ZERO = "no ZeRO"
DECISIONS = ("hardware", "mesh", "layout", "zero", "remat", "micro_batches", "schedule")


@dataclass(frozen=True, slots=True)
class PlanCandidate:
    """One value for each decision of a search space.

    - `hardware`: its text, `TPU v5p 8x16x16`; empty where the plan names none;
    - `mesh`: axes with their sizes, major to minor, the stages' included;
    - `layout`: the name of a `LayoutChoice`; `zero`: a recipe's name or `NO_ZERO`; `remat`: a key of `REMATS`;
    - `micro_batches` a step, `schedule` and `chunks` of each stage; `WHOLE` is a step without them.

    **Invariants**

    - `WHOLE` has one micro-batch and one chunk.
    """

    hardware: str
    mesh: tuple[tuple[str, int], ...]
    layout: str
    zero: str = NO_ZERO
    remat: str = "as traced"
    micro_batches: int = 1
    schedule: str = WHOLE
    chunks: int = 1

    def size(self, axis: str) -> int:
        """Devices along a mesh axis; 1 where there is none."""
        return dict(self.mesh).get(axis, 1)

    def core(self) -> "PlanCandidate":
        """What decides the work of a device: the candidate without ZeRO and without a schedule."""
        return replace(self, zero=NO_ZERO, micro_batches=1, schedule=WHOLE, chunks=1)

    def decision(self, name: str) -> Any:
        """The value of one of `DECISIONS`; the schedule has its chunks with it."""
        return (self.schedule, self.chunks) if name == "schedule" else getattr(self, name)

    def with_decision(self, name: str, other: "PlanCandidate") -> "PlanCandidate":
        """The candidate with one decision taken from another."""
        if name == "schedule":
            return replace(self, schedule=other.schedule, chunks=other.chunks, micro_batches=self.micro_batches)
        return replace(self, **{name: getattr(other, name)})

    def describe(self, name: str) -> str:
        """A decision as people write it; of the mesh without axes of one device.

        >>> PlanCandidate("", (("stage", 1), ("data", 4), ("model", 2)), "megatron").describe("mesh")
        'data:4 model:2'
        """
        match name:
            case "mesh":
                return " ".join(f"{axis}:{size}" for axis, size in self.mesh if size > 1) or "one device"
            case "schedule" if self.chunks > 1:
                return f"{self.schedule} with {self.chunks} chunks"
            case "schedule":
                return self.schedule or "one program"
            case "micro_batches":
                return f"{self.micro_batches:,} micro-batch{'es' * (self.micro_batches != 1)}"
            case "remat":
                return f"remat {self.remat}"
            case "zero":
                return self.zero.replace("zero_", "ZeRO ")
        return str(getattr(self, name))

    def __str__(self) -> str:
        shown = ("mesh", "layout", "zero", "remat", *(("micro_batches", "schedule") if self.schedule else ()))
        return ", ".join(self.describe(name) for name in shown)
