"""How much a step computes, and how long that takes."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of matrix products and convolutions in one step (2 for a multiply-add), loops multiplied out.

    - `unique`: what the program computes, `per_device` what one device does: Mesh-TensorFlow's `einsum_unique` and `einsum` counters;
    - `model`: `unique` without what rematerialisation recomputes;
    - `six_nd`: the convention of 6 x parameters x tokens for a training step, 2 x for a forward pass, with those parameters that are
      active for a token (of experts, as many as there is room for); 0 where no tokens are read.
    """

    unique: int
    per_device: int
    devices: int
    model: int = 0
    six_nd: int = 0

    @property
    def duplication(self) -> float:
        """How often the same work is done because a mesh axis splits nothing of it, or for padding; 1 means once."""
        return self.per_device * self.devices / self.unique if self.unique else 1.0


@dataclass(frozen=True, slots=True)
class DotCost:
    """Matrix products and convolutions that are alike: `count` executions a step.

    `flops` are those of one execution over all devices, `per_device` those of one device; `axes` are the mesh axes that share them.
    `padding` is how much more than an equal part one device computes, where a dimension of the result does not divide: 1 is none.
    """

    path: str
    source: str
    count: int
    flops: int
    per_device: int
    axes: tuple[str, ...]
    padding: float = 1.0


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step on `hardware`, on one device.

    - `arithmetic`, `memory`: time in kernels that are bound by arithmetic, and by memory traffic (roofline);
    - `launch`: time between kernels;
    - `exposed`: what the step is longer for communication: the device computes nothing meanwhile, or more slowly; `hidden`: communication
      behind computation;
    - `mfu`: model FLOPs utilisation, `Flops.model` over what all devices could have done in `total`, each dot at the peak of its own
      type (PaLM, appendix B); `hfu`, hardware FLOPs utilisation, counts recomputed and duplicated work, too;
    - `sustained`: the share of the compiler's own estimate of kernels that such a device reaches in a run; included in all of the above;
    - `host`: waiting for the host to call the next kernel, under a runtime that calls one after the other;
    - `idle`: of a device of a pipeline, waiting for other stages: the bubble;
    - `calibrated`: the measured runs that the device's shares were fitted on, empty if there are none; `shares_of`: then the chip whose
      shares were taken, if any were;
    - `unestimated`: seconds of kernels and launches that the compiler gives no estimate of: on XLA:TPU gathers, scatters and sorts.
    """

    hardware: str
    arithmetic: float
    memory: float
    launch: float
    exposed: float
    hidden: float
    mfu: float = 0.0
    hfu: float = 0.0
    sustained: float = 1.0
    unestimated: float = 0.0
    host: float = 0.0
    idle: float = 0.0
    calibrated: str = ""
    shares_of: str = ""

    @property
    def compute(self) -> float:
        """Seconds in kernels."""
        return self.arithmetic + self.memory

    @property
    def estimate(self) -> float:
        """Seconds in kernels and between them as the compiler would estimate them, without those it gives no estimate of."""
        return self.compute * self.sustained + self.launch - self.unestimated

    @property
    def host_counts(self) -> bool:
        """Whether it waits for the host at all: more than for the first call."""
        return self.host > 0.001 * self.total

    @property
    def calibration(self) -> str:
        """What a reader has to know of the prediction where no run of such a device was measured; else empty."""
        if self.calibrated:
            return ""
        return f"uncalibrated, efficiencies of {self.shares_of}" if self.shares_of else "not calibrated"

    @property
    def place(self) -> str:
        """What the step runs on, and whether its time is calibrated there: `on TPU v5p 4x4x4, not calibrated: shares of TPU v5e`."""
        return f"on {self.hardware}, {self.calibration}" if self.calibration else f"on {self.hardware}"

    def scaled(self, factor: float) -> "StepTime":
        """The step with `factor` times the time that the compiler estimates; the device waits for communication as long as before, and for
        the host as much less as it computes longer."""
        whole = self.estimate + self.unestimated
        factor = (self.estimate * factor + self.unestimated) / whole if whole else factor
        arithmetic, memory, launch = (each * factor for each in (self.arithmetic, self.memory, self.launch))
        kernels = arithmetic + memory + launch
        host = max(self.host - (kernels - self.compute - self.launch), 0.0) if self.host else 0.0
        total = kernels + self.exposed + host + self.idle
        share = self.total / total if total else 1.0
        return replace(self, arithmetic=arithmetic, memory=memory, launch=launch, host=host, mfu=self.mfu * share, hfu=self.hfu * share)

    @property
    def communication(self) -> float:
        """Seconds of communication, hidden or not."""
        return self.exposed + self.hidden

    @property
    def total(self) -> float:
        return self.arithmetic + self.memory + self.launch + self.exposed + self.host + self.idle
