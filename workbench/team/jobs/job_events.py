"""Read job events: `read_events(path, after)`, and `EventReader` for a growing file; progress, result and figures of a job
from its events.

**Invariants**

- Only valid events of `reports.run_events` are returned; torn lines and other output that a program wrote into its file
  are skipped.
- Only regular files are read, no links or pipes, up to `MOST_BYTES`: user code writes to the job's folder.

The schema of an event is `events.schema.json` beside this file.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Union

import msgspec
from msgspec import Meta

from workbench.core.parse_untrusted import open_plain
from workbench.errors import ways_out_text
from workbench.reports.run_events import EVENT_FIELDS
from workbench.team.jobs.queue import JobResult

MOST_BYTES = 1 << 27  # of an events file
_LONGEST = 1 << 22  # bytes of a line
_CHUNK = 1 << 20  # bytes
_Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
_Number = Annotated[float, Meta(gt=-1e300, lt=1e300)]
_LIMITED: Mapping[Any, Any] = {int: _Count, float: _Number, int | None: _Count | None, float | None: _Number | None}
_RECORDS = [
    msgspec.defstruct(
        kind,
        [(name, _LIMITED.get(of, of)) for name, of in {"seq": int, "time": float, **fields}.items()],
        tag_field="kind",
        tag=kind,
        forbid_unknown_fields=True,
    )
    for kind, fields in EVENT_FIELDS.items()
]
_DECODER = msgspec.json.Decoder(Union[tuple(_RECORDS)])  # noqa: UP007 - of a list


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event: its number `seq` in the file, `time` in seconds since 1970, `kind`, and the fields of that kind."""

    seq: int
    time: float
    kind: str
    fields: Mapping[str, Any]

    def record(self) -> dict[str, Any]:
        return {"seq": self.seq, "time": self.time, "kind": self.kind, **self.fields}


class EventReader:
    """Reads a growing file incrementally; a missing file has no events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> tuple[JobEvent, ...]:
        events: list[JobEvent] = []
        with suppress(OSError), open_plain(self._path, follow_links=False) as file:
            file.seek(self._offset)
            while self._offset < MOST_BYTES and (chunk := file.read(_CHUNK)):
                self._offset += len(chunk)
                *lines, self._rest = (self._rest + chunk).split(b"\n")
                events += [event for line in lines if (event := parse_event(line)) is not None]
                self._rest = self._rest[: _LONGEST + 1]  # an overlong line is cut and therefore invalid
        return tuple(events)


def read_events(path: Path, after: int = 0) -> tuple[JobEvent, ...]:
    return tuple(event for event in EventReader(path).read() if event.seq > after)


def parse_event(line: bytes) -> JobEvent | None:
    """Parse a line; `None` if it is not an event."""
    if len(line) > _LONGEST:
        return None
    try:
        record = _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    fields = msgspec.structs.asdict(record)
    if not _is_shallow(fields.get("figures", {})):
        return None
    return JobEvent(fields.pop("seq"), fields.pop("time"), type(record).__name__, fields)


def _is_shallow(value: Any, depth: int = 8) -> bool:
    """Return whether figures can be stored and displayed: finite numbers with limited nesting."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in inner)
    return not isinstance(value, int | float) or abs(value) < 1e300


_KEPT_OF_RUN = (
    "device_kind",
    "devices",
    "processes",
    "compile_seconds",
    "median_seconds",
    "predicted_seconds",
    "shards_agree",
    "max_error",
    "explained_error",
    "is_wrong",
    "wrong_text",
)
_KEPT_OF_COMPILATION = ("target", "devices", "compiler", "compile_seconds", "flops", "compute_seconds")
LOST = "The engine no longer knows the job, and the job left no final status."


@dataclass
class ReportedProgress:
    started: JobEvent | None = None
    last_step: JobEvent | None = None
    figures: dict[str, JobEvent] = field(default_factory=dict)  # by tier
    ending: JobEvent | None = None
    first_loss: float | None = None

    def add(self, events: Iterable[JobEvent]) -> None:
        for event in events:
            match event.kind:
                case "started":
                    self.started = event
                case "progress" if event.fields["step"] is not None:
                    self.last_step = event
                    self.first_loss = event.fields["loss"] if self.first_loss is None else self.first_loss
                case "compiled" | "measured":
                    self.figures[event.kind] = event
                case "done" | "failed" | "cancelled":
                    self.ending = event

    def summary(self) -> dict[str, Any]:
        step = self.last_step.fields if self.last_step else {}
        entries: dict[str, Any] = {name: step.get(name) for name in ("step", "of", "loss", "seconds") if step.get(name) is not None}
        if self.first_loss is not None:
            entries["first_loss"] = self.first_loss
        for tier, names in (("measured", _KEPT_OF_RUN), ("compiled", _KEPT_OF_COMPILATION)):
            if tier in self.figures:
                values = self.figures[tier].fields["figures"]
                entries |= {name: values[name] for name in names if name in values}
        return entries

    def result(self, *, was_asked_to_end: bool) -> JobResult:
        kind = self.ending.kind if self.ending else "cancelled" if was_asked_to_end else "failed"
        problem = ""
        if kind == "failed":
            problem = _problem(self.ending.fields) if self.ending else f"{LOST} You can submit it again."
        version = str(self.started.fields["version"])[:40] if self.started else ""
        figures = {tier: figures_of(tier, event.fields["figures"]) for tier, event in self.figures.items()} if kind == "done" else {}
        return JobResult(kind, self.summary(), problem, figures, version)


def figures_of(tier: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gallery's figures: peak bytes and step seconds under the names that all tiers share, then all others.
    Sent bytes are not measured; the payloads of the compiled program are included by mesh axes and kind.
    """
    if tier == "measured":
        peak = values.get("device_peak") or values.get("compiled_peak")
        shared = {"peak_bytes": peak, "sent_bytes": None, "step_seconds": values.get("median_seconds"), "fits": True}
    else:
        memory = values.get("memory")
        peak = memory.get("peak") if isinstance(memory, Mapping) else None
        shared = {"peak_bytes": peak, "sent_bytes": None, "step_seconds": values.get("step_seconds"), "fits": None}
    return {**values, **{name: value if isinstance(value, int | float) else None for name, value in shared.items()}}


def _problem(fields: Mapping[str, Any]) -> str:
    return f"{fields['message']} {ways_out_text(fields['ways_out'])}".rstrip()[:4000]
