"""What a plan runs on: a kind of device, how many of it, and how they are joined. SI units throughout: bytes, seconds, FLOP/s."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from workbench.errors import WorkbenchError


class AxisTopology(StrEnum):
    """How the devices of one physical axis are joined."""

    RING = "ring"  # each to two neighbours, the last to the first
    LINE = "line"  # a ring without its last link
    SWITCH = "switch"  # each to all, through a switch


@dataclass(frozen=True, slots=True)
class Link:
    """One kind of connection of a device.

    - `bandwidth`: bytes a second that leave one device in one direction, over one link of a ring or line, or its port of a switch;
    - `latency`: seconds a message takes to the next device (alpha), software included.
    """

    name: str
    bandwidth: float
    latency: float

    def __post_init__(self) -> None:
        _verify_rates(self, ("bandwidth",), ("latency",))


@dataclass(frozen=True, slots=True)
class PhysicalAxis:
    """One direction in which devices are arranged: a dimension of a torus, the devices of a node, the nodes of a cluster."""

    name: str
    size: int
    link: Link
    shape: AxisTopology


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of device, as JAX counts devices (a core of a TPU v3, a whole TPU v5p, one GPU).

    - `flops`: peak FLOP/s of matrix products by dtype, a multiply-add counting as 2; `default` is for any other dtype;
    - `vector_flops`: FLOP/s of element-wise operations;
    - `memory`, `memory_bandwidth`: of its own memory (HBM); `host_memory`, `host_bandwidth`: of its share of the host's, and to it;
    - `launch`: seconds from one kernel to the next, however small;
    - `sweep`: elements a second that a kernel without dots passes over, whatever it computes of each, if its traffic takes no longer;
    - `matmul_tile`: sides of the tile its matrix unit works in, to which a dot's sizes are rounded up: two of a systolic array, or the
      rows, columns and summed elements of a block, then how many blocks run at once and how many summing steps it takes to fill one;
    - `on_chip`: bytes of memory on the chip, beside `memory`, that the compiler places a step's arrays in;
    - `array_tile`: multiples to which the last two dimensions of an array are padded in memory, for 4-byte elements; () if not;
    - `efficiency`: share of the peak that is reached, by class of work (`matmul`, `vector`, `memory`) or a link's name (`nvlink`); else 1.
      `memory` and, for what dots read, `operands` are of `memory_bandwidth`, above 1 where it is read ahead into memory on the chip;
      `large` is that of arrays that do not fit there (`on_chip_memory`); `sustained` is the share of all of these, the compiler's estimate,
      that a run reaches;
    - `calibrated`: the measured runs that its shares were fitted on, empty where there are none; `shares_of`: then the chip whose shares
      were taken;
    - `target`: its name in the compile tier (`tpu:v5e`), empty where there is no compiler for it here;
    - `sources`: the source of each number.
    """

    name: str
    flops: Mapping[str, float]
    memory: int
    memory_bandwidth: float
    vector_flops: float = math.inf
    launch: float = 0.0
    sweep: float = math.inf
    host_memory: int = 0
    host_bandwidth: float = math.inf
    matmul_tile: tuple[int, ...] = ()
    array_tile: tuple[int, ...] = ()
    on_chip: int = 0
    efficiency: Mapping[str, float] = field(default_factory=dict)
    target: str = ""
    calibrated: str = ""
    shares_of: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _verify_rates(self, ("memory_bandwidth", "vector_flops", "sweep", "host_bandwidth"), ("memory", "launch", "host_memory"))
        if not self.flops or min(self.flops.values()) <= 0:
            raise WorkbenchError(f"Chip `{self.name}`: `flops` needs a rate above 0 for one dtype at least.")

    def __hash__(self) -> int:
        return hash(self.name)  # the mappings cannot be hashed; chips that are equal have one name

    @property
    def platform(self) -> str:
        """The platform of its compiler: `tpu`, `cuda`, `cpu`; empty if there is none."""
        return self.target.partition(":")[0]

    def peak(self, dtype: str) -> float:
        """Peak FLOP/s of dots in this dtype."""
        return self.flops.get(dtype, self.flops.get("default", max(self.flops.values())))

    def efficiency_of(self, work: str) -> float:
        """The share of the peak that this class of work reaches."""
        return self.efficiency.get(work, 1.0)


@dataclass(frozen=True, slots=True)
class Hardware:
    """A number of chips, joined along physical axes, the slowest links first (`slice`, then `x`, `y`, `z`; or `node`, then `device`).

    **Invariants**

    - Physical axes have unique names; there is at least one.
    """

    chip: Chip
    axes: tuple[PhysicalAxis, ...]
    name: str = ""  # as a person writes it, `TPU v5p 8x8x16`

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        if not names or len(set(names)) < len(names):
            raise WorkbenchError(f"Hardware `{self.name}`: its physical axes are {names}; they need a name each, and there must be one.")

    @property
    def size(self) -> int:
        """Devices in all."""
        return math.prod(axis.size for axis in self.axes)

    def renamed(self, name: str) -> "Hardware":
        return replace(self, name=name)

    def __str__(self) -> str:
        return self.name or f"{self.size} x {self.chip.name}"


def _verify_rates(owner: "Chip | Link", rates: tuple[str, ...], amounts: tuple[str, ...]) -> None:
    for name in rates:
        if not getattr(owner, name) > 0:
            raise WorkbenchError(f"`{owner.name}`: `{name}` is {getattr(owner, name)}; a rate is more than 0.")
    for name in amounts:
        if getattr(owner, name) < 0:
            raise WorkbenchError(f"`{owner.name}`: `{name}` is {getattr(owner, name)}; it cannot be negative.")
