"""Memory of one device: at the peak of the step, and over the step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.core.tensor import Role
from workbench.hardware.runtime import Runtime

ARGUMENT_ROLES = (Role.PARAMETER, Role.OPTIMIZER_STATE, Role.MODEL_STATE, Role.INPUT)
"""Roles of arguments; values that a step computes have others."""


class FitVerdict(StrEnum):
    """Whether a step fits into a device's memory."""

    FITS = "fits"
    CLOSE = "close"
    TOO_MUCH = "does not fit"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one device at the peak of the step, by role; their sum is the peak.

    `host` are bytes it keeps in the host's memory, `capacity` what a device of the report's hardware has; 0 without any. `working` are the
    bytes of intermediate values at the worst moment, on-chip memory included: the part that may be off (see
    `analysis.prediction_intervals`). `reserved` is what the runtime's allocator then holds of the device, 0 where that is just the peak:
    PyTorch's keeps blocks that it has cut (`torch.cuda.max_memory_reserved`). `margin` is the share of the peak that it may be off.
    """

    by_role: Mapping[Role, int]
    host: int = 0
    capacity: int = 0
    working: int = 0
    reserved: int = 0
    margin: float = 0.0

    @property
    def verdict(self) -> FitVerdict:
        """Whether it fits; *close* where the capacity lies in the margin of the peak, or below what the allocator holds.

        >>> [Memory({Role.PARAMETER: count}, capacity=100, margin=0.1).verdict.value for count in (90, 95, 105, 112)]
        ['fits', 'close', 'close', 'does not fit']
        """
        if not self.fits and self.peak * (1 - self.margin) > self.capacity:
            return FitVerdict.TOO_MUCH
        most = max(round(self.peak * (1 + self.margin)), self.reserved)
        return FitVerdict.CLOSE if self.capacity and most > self.capacity else FitVerdict.FITS

    @property
    def fits(self) -> bool:
        """Whether it fits into a device's memory; always true without hardware. An allocator gives back what it holds before it fails, so
        what is reserved need not fit."""
        return not self.capacity or self.peak <= self.capacity

    def held_by(self, runtime: Runtime | None) -> "Memory":
        """The same under a runtime, whose allocator may hold more."""
        if runtime is None or runtime.reserved <= 1:
            return self
        return replace(self, reserved=round(self.peak * runtime.reserved), margin=runtime.memory_margin)

    @property
    def peak(self) -> int:
        return sum(self.by_role.values())

    @property
    def argument_bytes(self) -> int:
        """Bytes of the arguments, which are alive throughout, as laid out in the device's memory: on a TPU in whole tiles."""
        return sum(self.by_role.get(role, 0) for role in ARGUMENT_ROLES)


@dataclass(frozen=True, slots=True)
class Alive:
    """Values of one named scope that are live at the peak: `count` of them, `bytes` together, on one device."""

    path: str
    role: Role
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes on one device over the step.

    - `paths`: the operation at each position of main; a loop is one position, with the worst moment inside it;
    - `by_role`: bytes at each position; the largest sum over the roles is `Memory.peak`;
    - `starts`: of a stage of a pipeline, whose positions are moments of the step: the seconds at which each begins.
    """

    paths: tuple[str, ...]
    by_role: Mapping[Role, tuple[int, ...]]
    starts: tuple[float, ...] = ()

    def operation_near(self, position: int) -> str:
        """The operation at a position, or the last one before it: some positions are of operations that were removed."""
        return next((path for path in reversed(self.paths[: position + 1]) if path), "the start")
