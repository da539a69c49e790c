"""What the row of a job says of its events: how far it is, how it ended, and the figures of its plan."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import ways_out_text
from workbench.team.jobs.job_events import JobEvent
from workbench.team.jobs.queue import JobResult

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
    """What a job has reported so far."""

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
        """For a list of jobs: steps, losses, seconds, and what was measured in short."""
        step = self.last_step.fields if self.last_step else {}
        found: dict[str, Any] = {name: step.get(name) for name in ("step", "of", "loss", "seconds") if step.get(name) is not None}
        if self.first_loss is not None:
            found["first_loss"] = self.first_loss
        for tier, kept in (("measured", _KEPT_OF_RUN), ("compiled", _KEPT_OF_COMPILATION)):
            if tier in self.figures:
                values = self.figures[tier].fields["figures"]
                found |= {name: values[name] for name in kept if name in values}
        return found

    def result(self, *, was_asked_to_end: bool) -> JobResult:
        """How it ended; called when nothing is added any more."""
        kind = self.ending.kind if self.ending else "cancelled" if was_asked_to_end else "failed"
        problem = ""
        if kind == "failed":
            problem = _problem(self.ending.fields) if self.ending else f"{LOST} You can submit it again."
        version = str(self.started.fields["version"])[:40] if self.started else ""
        figures = {tier: figures_of(tier, event.fields["figures"]) for tier, event in self.figures.items()} if kind == "done" else {}
        return JobResult(kind, self.summary(), problem, figures, version)


def figures_of(tier: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the gallery compares: bytes at the peak and seconds of a step, under the names that all tiers have; then all the rest.

    What a device sends is not measured: the compiled program's payloads are beside it, by mesh axes and kind.
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
    """The words of an error, with its ways out, as a page shows them."""
    return f"{fields['message']} {ways_out_text(fields['ways_out'])}".rstrip()[:4000]
