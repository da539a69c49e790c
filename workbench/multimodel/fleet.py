"""Description of a fleet: models to train together, number of devices, memory, and policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from workbench.core.program import Program
from workbench.errors import FleetError, wrong_type
from workbench.hardware.catalogue import read_hardware
from workbench.hardware.hardware import Hardware
from workbench.multimodel.policies import policy_named
from workbench.multimodel.unit_chains import verify_devices, verify_names
from workbench.units import format_bytes, read_whole_number

SPILLS = ("host", "disk")
MOST_MEMORY = 1 << 60
"""Largest accepted memory of a device, in bytes."""
MOST_MINI_BATCHES = 1_000_000
"""Limit over all models and epochs of a fleet: units are scheduled one by one and stored in the record of the run."""


@dataclass(frozen=True)
class FleetModel:
    """One model of a fleet: its training program, training length and partition.

    - `mini_batches` per epoch, at most `epochs`; `seed` of the initial parameters;
    - `cuts`: paths of the blocks that begin a new shard; if empty, the memory decides
      (`greedy_partition.greedy_shards`);
    - `stop_below`: training stops after a mini-batch whose loss is below this value.

    **Invariants**

    - The name is a valid file name; there is at least one mini-batch and one epoch; cuts are a tuple.
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
        self._verify_types()
        for field in ("mini_batches", "epochs"):
            read_whole_number(field, getattr(self, field), FleetError, of=f" of model `{self.name}`")
        object.__setattr__(self, "cuts", tuple(self.cuts))

    def _verify_types(self) -> None:
        if not isinstance(self.program, Program):
            raise FleetError(self._expected_text("program", "a `Program`"), ["make it with `wb.trace_training`"])
        if not isinstance(self.cuts, list | tuple) or not all(isinstance(path, str) for path in self.cuts):
            raise FleetError(self._expected_text("cuts", "a list of the paths of blocks"), [f"write cuts={_list_text(self.cuts)}"])
        if not _is_whole(self.seed) or not -(2**63) <= self.seed < 2**63:
            raise FleetError(self._expected_text("seed", "a whole number of 64 bits"), ["write seed=0, say", "leave it out"])
        if self.stop_below is not None and not _is_number(self.stop_below):
            raise FleetError(self._expected_text("stop_below", "a number"), ["write a number, such as stop_below=0.1", "leave it out"])

    def _expected_text(self, field: str, expected: str) -> str:
        return f"Model `{self.name}`: {wrong_type(field, getattr(self, field), expected)}"


@dataclass(frozen=True)
class Fleet:
    """Models on shared devices.

    - `devices`: number of devices; `None` for one per model, up to the number attached;
    - `memory`: usable bytes of each device, `None` for all;
    - `buffer`: fraction of the memory reserved for the next unit's state; `double_buffer` copies that in while a unit
      runs;
    - `hardware`: planning target, attached or not; `None` for the attached hardware; a text such as `"8 H100"` is
      parsed;
    - `spill`: where state that is on no device is stored, `host` memory or `disk`; `folder`: where checkpoints and
      spilled state are stored.

    **Invariants**

    - There is at least one model; names are unique; the policy exists; the buffer is a fraction below 1.
    - There are no more devices than the hardware has.
    - There are at most a million mini-batches in total.
    - A list of models becomes a tuple, the text of a folder a path.
    """

    models: tuple[FleetModel, ...]
    policy: str = "sharded-lrtf"
    devices: int | None = None
    memory: int | None = None
    buffer: float = 0.15
    double_buffer: bool = True
    spill: str = "host"
    folder: Path | None = None
    hardware: Hardware | None = None

    def __post_init__(self) -> None:
        _verify_models(self.models)
        verify_names([model.name for model in self.models])
        verify_options(vars(self))
        _verify_length(self.models)
        object.__setattr__(self, "models", tuple(self.models))
        object.__setattr__(self, "hardware", read_hardware(self.hardware))
        object.__setattr__(self, "folder", None if self.folder is None else Path(self.folder))

    @property
    def name(self) -> str:
        """Name of the fleet in messages."""
        return f"model `{self.models[0].name}`" if len(self.models) == 1 else f"{len(self.models)} models"

    def updated(self, **changes: object) -> "Fleet":
        return replace(self, **changes)  # type: ignore[arg-type]  # `__post_init__` checks the types


