"""What is asked for: models to train together, on how many devices, within how much memory, by which policy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.errors import FleetError
from workbench.multimodel.jobs import verify_names
from workbench.multimodel.policies import policy_named
from workbench.program import Program
from workbench.units import format_bytes, whole_number

SPILLS = ("host", "disk")


@dataclass(frozen=True)
class FleetModel:
    """One model of a fleet: a training program, how long it trains, where it is cut.

    - `mini_batches` an epoch, `epochs` at most; `seed` of its first parameters;
    - `cuts`: paths of the blocks that begin a new shard; empty leaves it to the memory (`shards.greedy_shards`);
    - `stop_below`: it stops after a mini-batch whose loss is below this.
    """

    name: str
    program: Program
    mini_batches: int = 10
    epochs: int = 1
    cuts: tuple[str, ...] = ()
    seed: int = 0
    stop_below: float | None = None

    def __post_init__(self) -> None:
        verify_model_name(self.name)
        for counted in ("mini_batches", "epochs"):
            whole_number(counted, getattr(self, counted), FleetError, of=f" of model `{self.name}`")


@dataclass(frozen=True)
class Fleet:
    """Models on shared devices.

    - `devices`: how many, `None` for all that are attached, at most one a model;
    - `memory`: bytes of each that may be used, `None` for what it has;
    - `buffer`: the share of it that is left for the next unit's state; `double_buffer` brings that in while a unit runs;
    - `spill`: where what no device holds lies, `host` memory or `disk`; `folder`: where checkpoints (and spilled state) are kept.

    **Invariants**

    - There is a model, and each has a name of its own; the policy exists; the buffer is a share below 1.
    """

    models: tuple[FleetModel, ...]
    policy: str = "sharded-lrtf"
    devices: int | None = None
    memory: int | None = None
    buffer: float = 0.15
    double_buffer: bool = True
    spill: str = "host"
    folder: Path | None = None

    def __post_init__(self) -> None:
        verify_names([each.name for each in self.models])
        verify_options(vars(self))

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"model `{self.models[0].name}`" if len(self.models) == 1 else f"{len(self.models)} models"

    def updated(self, **changes: object) -> "Fleet":
        return replace(self, **changes)  # type: ignore[arg-type]  # the fields' own types are checked there


def verify_model_name(name: str) -> None:
    """Raises `FleetError` for what no file can be named after."""
    if not name or any(letter in name for letter in '/\\\0:*?"<>|') or name.startswith("."):
        raise FleetError(f"`{name}` is no name for a model: its files are named after it.", ["use letters, figures, - and _"])


def verify_options(options: Mapping[str, Any]) -> None:
    """Raises `FleetError` for fields of a fleet that cannot be, whatever its models; one that is left out has its default."""
    policy_named(options.get("policy", Fleet.policy))
    if (devices := options.get("devices")) is not None:
        whole_number("devices", devices, FleetError)
    if (memory := options.get("memory")) is not None:
        if isinstance(memory, bool) or not isinstance(memory, int):
            raise FleetError(f"`memory` is {memory!r}; it should be a number of bytes.", ["write 2 * 2**30 for 2 GiB"])
        if memory < 1:
            raise FleetError(f"A budget of {format_bytes(memory)} holds nothing.", ['write "2 GiB", say'])
    if not 0 <= (buffer := options.get("buffer", Fleet.buffer)) < 1:
        raise FleetError(f"A buffer of {buffer:g} is no share of a device's memory.", ["0.05 to 0.15 is usual", "0 leaves none"])
    spill = options.get("spill", Fleet.spill)
    if spill not in SPILLS or (spill == "disk" and options.get("folder") is None):
        raise FleetError(f"State cannot be spilled to `{spill}`" + (" without a folder." if spill == "disk" else "."), SPILLS)
