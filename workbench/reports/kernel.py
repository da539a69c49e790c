"""One kernel of a step and what it costs on one device, by the roofline (Williams, Waterman, Patterson 2009)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kernel:
    """Kernels of the same scope, line and cost; `count` of them run a step.

    - `path`, `kind`, `source`: of the largest dot in it, or of the last operation fused into it, as in `Operation`;
    - `dtype`: of the dot's operands, or of the result where there is no dot;
    - `flops`: of its dots, `vector_flops`: of its elementwise work, `bytes`: read and written in the device's memory; of one execution;
    - `arithmetic`, `memory`: seconds of computing and of memory traffic, of which the longer counts; `launch`: seconds to the next kernel;
    - `is_estimated`: whether the chip's compiler gives an estimate of such kernels: XLA:TPU does not of gathers, scatters and sorts.
    """

    path: str
    kind: str
    source: str
    dtype: str
    count: int
    flops: int
    vector_flops: int
    bytes: int
    arithmetic: float
    memory: float
    launch: float
    is_estimated: bool = True

    @property
    def seconds(self) -> float:
        """Seconds of one execution."""
        return max(self.arithmetic, self.memory) + self.launch

    @property
    def total_seconds(self) -> float:
        """Seconds of all executions of a step."""
        return self.seconds * self.count

    def estimate(self, sustained: float) -> float:
        """Seconds of all executions, arithmetic and memory time multiplied by `sustained`; 0 where the compiler gives no estimate."""
        return self.is_estimated * (max(self.arithmetic, self.memory) * sustained + self.launch) * self.count

    @property
    def work(self) -> int:
        """FLOP of one execution."""
        return self.flops + self.vector_flops

    @property
    def intensity(self) -> float:
        """FLOP per byte; 0 for a kernel that only moves data."""
        return self.work / self.bytes if self.bytes else 0.0

    @property
    def rate(self) -> float:
        """FLOP per second."""
        return self.work / self.seconds if self.seconds else 0.0

    @property
    def bound(self) -> str:
        """What bounds its time: `memory`, `products`, `elementwise`, or its `launch` where that is the longest."""
        if self.launch > max(self.arithmetic, self.memory):
            return "launch"
        return "memory" if self.memory > self.arithmetic else "products" if self.flops else "elementwise"