def _verify_models(models: object) -> None:
    ways_out = ['write a list, such as models=[FleetModel("a", program)]']
    if not isinstance(models, list | tuple):
        raise FleetError(wrong_type("models", models, "a list of models"), ways_out)
    if wrong := [index for index, model in enumerate(models) if not isinstance(model, FleetModel)]:
        raise FleetError(wrong_type(f"models[{wrong[0]}]", models[wrong[0]], "a `FleetModel`"), ways_out)


def _verify_length(models: Sequence[FleetModel]) -> None:
    if (total := sum(model.mini_batches * model.epochs for model in models)) > MOST_MINI_BATCHES:
        longest = max(models, key=lambda model: model.mini_batches * model.epochs)
        raise FleetError(
            f"The fleet has {_count_text(total)} mini-batches (`{longest.name}` has {_count_text(longest.epochs)} x "
            f"{_count_text(longest.mini_batches)}); it may have {MOST_MINI_BATCHES:,}.",
            ["give fewer mini-batches or epochs", "train the models in several fleets"],
        )


def _count_text(count: int) -> str:
    return f"{count:,}" if count < 10**18 else "10**18 or more"


def verify_model_name(name: object) -> None:
    """Raises `FleetError` if the name is not a valid file name."""
    if not isinstance(name, str):
        raise FleetError(wrong_type("name", name, "a text"), [f'write "{name}"'] if isinstance(name, int) else ['write "a", say'])
    if not name or any(letter in name for letter in '/\\\0:*?"<>|') or name.startswith("."):
        raise FleetError(f"`{name}` is not a valid model name: files are named after it.", ["use letters, figures, - and _"])


def verify_options(options: Mapping[str, Any]) -> None:
    """Raises `FleetError` for invalid fields of a fleet other than its models; a missing field has its default."""
    policy_named(options.get("policy", Fleet.policy))
    if (devices := options.get("devices")) is not None:
        verify_devices(read_whole_number("devices", devices, FleetError))
    hardware = read_hardware(options.get("hardware"))
    if hardware is not None and devices is not None and devices > hardware.size:
        raise FleetError(
            f"The fleet needs {devices:,} devices; {hardware} has {hardware.size:,}.", [f"give it {hardware.size}", "name more hardware"]
        )
    if (memory := options.get("memory")) is not None:
        if isinstance(memory, bool) or not isinstance(memory, int):
            raise FleetError(f"`memory` is {memory!r}; it should be a number of bytes.", ["write 2 * 2**30 for 2 GiB"])
        if memory > MOST_MEMORY:
            raise FleetError(f"A memory budget of {format_bytes(memory)} exceeds that of every device.", ['write "2 GiB", say'])
        if memory < 1:
            raise FleetError(f"A budget of {format_bytes(memory)} holds nothing.", ['write "2 GiB", say'])
    if not _is_number(buffer := options.get("buffer", Fleet.buffer)):
        raise FleetError(wrong_type("buffer", buffer, "a share of a device's memory"), ["write buffer=0.15"])
    if not 0 <= buffer < 1:
        raise FleetError(f"A buffer of {buffer:g} is not a share of device memory.", ["0.05 to 0.15 is usual", "0 leaves none"])
    if (folder := options.get("folder")) is not None and not isinstance(folder, str | Path):
        raise FleetError(wrong_type("folder", folder, "the path of a folder"), ['write folder="runs"'])
    spill = options.get("spill", Fleet.spill)
    if spill not in SPILLS or (spill == "disk" and folder is None):
        raise FleetError(f"State cannot be spilled to `{spill}`" + (" without a folder." if spill == "disk" else "."), SPILLS)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _list_text(cuts: object) -> str:
    """Hint for a text where a list is expected, which would be read letter by letter."""
    return f'["{cuts}"]' if isinstance(cuts, str) else '["layers/1"], say'
