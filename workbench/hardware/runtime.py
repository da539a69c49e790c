"""What starts the kernels of a step: a compiled program, a recorded graph of calls, or a host that calls one after the other.

A plan is priced for a runtime, an option of the hardware: `8 H100, eager`. XLA's is the default, and is not written.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from workbench.errors import HardwareError, unknown_name

RUNTIME_FILE = Path(__file__).with_name("runtimes.toml")


@dataclass(frozen=True, slots=True)
class Runtime:
    """One way to run a step.

    - `fuses`: elementwise operations are fused with others (XLA); otherwise each call of a library is a kernel of its own;
    - `dispatch`, `collective_dispatch`: seconds the host needs to call a kernel, and a collective; 0 where a step is one launch. The host
      runs ahead of the device: a device that is not faster than it does not notice;
    - `prefetches`: in a loop over layers, weights are gathered and gradients reduced beside other layers' kernels;
    - `waits_at_once`: a collective that the next kernels read is waited for where it is called, though some of them do not read it;
    - `gathers_again`: what is gathered in the forward pass is gathered again for the backward pass, not kept (FSDP's reshard after
      forward);
    - `decomposes`: gathers and reduce-scatters go around in pieces while the dot that reads or makes them runs (async tensor parallelism);
    - `reserved`: bytes that its allocator holds of the device for each byte that a step has allocated at its peak;
    - `source`: where the numbers come from.
    """

    name: str
    fuses: bool = True
    dispatch: float = 0.0
    collective_dispatch: float = 0.0
    prefetches: bool = False
    waits_at_once: bool = False
    gathers_again: bool = False
    decomposes: bool = False
    reserved: float = 1.0
    source: str = ""

    @property
    def switches(self) -> tuple[str, ...]:
        """The options by which it differs from the runtime of its name."""
        plain = load_runtimes()[self.name]
        return tuple(word for word, change in SWITCHES.items() if any(getattr(self, key) != getattr(plain, key) for key in change))

    def switched(self, word: str) -> "Runtime":
        """The runtime with one of `SWITCHES`."""
        return replace(self, **SWITCHES[word])

    @property
    def waits_for_host(self) -> bool:
        """Whether the host calls each kernel."""
        return self.dispatch > 0 or self.collective_dispatch > 0


XLA = Runtime("XLA")
SWITCHES: dict[str, dict[str, Any]] = {
    "no prefetch": {"prefetches": False},
    "no reshard": {"gathers_again": False},
    "async TP": {"decomposes": True},
}
"""What can be said of a runtime besides its name, each an option of the hardware: `8 H100, eager, no reshard`."""


@cache
def load_runtimes() -> dict[str, Runtime]:
    """All runtimes by name, XLA's first."""
    tables = tomllib.loads(RUNTIME_FILE.read_text(encoding="utf-8"))
    return {XLA.name: XLA, **{name: Runtime(name, **table) for name, table in tables.items()}}


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
