"""Runtimes that start the kernels of a step: a compiled program, a recorded graph, or a host that calls kernels in
turn.

Plans are estimated for a runtime, an option of the hardware: `8 H100, eager`. XLA is the default and not written.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from workbench.errors import HardwareError, unknown_name

RUNTIME_FILE = Path(__file__).with_name("runtimes.toml")
_TWO_BYTES = ("bfloat16", "float16")
ChipShares = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Runtime:
    """One way to run a step.

    - `fuses`: elementwise operations are fused with others (XLA); otherwise each library call is a separate kernel;
    - `dispatch`, `collective_dispatch`: host seconds per kernel call and per collective call; 0 if a step is one launch. The host runs
      ahead of the device, so the calls cost time only if the device is faster than the host;
    - `collective_step`: seconds per step of a ring between GPUs, in addition to the link latency, because the devices do not start their
      kernels at the same time;
    - `prefetches`: in a loop over layers, weight gathers and gradient reductions overlap with the kernels of other layers;
    - `waits_at_once`: a collective blocks where it is called, even if not all of the next kernels read its result;
    - `waits_for_sends`: a pipeline stage does not compute while it sends to another stage;
    - `gathers_again`: values gathered in the forward pass are gathered again in the backward pass (FSDP's reshard after forward);
    - `decomposes`: gathers and reduce-scatters run in pieces, overlapped with the dot that reads or produces them (async tensor
      parallelism);
    - `keeps_casts`: values computed only from weights, such as casts to float8, are computed once per step and kept for all micro-batches;
    - `defers_sums`: gradients of accumulated micro-batches are all-reduced once per step, over all axes;
    - `sums_in_products`: the product that computes a gradient adds it to the sum of the micro-batches;
    - `widens_in_products`: a product converts weights and a cache of few bits as it reads them, as XLA's do on GPUs;
    - `updates_in_place`: gradients are summed over devices in place, and a weight that is gathered after its update overwrites the old
      weight;
    - `pads_shards`: weights and their state are divided into equal shards with padding (FSDP; a distributed optimizer, which flattens
      them first);
    - `buckets`: bytes of the buffers for gradients and gathered weights, in a step that shards state and has no pipeline: for replicated
      weights, and for sharded weights;
    - `float32_copies`: float32 numbers per two-byte weight, sharded like its optimizer state: 1 for a copy of the weight, 2 with a copy of
      the gradient, which is cast for the update;
    - `memory_margin`: the relative difference from the predicted peak that nine of ten measured peaks stay within;
    - `attention`: the speed of its attention kernels, forward and backward, relative to FlashAttention-2, to which a chip's own shares
      refer; it replaces the `shares` of attention;
    - `exchanges_beside`: all-to-alls of one micro-batch overlap with the kernels of another (DualPipe);
    - `balances_causal`: each device has an early and a late part of a sharded sequence, which balances the work under a causal mask;
    - `reserved`: bytes that its allocator reserves per byte allocated at the peak of a step;
    - `shares`: the share of its peak that a chip reaches under this runtime, by the chip's target and class of work; replaces
      `Chip.efficiency`;
    - `source`: the source of the numbers.
    """

    name: str
    fuses: bool = True
    dispatch: float = 0.0
    collective_dispatch: float = 0.0
    collective_step: float = 0.0
    prefetches: bool = False
    waits_at_once: bool = False
    waits_for_sends: bool = False
    gathers_again: bool = False
    decomposes: bool = False
    keeps_casts: bool = False
    defers_sums: bool = False
    sums_in_products: bool = False
    widens_in_products: bool = False
    exchanges_beside: bool = False
    balances_causal: bool = False
    updates_in_place: bool = False
    pads_shards: bool = False
    buckets: tuple[int, int] = (0, 0)
    float32_copies: int = 0
    memory_margin: float = 0.0
    attention: tuple[float, float] | None = None
    reserved: float = 1.0
    shares: tuple[tuple[str, ChipShares], ...] = ()
    source: str = ""

    def shares_on(self, target: str, shares: Mapping[str, float]) -> dict[str, float]:
        """Return the shares by class of work that differ from a chip's own `shares`, for a chip with this target."""
        changed = dict(dict(self.shares).get(target, ()))
        if self.attention:
            speeds = zip(("attention", "attention_backward"), self.attention, strict=True)
            changed |= {work: shares[work] * speed for work, speed in speeds if work in shares}
        return changed

    @property
    def switches(self) -> tuple[str, ...]:
        """The options that change the runtime from the plain one with this name."""
        plain = load_runtimes()[self.name]
        is_on = {word: all(getattr(self, key) == value for key, value in change.items()) for word, change in SWITCHES.items()}
        return tuple(word for word, on in is_on.items() if on and any(getattr(plain, key) != getattr(self, key) for key in SWITCHES[word]))

    def switched(self, word: str) -> "Runtime":
        return replace(self, **SWITCHES[word])

    def copies_beside(self, dtype: str, *, has_master: bool) -> int:
        """The float32 numbers per weight of this type; `has_master` if the program already has the copy of the weight."""
        copies = self.float32_copies if dtype in _TWO_BYTES else 0
        return max(copies - 1, 0) if has_master else copies

    @property
    def waits_for_host(self) -> bool:
        return self.dispatch > 0 or self.collective_dispatch > 0


XLA = Runtime("XLA")
SWITCHES: dict[str, dict[str, Any]] = {
    "no prefetch": {"prefetches": False},
    "no reshard": {"gathers_again": False},
    "async TP": {"decomposes": True},
    "batch overlap": {"exchanges_beside": True},
    "flash 1": {"attention": (0.6, 0.52)},
    "flash 2": {"attention": (1.0, 1.0)},
    "flash 3": {"attention": (1.75, 1.6)},
    "cuDNN": {"attention": (1.54, 1.26)},
}
"""Modifications of a runtime, each an option of the hardware: `8 H100, eager, no reshard`. `flash 1`: FlashAttention of
2022, and its kernel in Triton, reach 30 to 50 % of an A100's peak forward and 25 to 35 % backward; FlashAttention-2
reaches 73 and 63 % (Dao 2023, arXiv:2307.08691, section 1). `flash 3`: 1.5 to 2 times as fast as FlashAttention-2
forward and 1.5 to 1.75 backward on Hopper (Shah et al. 2024, arXiv:2407.08608, section 4). `cuDNN`: measured there
(benchmarks/results/h100.json). `batch overlap`: DualPipe, and `overlap_moe_expert_parallel_comm` of Megatron Core.
"""


@cache
def load_runtimes() -> dict[str, Runtime]:
    tables = tomllib.loads(RUNTIME_FILE.read_text(encoding="utf-8"))
    return {XLA.name: XLA, **{name: _read_runtime(name, table) for name, table in tables.items()}}


def _read_runtime(name: str, table: dict[str, Any]) -> Runtime:
    shares = {target: tuple(sorted(values.items())) for target, values in table.pop("shares", {}).items()}
    buckets = tuple(table.pop("buckets", (0, 0)))
    return Runtime(name, shares=tuple(sorted(shares.items())), buckets=buckets, **table)


def find_runtime(name: str) -> Runtime:
    """Find a runtime by name, ignoring case. Raises `HardwareError` with the nearest names."""
    match = _find_name(name, load_runtimes())
    if match is None:
        raise HardwareError(*unknown_name("runtime", name, load_runtimes()))
    return load_runtimes()[match]


def find_switch(text: str) -> str:
    """Find a runtime switch by its text. Raises `HardwareError` with the nearest ones."""
    match = _find_name(text, SWITCHES)
    if match is None:
        raise HardwareError(*unknown_name("option of a runtime", text, SWITCHES))
    return match


def is_runtime(text: str) -> bool:
    return _find_name(text, load_runtimes()) is not None


def is_switch(text: str) -> bool:
    return _find_name(text, SWITCHES) is not None


def _find_name(text: str, names: Iterable[str]) -> str | None:
    folded = " ".join(text.casefold().split())
    return next((name for name in names if name.casefold() == folded), None)
