"""Hardware of a plan: a kind of device, the number of devices and their links. SI units: bytes, seconds, FLOP/s."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce

from workbench.errors import HardwareError, WorkbenchError, unknown_name
from workbench.hardware.link_and_price import LinkChange, add_chip_price, add_link_change, split_options
from workbench.hardware.runtime import SWITCHES, XLA, Runtime, find_runtime, find_switch, is_runtime, is_switch


class AxisTopology(StrEnum):
    RING = "ring"  # each device to two neighbours, the last one to the first one
    LINE = "line"  # a ring without its last link
    SWITCH = "switch"  # all to all


NCCL_PROTOCOLS = ("simple", "ll128", "ll")
"""The protocols of NCCL, by decreasing bandwidth."""
MeasuredShares = tuple[tuple[int, float], ...]
"""(devices of a collective, reached share of a link's bandwidth) pairs, by increasing number of devices."""


@dataclass(frozen=True, slots=True)
class Link:
    """A kind of connection between devices.

    - `bandwidth`: bytes per second in one direction, over one link of a ring or line, or a device's port of a switch;
    - `latency`: seconds of a message to the next device (alpha), including software;
    - `adapters`: of a network between nodes, adapters per node, each of `bandwidth` and shared by the devices; 0: one
      per device;
    - `overhead`: of a GPU network, minimum seconds of a ring step that uses it (NCCL's proxy on the host);
    - `protocols`: NCCL protocols that work over it;
    - `reduces`, `gathers`: measured (devices, share) pairs, the reached share of the bandwidth for all-reduces, and for
      all-gathers and reduce-scatters; default: the chip's efficiency for this link.
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
            raise WorkbenchError(f"`{self.name}`: a measured share is for at least 1 device, and in (0, 1].")

    def changed(self, change: LinkChange) -> "Link":
        """Return this link with another speed and the same name."""
        figures = {name: getattr(change, name) for name in ("bandwidth", "latency", "adapters")}
        changes = {name: value for name, value in figures.items() if value is not None}
        overhead = self.overhead if change.latency is None else min(self.overhead, change.latency)  # the given latency is an upper bound
        return replace(self, **changes, overhead=overhead)

    def bandwidth_of_device(self, devices: int) -> float:
        """Return the bytes per second of one of a node's `devices` while all of them send."""
        return self.bandwidth * self.adapters / devices if self.adapters else self.bandwidth


@dataclass(frozen=True, slots=True)
class PhysicalAxis:
    """A direction of devices: a dimension of a torus, the devices of a node, or the nodes of a cluster."""

    name: str
    size: int
    link: Link
    shape: AxisTopology


@dataclass(frozen=True, slots=True)
class Chip:
    """A kind of device, as JAX counts devices (a core of a TPU v3, a whole TPU v5p, one GPU).

    - `flops`: peak FLOP/s of matrix products by dtype, a multiply-add counting as 2; `default` for all other dtypes;
    - `vector_flops`: FLOP/s of elementwise operations;
    - `memory`, `memory_bandwidth`: of the device memory (HBM); `host_memory`, `host_bandwidth`: of its share of the
      host memory, and of the link to it;
    - `launch`: minimum seconds from one kernel to the next;
    - `sweep`: elements per second of kernels without dots, whatever they compute, unless memory traffic takes longer;
    - `matmul_tile`: tile of the matrix unit, to which the sizes of a dot are rounded up: two sides of a systolic array,
      or rows, columns and summed elements of a block, then the number of concurrent blocks and of summing steps to fill
      one;
    - `on_chip`: bytes of on-chip memory, besides `memory`, in which the compiler places arrays of a step;
    - `array_tile`: multiples to which the last two dimensions of an array are padded in memory, for 4-byte elements; ()
      without padding;
    - `efficiency`: reached share of the peak, by class of work (`matmul`, `vector`, `memory`) or link name (`nvlink`);
      default 1. `memory`, and `operands` for the operands of dots, are shares of `memory_bandwidth`, above 1 if
      prefetched into on-chip memory; `large` is that of arrays that do not fit there (`on_chip_memory`); `sustained` is
      the share of all of these, the compiler's estimate, that a run reaches; `attention` and `attention_backward` are
      of hand-written kernels with dots, for any head size; `beside` is the share of their speed that kernels keep while
      collectives run; `launch` is that of back-to-back kernel launches;
    - `calibrated`: the measured runs that the shares were fitted to, empty if none; `shares_of`: the chip whose shares
      are used then;
    - `target`: its name in the compile tier (`tpu:v5e`), empty without a compiler;
    - `price`: on-demand price of a chip in US dollars per hour, as its vendor sells it; `None` if unknown. JAX counts
      `chip_devices` devices on such a chip;
    - `sources`: the source of each number;
    - `runtime_shares`: the shares under the hardware's runtime, if it has its own.
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
            raise WorkbenchError(f"Chip `{self.name}`: `flops` needs a rate above 0 for at least one dtype.")
        if self.price is not None and not 0 < self.price < math.inf:
            raise WorkbenchError(f"`{self.name}`: `price` is {self.price}; give dollars per hour above 0, or omit it.")

    def __hash__(self) -> int:
        return hash(self.name)  # the mappings are not hashable; equal chips have equal names

    @property
    def platform(self) -> str:
        """The platform of its compiler: `tpu`, `cuda`, `cpu`; empty without one."""
        return self.target.partition(":")[0]

    def peak(self, dtype: str) -> float:
        """Peak FLOP/s of dots in this dtype; a chip without units for float8 widens it to 16 bits."""
        if dtype not in self.flops and dtype.startswith("float8"):
            dtype = "bfloat16" if "bfloat16" in self.flops else "float16"
        return self.flops.get(dtype, self.flops.get("default", max(self.flops.values())))

    def efficiency_of(self, work: str) -> float:
        """Return the reached share of the peak for this class of work."""
        return self.runtime_shares.get(work, self.efficiency.get(work, 1.0))

    def has_share(self, work: str) -> bool:
        return work in self.runtime_shares or work in self.efficiency


@dataclass(frozen=True, slots=True)
class Hardware:
    """A number of chips on physical axes, the slowest links first (`slice`, then `x`, `y`, `z`; or `node`, then
    `device`).

    **Invariants**

    - There is at least one physical axis; names are unique.
    - `runtime` runs its steps; TPUs have only XLA.
    """

    chip: Chip
    axes: tuple[PhysicalAxis, ...]
    name: str = ""  # text form, `TPU v5p 8x8x16`
    runtime: Runtime = XLA

    def __post_init__(self) -> None:
        names = [axis.name for axis in self.axes]
        if not names or len(set(names)) < len(names):
            raise WorkbenchError(f"Hardware `{self.name}`: its physical axes are {names}; at least one is required, each with a name.")

    @property
    def size(self) -> int:
        return math.prod(axis.size for axis in self.axes)

    @property
    def hourly_price(self) -> float | None:
        """US dollars per hour for all chips, used or not; `None` if the price of a chip is unknown."""
        return None if self.chip.price is None else self.chip.price * self.size / self.chip.chip_devices

    def known_hourly_price(self) -> float:
        """Return the US dollars per hour for all chips. Raises `HardwareError` if the price of a chip is unknown."""
        if self.hourly_price is None:
            raise HardwareError(
                f"The hourly cost of {self} is unknown: the catalogue has no price for {self.chip.name}.",
                [f'add the hourly price of a chip, "{self}, 2.5 $/h"', f"give {self.chip.name} a `price` in a hardware file"],
            )
        return self.hourly_price

    def renamed(self, name: str) -> "Hardware":
        return replace(self, name=name)

    def with_price(self, price: float) -> "Hardware":
        """Return the hardware at US dollars per hour and chip as sold. Raises `HardwareError` if invalid."""
        if not 0 < price < math.inf:
            raise HardwareError(f"A chip for {price:g} $/h: a price must be more than 0.", ["leave it out"])
        return replace(self, chip=replace(self.chip, price=price), name=add_chip_price(self.name, price))

    def with_link(self, name: str, bandwidth: float | None = None, latency: float | None = None, adapters: int | None = None) -> "Hardware":
        """Return the hardware with other links, by physical axis (`node`, `device`, `slice`, `x`) or link name
        (`nvlink`, `ici`).

        `bandwidth` is bytes per second of a device in one direction, nominal as in `Link`; the share that collectives
        reach (`Chip.efficiency`) stays. `latency` is in seconds. `adapters` of this bandwidth serve all devices of a
        node. `None` keeps the present value. Raises `HardwareError` for an unknown link.
        """
        axes = self._axes_named(name)
        link = axes[0].link
        if bandwidth is not None and adapters is None and link.adapters:
            adapters = link.adapters
        if adapters is not None and bandwidth is None:
            bandwidth = link.bandwidth
        change = LinkChange(axes[0].name if len(axes) == 1 else axes[0].link.name, bandwidth, latency, adapters)
        changed = tuple(replace(axis, link=axis.link.changed(change)) if axis in axes else axis for axis in self.axes)
        return replace(self, axes=changed, name=add_link_change(self.name, change))

    def with_runtime(self, name: str) -> "Hardware":
        """Return the hardware with a runtime of `runtimes.toml`. Raises `HardwareError` if unavailable."""
        runtime = find_runtime(name)
        if runtime != XLA and self.chip.platform != "cuda":
            raise HardwareError(f"{self.chip.name} runs XLA programs only; `{runtime.name}` is a runtime for GPUs.", ["leave it out"])
        devices, *options = split_options(self.name) if self.name else [""]
        others = [option for option in options if not is_runtime(option) and not is_switch(option)]
        chosen = [] if runtime == XLA else [runtime.name]
        result = replace(
            self, chip=self._chip_under(runtime), runtime=runtime, name=", ".join([devices, *chosen, *others]) if devices else ""
        )
        switches = () if runtime == XLA else self.runtime.switches
        return reduce(Hardware.with_switch, switches, result)

    def with_switch(self, switch: str) -> "Hardware":
        """Return the hardware with one of `SWITCHES`, such as `no prefetch`. Raises `HardwareError` under XLA."""
        word = find_switch(switch)
        if self.runtime == XLA:
            raise HardwareError(f"`{switch}` is an option of a runtime other than XLA.", [f'write "{self}, eager, {switch}"'])
        devices, *options = split_options(self.name) if self.name else [""]
        others = [option for option in options if option != word]
        place = sum(is_runtime(option) or option in SWITCHES for option in others)
        name = ", ".join([devices, *others[:place], word, *others[place:]]) if devices else ""
        runtime = self.runtime.switched(word)
        return replace(self, chip=self._chip_under(runtime), runtime=runtime, name=name)

    def _chip_under(self, runtime: Runtime) -> Chip:
        return replace(self.chip, runtime_shares=runtime.shares_on(self.chip.target, self.chip.efficiency))

    def _axes_named(self, name: str) -> tuple[PhysicalAxis, ...]:
        folded = name.casefold()
        for matches in ([axis for axis in self.axes if name_of(axis).casefold() == folded] for name_of in (_axis_name, _link_name)):
            if matches:
                return tuple(matches)
        names = dict.fromkeys((*map(_axis_name, self.axes), *map(_link_name, self.axes)))
        raise HardwareError(*unknown_name("link", name, names, f" in {self}"))

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
