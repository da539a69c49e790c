"""What a step of decoding makes on several batches and slices: latency against throughput, and which of them are on the front."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """One batch on one slice of hardware: the mesh of that many devices on which its step is the quickest of those that fit.

    - `step_seconds`: the step time of the plan; `bandwidth_seconds`: the bytes that its kernels read and write over the bandwidth of a
      device's memory. Decoding reads everything once: XLA:TPU estimates less where it fetches operands ahead of a kernel, and no run is
      less;
    - `peak`, `capacity`: bytes of a device;
    - `is_on_front`: it fits, and no other that fits has both a lower latency and a higher throughput a chip.
    """

    batch: int
    hardware: str
    chips: int
    mesh: str
    step_seconds: float
    bandwidth_seconds: float
    peak: int
    capacity: int
    is_on_front: bool = False

    @property
    def seconds_per_token(self) -> float:
        """Of one sequence: every sequence of the batch gets a token in each step."""
        return max(self.step_seconds, self.bandwidth_seconds)

    @property
    def tokens_per_second(self) -> float:
        """Of all sequences together."""
        return self.batch / self.seconds_per_token

    @property
    def tokens_per_second_per_chip(self) -> float:
        return self.tokens_per_second / self.chips

    @property
    def fits(self) -> bool:
        return self.peak <= self.capacity

    def dominates(self, other: "DecodePoint") -> bool:
        """Whether it is as good in latency and in throughput a chip, and better in one of them."""
        ours, theirs = ((each.seconds_per_token, -each.tokens_per_second_per_chip) for each in (self, other))
        return ours != theirs and all(mine <= yours for mine, yours in zip(ours, theirs, strict=True))


@dataclass(frozen=True, slots=True)
class ImpossibleDecode:
    """A batch on a slice for which no mesh of the plan's axes is legal, and why the last one is not."""

    batch: int
    hardware: str
    why: str


@dataclass(frozen=True, slots=True)
class LatencyFront:
    """A plan's step of decoding on several batches and slices, the quickest first."""

    plan: str
    points: tuple[DecodePoint, ...]
    impossible: tuple[ImpossibleDecode, ...] = ()

    @property
    def front(self) -> tuple[DecodePoint, ...]:
        """Those on the front, the lowest latency first."""
        return tuple(each for each in self.points if each.is_on_front)

    def __str__(self) -> str:
        from workbench.text.latency import latency_text

        return latency_text(self)
