"""What starts the kernels of a step: a compiled program, a recorded graph of calls, or a host that calls one after the other.

A plan is priced for a runtime, an option of the hardware: `8 H100, eager`. XLA's is the default, and is not written.
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

    - `fuses`: elementwise operations are fused with others (XLA); otherwise each call of a library is a kernel of its own;
    - `dispatch`, `collective_dispatch`: seconds the host needs to call a kernel, and a collective; 0 where a step is one launch. The host
      runs ahead of the device: a device that is not faster than it does not notice;
    - `collective_step`: seconds that each step of a ring between GPUs takes beside the latency of its link: the kernels of all devices do
      not begin at once;
    - `prefetches`: in a loop over layers, weights are gathered and gradients reduced beside other layers' kernels;
    - `waits_at_once`: a collective that the next kernels read is waited for where it is called, though some of them do not read it;
    - `waits_for_sends`: a stage of a pipeline computes nothing while it sends to another;
    - `gathers_again`: what is gathered in the forward pass is gathered again for the backward pass, not kept (FSDP's reshard after
      forward);
    - `decomposes`: gathers and reduce-scatters go around in pieces while the dot that reads or makes them runs (async tensor parallelism);
    - `keeps_casts`: what is computed of weights alone, their casts to float8, is computed once a step and kept for all micro-batches;
    - `defers_sums`: gradients of accumulated micro-batches are all-reduced once a step, over whatever axes;
    - `sums_in_products`: a gradient is added to the sum of micro-batches in the product that makes it;
    - `updates_in_place`: gradients are summed over devices where they lie, and a weight that is gathered after its update is written over
      the one before;
    - `pads_shards`: a weight and its state are cut into equal parts that need not divide it, the last ones padded (FSDP; a distributed
      optimiser, which lays them flat first);
    - `buckets`: bytes of buffers that gradients and gathered weights go through, in a step without a pipeline that shards state: where
      weights are whole, and where they are sharded, too;
    - `state_copies`: bytes held for each byte of an optimiser's state in float32 whose weight has two bytes: 1.5 with a float32 copy of the
      weight, 2 where the gradient is cast to float32, too, for the update;
    - `memory_margin`: the share of the predicted peak that nine of ten measured ones are within;
    - `attention`: how fast its attention kernels are, forward and backward, beside FlashAttention-2, which a chip's own shares are of;
      where it is said, `shares` of attention do not count;
    - `exchanges_beside`: all-to-alls of one micro-batch run beside the kernels of another (DualPipe);
    - `reserved`: bytes that its allocator holds of the device for each byte that a step has allocated at its peak;
    - `shares`: the share of its peak that a chip reaches under this runtime, by the chip's target and class of work, in place of
      `Chip.efficiency`;
    - `source`: where the numbers come from.
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
    exchanges_beside: bool = False
    updates_in_place: bool = False
    pads_shards: bool = False
    buckets: tuple[int, int] = (0, 0)
    state_copies: float = 1.0
    memory_margin: float = 0.0
    attention: tuple[float, float] | None = None
    reserved: float = 1.0
    shares: tuple[tuple[str, ChipShares], ...] = ()
    source: str = ""

    def shares_on(self, target: str, shares: Mapping[str, float]) -> dict[str, float]:
        """The shares, by class of work, of a chip with this target that differ from its own `shares`."""
        found = dict(dict(self.shares).get(target, ()))
        if self.attention:
            speeds = zip(("attention", "attention_backward"), self.attention, strict=True)
            found |= {work: shares[work] * speed for work, speed in speeds if work in shares}
        return found

    @property
    def switches(self) -> tuple[str, ...]:
        """The options by which it differs from the runtime of its name."""
        plain = load_runtimes()[self.name]
        is_on = {word: all(getattr(self, key) == value for key, value in change.items()) for word, change in SWITCHES.items()}
        return tuple(word for word, on in is_on.items() if on and any(getattr(plain, key) != getattr(self, key) for key in SWITCHES[word]))

    def switched(self, word: str) -> "Runtime":
        """The runtime with one of `SWITCHES`."""
        return replace(self, **SWITCHES[word])

    def copies_beside(self, dtype: str, *, has_master: bool) -> float:
        """Bytes held for each byte of the state of a weight of this type; with `has_master` a third of the state is the float32 copy."""
        copies = self.state_copies if dtype in _TWO_BYTES else 1.0
        return max(copies / 1.5, 1.0) if has_master else copies

    @property
    def waits_for_host(self) -> bool:
        """Whether the host calls each kernel."""
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
"""What can be said of a runtime besides its name, each an option of the hardware: `8 H100, eager, no reshard`.

`flash 1`: FlashAttention of 2022, and its kernel in Triton, reach 30 to 50 % of an A100's peak forward and 25 to 35 % backward, where the
second reaches 73 and 63 % (Dao 2023, arXiv:2307.08691, section 1). `flash 3`: 1.5 to 2 times as fast as the second forward and 1.5 to 1.75
backward on Hopper (Shah et al. 2024, arXiv:2407.08608, section 4). `cuDNN`: measured there (benchmarks/results/h100.json).
`batch overlap`: DualPipe, and `overlap_moe_expert_parallel_comm` of Megatron Core."""


@cache
def load_runtimes() -> dict[str, Runtime]:
    """All runtimes by name, XLA's first."""
    tables = tomllib.loads(RUNTIME_FILE.read_text(encoding="utf-8"))
    return {XLA.name: XLA, **{name: _read_runtime(name, table) for name, table in tables.items()}}


def _read_runtime(name: str, table: dict[str, Any]) -> Runtime:
    shares = {target: tuple(sorted(values.items())) for target, values in table.pop("shares", {}).items()}
    buckets = tuple(table.pop("buckets", (0, 0)))
    return Runtime(name, shares=tuple(sorted(shares.items())), buckets=buckets, **table)


def find_runtime(name: str) -> Runtime:
    """The runtime of this name, however its letters are cased; raises `HardwareError` with the nearest names."""
    found = _find_name(name, load_runtimes())
    if found is None:
        raise HardwareError(*unknown_name("runtime", name, load_runtimes()))
    return load_runtimes()[found]


def find_switch(text: str) -> str:
    """The option of a runtime that a text says; raises `HardwareError` with the nearest ones."""
    found = _find_name(text, SWITCHES)
    if found is None:
        raise HardwareError(*unknown_name("option of a runtime", text, SWITCHES))
    return found


def is_runtime(text: str) -> bool:
    """Whether a text names a runtime."""
    return _find_name(text, load_runtimes()) is not None


def is_switch(text: str) -> bool:
    """Whether a text is an option of a runtime."""
    return _find_name(text, SWITCHES) is not None


def _find_name(text: str, names: Iterable[str]) -> str | None:
    """The name that a text is, however its letters are cased and its words spaced."""
    folded = " ".join(text.casefold().split())
    return next((name for name in names if name.casefold() == folded), None)
