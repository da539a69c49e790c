"""The FLOP and the time of a step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from workbench.core.precision import SCALED_PRODUCT
from workbench.plan.plan import Plan

DOT, FLOAT8 = "dot_general", "float8_e4m3fn"


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOP of matrix products and convolutions in one step (2 per multiply-add), including loop trip counts.

    - `unique`: of the program, `per_device` of one device: Mesh-TensorFlow's `einsum_unique` and `einsum` counters;
    - `model`: `unique` without recomputation by remat;
    - `six_nd`: 6 x parameters x tokens for a training step, 2 x for a forward pass, with the parameters active per
      token (for experts, up to capacity); 0 if no tokens are read.
    """

    unique: int
    per_device: int
    devices: int
    model: int = 0
    six_nd: int = 0

    @property
    def duplication(self) -> float:
        """Number of times the same work is done, because of axes that shard nothing or padding."""
        return self.per_device * self.devices / self.unique if self.unique else 1.0


@dataclass(frozen=True, slots=True)
class DotCost:
    """Equal matrix products or convolutions, executed `count` times per step.

    `flops`: per execution over all devices; `per_device`: of one device; `axes`: the mesh axes that share the work;
    `padding`: the ratio of one device's work to an equal part, if a dimension of the result does not divide evenly.
    """

    path: str
    source: str
    count: int
    flops: int
    per_device: int
    axes: tuple[str, ...]
    padding: float = 1.0


_MOST_NAMED = 4


def float8_figures(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """How many products of the forward pass are made in float8, and which are not; nothing where a plan asks for none."""
    if not plan.program.precision.products:
        return
    products = [each.path for each in plan.program.operations if each.kind == DOT and not each.path.startswith("grad/")]
    left = [path.removesuffix("/dot_general") for path in products if SCALED_PRODUCT not in path.split("/")]
    named = ", ".join(list(dict.fromkeys(left))[:_MOST_NAMED])
    notes = [f"operands scaled {plan.program.precision.products}", *([f"in their own type: {named}"] if left else [])]
    if plan.hardware and FLOAT8 not in plan.hardware.chip.flops:
        notes.append(f"{plan.hardware.chip.name} has no units for float8")
    yield "products in float8", f"{len(products) - len(left)} of {len(products)}", "; ".join(notes)


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one step on one device of `hardware`.

    - `arithmetic`, `memory`: time in kernels bound by arithmetic, and by memory traffic (roofline);
    - `launch`: time between kernels;
    - `exposed`: added by communication, while the device waits or computes more slowly; `hidden`: communication
      overlapped with computation;
    - `mfu`: model FLOPs utilisation, `Flops.model` over the capability of all devices in `total`, each dot at the peak
      of its type (PaLM, appendix B); `hfu`, hardware FLOPs utilisation, includes recomputed and duplicated work;
    - `sustained`: the fraction of the compiler's kernel estimate that such a device reaches in a run; included in all
      of the above;
    - `host`: time waiting for the host, under a runtime that launches kernel after kernel;
    - `idle`: time of a pipeline device waiting for other stages: the bubble;
    - `calibrated`: the measured runs from which the device's efficiencies were fitted, empty if none; `shares_of`: in
      that case the chip whose efficiencies were used, if any;
    - `unestimated`: seconds of kernels and launches without a compiler estimate: on XLA:TPU gathers, scatters and
      sorts.
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
        return self.arithmetic + self.memory

    @property
    def estimate(self) -> float:
        """Seconds of kernels and launches by the compiler's estimate, where it gives one."""
        return self.compute * self.sustained + self.launch - self.unestimated

    @property
    def host_counts(self) -> bool:
        """Return whether the step waits for the host beyond the first launch."""
        return self.host > 0.001 * self.total

    @property
    def calibration(self) -> str:
        """A note if the prediction is not calibrated for this device; else empty."""
        if self.calibrated:
            return ""
        return f"uncalibrated, efficiencies of {self.shares_of}" if self.shares_of else "not calibrated"

    @property
    def place(self) -> str:
        """The hardware and its calibration, such as `on TPU v5p 4x4x4, not calibrated: shares of TPU v5e`."""
        return f"on {self.hardware}, {self.calibration}" if self.calibration else f"on {self.hardware}"

    def scaled(self, factor: float) -> "StepTime":
        """Scale the compiler-estimated time; exposed communication stays, host waiting shrinks as kernels take longer."""
        total_kernels = self.estimate + self.unestimated
        factor = (self.estimate * factor + self.unestimated) / total_kernels if total_kernels else factor
        arithmetic, memory, launch = (seconds * factor for seconds in (self.arithmetic, self.memory, self.launch))
        kernels = arithmetic + memory + launch
        host = max(self.host - (kernels - self.compute - self.launch), 0.0) if self.host else 0.0
        total = kernels + self.exposed + host + self.idle
        share = self.total / total if total else 1.0
        return replace(self, arithmetic=arithmetic, memory=memory, launch=launch, host=host, mfu=self.mfu * share, hfu=self.hfu * share)

    @property
    def communication(self) -> float:
        return self.exposed + self.hidden

    @property
    def total(self) -> float:
        return self.arithmetic + self.memory + self.launch + self.exposed + self.host + self.idle
