"""What a plan runs on: a kind of device, how many of it, and how they are joined. SI units throughout: bytes, seconds, FLOP/s."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce

from workbench.errors import HardwareError, WorkbenchError, unknown_name
from workbench.hardware.link_and_price import LinkChange, add_chip_price, add_link_change, split_options
from workbench.hardware.runtime import SWITCHES, XLA, Runtime, find_runtime, find_switch, is_runtime, is_switch


class AxisTopology(StrEnum):
    """How the devices of one physical axis are joined."""

    RING = "ring"  # each to two neighbours, the last to the first
    LINE = "line"  # a ring without its last link
    SWITCH = "switch"  # each to all, through a switch


NCCL_PROTOCOLS = ("simple", "ll128", "ll")
"""The protocols of NCCL, the one with the largest bandwidth first."""
MeasuredShares = tuple[tuple[int, float], ...]
"""(devices of a collective, share of a link's bandwidth that it reaches), the fewest devices first."""


@dataclass(frozen=True, slots=True)
class Link:
    """One kind of connection of a device.

    - `bandwidth`: bytes a second that leave one device in one direction, over one link of a ring or line, or its port of a switch;
    - `latency`: seconds a message takes to the next device (alpha), software included;
    - `adapters`: of a network between nodes, how many a node has, each of `bandwidth`, which its devices share; 0: one for each device;
    - `overhead`: of a network of GPUs, seconds that no step of a ring which uses it is quicker than (NCCL's proxy on the host);
    - `protocols`: of NCCL, those that work over it;
    - `reduces`, `gathers`: (devices, share) pairs as measured: the share of the bandwidth that an all-reduce over so many devices reaches,
      and an all-gather or reduce-scatter; else the efficiency that the chip has for this link.
    """

    name: str
    bandwidth: float
    latency: float
    overhead: float = 0.0
    protocols: tuple[str, ...] = NCCL_PROTOCOLS
    reduces: MeasuredShares = ()
    gathers: MeasuredShares = ()
    adapters: int = 0

    def __post_init__(self) -> None:
        _verify_rates(self, ("bandwidth",), ("latency", "overhead", "adapters"))
        if not self.protocols or not set(self.protocols) <= set(NCCL_PROTOCOLS):
            raise WorkbenchError(f"`{self.name}`: `protocols` is {list(self.protocols)}; it is one or more of {list(NCCL_PROTOCOLS)}.")
        if any(devices < 1 or not 0 < share <= 1 for devices, share in (*self.reduces, *self.gathers)):
            raise WorkbenchError(f"`{self.name}`: a measured share is of 1 device or more, above 0 and at most 1.")

    def changed(self, change: LinkChange) -> "Link":
        """This link at another speed, under its own name."""
        given = {name: getattr(change, name) for name in ("bandwidth", "latency", "adapters")}
        changes = {name: value for name, value in given.items() if value is not None}
        overhead = self.overhead if change.latency is None else min(self.overhead, change.latency)  # a step is no slower than was said
        return replace(self, **changes, overhead=overhead)

    def bandwidth_of_device(self, devices: int) -> float:
        """Bytes a second that one of a node's `devices` sends while all do."""
        return self.bandwidth * self.adapters / devices if self.adapters else self.bandwidth


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
      that a run reaches; `attention` and `attention_backward` are of hand-written kernels with dots, with heads of any size; `beside` is
      the share of their speed that kernels keep while collectives run; `launch` is that of starting kernels one behind the other;
    - `calibrated`: the measured runs that its shares were fitted on, empty where there are none; `shares_of`: then the chip whose are
      taken;
    - `target`: its name in the compile tier (`tpu:v5e`), empty where there is no compiler for it here;
    - `price`: US dollars an hour of a chip as its vendor sells it, on demand; `None` where it is not known. JAX counts `chip_devices`
      devices on such a chip;
    - `sources`: the source of each number;
    - `runtime_shares`: the shares under the hardware's runtime, where it has its own.
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
    price: float | None = None
    chip_devices: int = 1
    sources: Mapping[str, str] = field(default_factory=dict)
    runtime_shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _verify_rates(self, ("memory_bandwidth", "vector_flops", "sweep", "host_bandwidth"), ("memory", "launch", "host_memory"))
        if not self.flops or min(self.flops.values()) <= 0:
            raise WorkbenchError(f"Chip `{self.name}`: `flops` needs a rate above 0 for one dtype at least.")
        if self.price is not None and not 0 < self.price < math.inf:
            raise WorkbenchError(f"`{self.name}`: `price` is {self.price}; it is dollars an hour, more than 0, or left out.")

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
        return self.runtime_shares.get(work, self.efficiency.get(work, 1.0))

    def has_share(self, work: str) -> bool:
        """Whether the share of this class of work is known."""
        return work in self.runtime_shares or work in self.efficiency


@dataclass(frozen=True, slots=True)
class Hardware:
    """A number of chips, joined along physical axes, the slowest links first (`slice`, then `x`, `y`, `z`; or `node`, then `device`).

    **Invariants**

    - Physical axes have unique names; there is at least one.
    - `runtime` runs its steps; a TPU has no other than XLA.
    """

    chip: Chip
    axes: tuple[PhysicalAxis, ...]
    name: str = ""  # as a person writes it, `TPU v5p 8x8x16`
    runtime: Runtime = XLA

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        if not names or len(set(names)) < len(names):
            raise WorkbenchError(f"Hardware `{self.name}`: its physical axes are {names}; they need a name each, and there must be one.")

    @property
    def size(self) -> int:
        """Devices in all."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def hourly_price(self) -> float | None:
        """US dollars an hour of all its chips, used or not; `None` where the price of a chip is not known."""
        return None if self.chip.price is None else self.chip.price * self.size / self.chip.chip_devices

    def known_hourly_price(self) -> float:
        """US dollars an hour of all its chips; raises `HardwareError` where the price of a chip is not known."""
        if self.hourly_price is None:
            raise HardwareError(
                f"The hourly cost of {self} is unknown: the catalogue has no price for {self.chip.name}.",
                [f'add the hourly price of a chip, "{self}, 2.5 $/h"', f"give {self.chip.name} a `price` in a hardware file"],
            )
        return self.hourly_price

    def renamed(self, name: str) -> "Hardware":
        return replace(self, name=name)

    def with_price(self, price: float) -> "Hardware":
        """The same devices at so many US dollars an hour for each chip as it is sold. Raises `HardwareError` for a price that is none."""
        if not 0 < price < math.inf:
            raise HardwareError(f"A chip for {price:g} $/h: a price is more than 0.", ["leave it out"])
        return replace(self, chip=replace(self.chip, price=price), name=add_chip_price(self.name, price))

    def with_link(self, name: str, bandwidth: float | None = None, latency: float | None = None, adapters: int | None = None) -> "Hardware":
        """The same devices with other links, by physical axis (`node`, `device`, `slice`, `x`) or by the link's name (`nvlink`, `ici`).

        `bandwidth` is what a device sends over it in one direction, bytes a second, as `Link` has it: of a network, as it is sold; the
        share of it that collectives reach (`Chip.efficiency`) stays. `latency` is in seconds; `adapters` of this bandwidth are in a node,
        for all of its devices. What is left out stays. Raises `HardwareError` for a link that this hardware does not have.
        """
        axes = self._axes_named(name)
        link = axes[0].link
        if bandwidth is not None and adapters is None and link.adapters:
            adapters = link.adapters
        if adapters is not None and bandwidth is None:
            bandwidth = link.bandwidth
        change = LinkChange(axes[0].name if len(axes) == 1 else axes[0].link.name, bandwidth, latency, adapters)
        changed = tuple(replace(each, link=each.link.changed(change)) if each in axes else each for each in self.axes)
        return replace(self, axes=changed, name=add_link_change(self.name, change))

    def with_runtime(self, name: str) -> "Hardware":
        """The same devices under another runtime, one of `runtimes.toml`. Raises `HardwareError` for one they do not have."""
        runtime = find_runtime(name)
        if runtime != XLA and self.chip.platform != "cuda":
            raise HardwareError(f"{self.chip.name} runs what XLA compiles; `{runtime.name}` is a runtime of GPUs.", ["leave it out"])
        devices, *options = split_options(self.name) if self.name else [""]
        others = [each for each in options if not is_runtime(each) and not is_switch(each)]
        chosen = [] if runtime == XLA else [runtime.name]
        found = replace(
            self, chip=self._chip_under(runtime), runtime=runtime, name=", ".join([devices, *chosen, *others]) if devices else ""
        )
        switches = () if runtime == XLA else self.runtime.switches
        return reduce(Hardware.with_switch, switches, found)

    def with_switch(self, switch: str) -> "Hardware":
        """The same runtime with one of `SWITCHES`, as `no prefetch`. Raises `HardwareError` under XLA."""
        word = find_switch(switch)
        if self.runtime == XLA:
            raise HardwareError(f"`{switch}` is an option of a runtime other than XLA.", [f'write "{self}, eager, {switch}"'])
        devices, *options = split_options(self.name) if self.name else [""]
        others = [each for each in options if each != word]
        place = sum(is_runtime(each) or each in SWITCHES for each in others)
        name = ", ".join([devices, *others[:place], word, *others[place:]]) if devices else ""
        runtime = self.runtime.switched(word)
        return replace(self, chip=self._chip_under(runtime), runtime=runtime, name=name)

    def _chip_under(self, runtime: Runtime) -> Chip:
        return replace(self.chip, runtime_shares=runtime.shares_on(self.chip.target, self.chip.efficiency))

    def _axes_named(self, name: str) -> tuple[PhysicalAxis, ...]:
        """The physical axis of this name, or all whose links have it."""
        folded = name.casefold()
        for found in ([axis for axis in self.axes if each(axis).casefold() == folded] for each in (_axis_name, _link_name)):
            if found:
                return tuple(found)
        known = dict.fromkeys((*map(_axis_name, self.axes), *map(_link_name, self.axes)))
        raise HardwareError(*unknown_name("link", name, known, f" in {self}"))

    def __str__(self) -> str:
        return self.name or f"{self.size} x {self.chip.name}"


def _axis_name(axis: PhysicalAxis) -> str:
    return axis.name


def _link_name(axis: PhysicalAxis) -> str:
    return axis.link.name


def _verify_rates(owner: "Chip | Link", rates: tuple[str, ...], amounts: tuple[str, ...]) -> None:
    for name in rates:
        if not getattr(owner, name) > 0:
            raise WorkbenchError(f"`{owner.name}`: `{name}` is {getattr(owner, name)}; a rate must be more than 0.")
    for name in amounts:
        if getattr(owner, name) < 0:
            raise WorkbenchError(f"`{owner.name}`: `{name}` is {getattr(owner, name)}; it cannot be negative.")
