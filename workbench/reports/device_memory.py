"""Memory of one device: at the peak of the step, and over the step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from workbench.core.tensor import Role
from workbench.hardware.runtime import Runtime

ARGUMENT_ROLES = (Role.PARAMETER, Role.OPTIMIZER_STATE, Role.MODEL_STATE, Role.INPUT)
"""Roles of arguments; values computed in the step have other roles."""


class FitVerdict(StrEnum):
    """Verdict on the fit of a step into device memory."""

    FITS = "fits"
    CLOSE = "close"
    TOO_MUCH = "does not fit"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one device at the peak of the step, by role; their sum is the peak.

    - `host`: bytes in host memory; `capacity`: bytes of a device, 0 without hardware;
    - `working`: peak bytes of intermediate values, including on-chip memory: the uncertain part (see
      `analysis.prediction_intervals`);
    - `reserved`: bytes held by the runtime's allocator, such as split blocks in PyTorch
      (`torch.cuda.max_memory_reserved`); 0 if equal to the peak;
    - `margin`: relative uncertainty of the peak.
    """

    by_role: Mapping[Role, int]
    host: int = 0
    capacity: int = 0
    working: int = 0
    reserved: int = 0
    margin: float = 0.0

    @property
    def verdict(self) -> FitVerdict:
        """The fit; *close* if the capacity is within the margin of the peak, or below the reserved bytes.

        >>> [Memory({Role.PARAMETER: count}, capacity=100, margin=0.1).verdict.value for count in (90, 95, 105, 112)]
        ['fits', 'close', 'close', 'does not fit']
        """
        if not self.fits and self.peak * (1 - self.margin) > self.capacity:
            return FitVerdict.TOO_MUCH
        most = max(round(self.peak * (1 + self.margin)), self.reserved)
        return FitVerdict.CLOSE if self.capacity and most > self.capacity else FitVerdict.FITS

    @property
    def fits(self) -> bool:
        """Return whether the peak fits; true without hardware. Reserved bytes do not count, because the allocator can free them."""
        return not self.capacity or self.peak <= self.capacity

    def held_by(self, runtime: Runtime | None) -> "Memory":
        """Return the memory under a runtime whose allocator may reserve more."""
        if runtime is None or runtime.reserved <= 1:
            return self
        return replace(self, reserved=round(self.peak * runtime.reserved), margin=runtime.memory_margin)

    @property
    def peak(self) -> int:
        return sum(self.by_role.values())

    @property
    def argument_bytes(self) -> int:
        """Bytes of the arguments, live throughout the step, as stored on the device: in whole tiles on a TPU."""
        return sum(self.by_role.get(role, 0) for role in ARGUMENT_ROLES)


@dataclass(frozen=True, slots=True)
class Alive:
    """`count` values of one named scope that are live at the peak, `bytes` in total on one device."""

    path: str
    role: Role
    bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class MemoryCurve:
    """Bytes on one device over the step.

    - `paths`: the operation at each position of main; a loop is one position, with its peak;
    - `by_role`: bytes at each position; the largest sum over the roles is `Memory.peak`;
    - `starts`: for a pipeline stage, whose positions are times in the step: the start of each in seconds.
    """

    paths: tuple[str, ...]
    by_role: Mapping[Role, tuple[int, ...]]
    starts: tuple[float, ...] = ()

    def operation_near(self, position: int) -> str:
        """Return the operation at a position, or the previous one if that was removed."""
        return next((path for path in reversed(self.paths[: position + 1]) if path), "the start")
