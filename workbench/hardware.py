"""What one device can do, in SI units: all that a first-order estimate of a step's time needs."""

from dataclasses import dataclass

from workbench.errors import WorkbenchError


@dataclass(frozen=True, slots=True)
class Hardware:
    """The rates of one device while all its neighbours are as busy as it is.

    - `flops_per_second`: floating-point operations a second in large matrix products, a multiply-add counting as 2;
    - `memory_bandwidth`: bytes a second read from and written to the device's memory, together;
    - `link_bandwidth`: bytes a second that leave one device in a ring collective;
    - `latency`: seconds a collective takes that moves next to nothing;
    - `memory`: bytes of the device's memory, 0 if unknown;
    - `launch`: seconds it takes to start one kernel, however small.

    >>> cpu = Hardware("cpu", flops_per_second=1e10, memory_bandwidth=1e10, link_bandwidth=1e9, latency=1e-4, memory=2**30)
    >>> 33_554_432 / cpu.flops_per_second  # seconds of a 256 x 256 x 256 product
    0.0033554432

    **Invariants**

    - Rates are positive, latency, memory and launch not negative.
    """

    name: str
    flops_per_second: float
    memory_bandwidth: float
    link_bandwidth: float
    latency: float
    memory: int
    launch: float = 0.0

    def __post_init__(self) -> None:
        for rate in ("flops_per_second", "memory_bandwidth", "link_bandwidth"):
            if not getattr(self, rate) > 0:
                raise WorkbenchError(f"Hardware `{self.name}`: `{rate}` is {getattr(self, rate)}; a rate is more than 0.")
        for name in ("latency", "memory", "launch"):
            if getattr(self, name) < 0:
                raise WorkbenchError(f"Hardware `{self.name}`: `{name}` is {getattr(self, name)}; it cannot be negative.")
