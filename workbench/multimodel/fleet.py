"""What is asked for: models to train together, on how many devices, within how much memory, by which policy."""

from dataclasses import dataclass, replace
from pathlib import Path

from workbench.errors import FleetError
from workbench.multimodel.policies import policy_named
from workbench.program import Program
from workbench.units import format_bytes

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
        if not self.name or any(letter in self.name for letter in '/\\\0:*?"<>|') or self.name.startswith("."):
            raise FleetError(f"`{self.name}` is no name for a model: its files are named after it.", ["use letters, figures, - and _"])
        if self.mini_batches < 1 or self.epochs < 1:
            raise FleetError(
                f"Model `{self.name}` has {self.mini_batches} mini-batches an epoch and {self.epochs} epochs.", ["each must be 1 at least"]
            )


@dataclass(frozen=True)
class Fleet:
    """Models on shared devices.

    - `devices`: how many, `None` for all that are attached; `memory`: bytes of each that may be used, `None` for what it has;
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
        policy_named(self.policy)
        names = [each.name for each in self.models]
        if not names:
            raise FleetError("There is no model to train.", ["list one at least"])
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise FleetError(f"{names.count(twice)} models are named `{twice}`.", [f"name the second one `{twice}_2`, say"])
        if self.devices is not None and self.devices < 1:
            raise FleetError(f"There are {self.devices} devices to train on.", ["one is needed at least"])
        if self.memory is not None and self.memory < 1:
            raise FleetError(f"A budget of {format_bytes(self.memory)} holds nothing.", ['write "2 GiB", say'])
        if not 0 <= self.buffer < 1:
            raise FleetError(f"A buffer of {self.buffer:g} is no share of a device's memory.", ["0.05 to 0.15 is usual", "0 leaves none"])
        if self.spill not in SPILLS or (self.spill == "disk" and self.folder is None):
            raise FleetError(f"State cannot be spilled to `{self.spill}`" + (" without a folder." if self.spill == "disk" else "."), SPILLS)

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"model `{self.models[0].name}`" if len(self.models) == 1 else f"{len(self.models)} models"

    def updated(self, **changes: object) -> "Fleet":
        return replace(self, **changes)  # type: ignore[arg-type]  # the fields' own types are checked there
