"""A run as the board sees it: a value that each event moves on, and the JSON of the Run panel drawn from it."""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from workbench.comparison import Comparison
from workbench.measurement import Measurement
from workbench.plan import Plan
from workbench.report import Report
from workbench.units import format_bytes, format_seconds
from workbench.widgets.blocks import Column, Paint, block, row
from workbench.widgets.communication import collectives_block
from workbench.widgets.runner import Event

MOST_STEPS = 10_000
MOST_POINTS = 200
MOST_DISAGREEMENTS = 100
INVITATION = (
    "Compiles and runs this plan in a worker process, then sets real shard shapes, collectives and step time against the prediction."
)


@dataclass(frozen=True, slots=True)
class Live:
    """Where a run stands. `phase` is `idle`, `running`, or one of `ENDINGS`; `report` is the prediction of the plan that runs."""

    phase: str = "idle"
    steps: int = 20
    stage: str = ""
    fraction: float = 0.0
    seconds: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    message: str = ""
    measurement: Measurement | None = None
    report: Report | None = None
    colours: tuple[tuple[str, int], ...] = ()

    @property
    def running(self) -> bool:
        return self.phase == "running"

    @property
    def plan(self) -> Plan | None:
        return self.report.plan if self.report else None

    def after(self, event: Event) -> "Live":
        """The run after one event."""
        kind = event.get("event")
        if kind == "progress":
            return replace(self, stage=str(event["stage"]), fraction=float(event["fraction"]))
        if kind == "step":
            return self._stepped(int(event["step"]), int(event["of"]), float(event["seconds"]), event.get("loss"))
        if kind == "done":
            return replace(self, phase="done", fraction=1.0, measurement=event["measurement"])
        if kind == "error":
            return replace(self, phase="error", message=str(event["message"]))
        if kind == "cancelled":
            return replace(self, phase="cancelled", message="Cancelled.")
        return self

    def _stepped(self, step: int, of: int, seconds: float, loss: float | None) -> "Live":
        losses = self.losses if loss is None else (*self.losses, float(loss))
        return replace(self, stage=f"step {step} of {of}", fraction=step / max(of, 1), seconds=(*self.seconds, seconds), losses=losses)


def live_state(live: Live, *, can_run: bool = True) -> dict[str, Any]:
    """The Run panel; JSON only."""
    return {
        "phase": live.phase,
        "can_run": can_run,
        "steps": str(live.steps),
        "stage": live.stage if live.running else "",
        "fraction": round(min(max(live.fraction, 0.0), 1.0), 4),
        "message": INVITATION if live.phase == "idle" else live.message,
        "of": str(live.plan) if live.plan and not live.running else "",
        "curves": _curves(live),
        "facts": _facts(live.measurement, live.report) if live.measurement else [],
        "blocks": _blocks(live.measurement, live.report, dict(live.colours)) if live.measurement and live.report else [],
    }


def curve(label: str, values: tuple[float, ...], texts: tuple[str, str, str]) -> dict[str, Any] | None:
    """A line through `values` in a box of 100 x 100, y downwards; `texts` are for the greatest, the least and the last value."""
    finite = [value for value in values if isfinite(value)]
    if len(finite) < 2:
        return None
    stride = -(-len(finite) // MOST_POINTS)
    kept = [*finite[::stride], finite[-1]] if (len(finite) - 1) % stride else finite[::stride]
    low, high = min(kept), max(kept)
    span = high - low or 1.0
    points = [[round(100 * i / (len(kept) - 1), 2), round(100 * (high - value) / span, 2)] for i, value in enumerate(kept)]
    return {"label": label, "points": points, "high": texts[0], "low": texts[1], "last": texts[2]}


def _curves(live: Live) -> list[dict[str, Any]]:
    losses = [loss for loss in live.losses if isfinite(loss)]
    loss = curve("loss", live.losses, (f"{max(losses):.4g}", f"{min(losses):.4g}", f"{losses[-1]:.4g}")) if losses else None
    times = live.seconds
    shown = (format_seconds(max(times)), format_seconds(min(times)), format_seconds(times[-1])) if times else ("", "", "")
    return [each for each in (loss, curve("step time", times, shown)) if each]


def _facts(measured: Measurement, report: Report | None) -> list[dict[str, str]]:
    low, high = (format_seconds(each) for each in measured.spread_seconds)
    facts = [_fact("measured step", format_seconds(measured.median_seconds), f"median of {len(measured.step_seconds)}; {low} to {high}")]
    if measured.predicted_seconds:
        ratio = measured.median_seconds / measured.predicted_seconds
        facts.append(_fact("predicted step", format_seconds(measured.predicted_seconds), f"measured is {ratio:.2f}× of it"))
    agreeing = sum(check.agrees for check in measured.shards)
    tone = "good" if measured.shards_agree else "bad"
    facts.append(_fact("shard shapes", f"{agreeing} of {len(measured.shards)}", "agree with the arrays that existed", tone))
    if measured.losses:
        facts.append(_fact("loss", f"{measured.losses[0]:.4g} → {measured.losses[-1]:.4g}", f"over {len(measured.losses)} steps"))
    if measured.max_error is not None:
        facts.append(_fact("against unsharded", f"{measured.max_error:.1e}", "largest relative difference"))
    if report:
        facts.append(_fact("peak memory", format_bytes(measured.compiled_peak), f"by XLA; predicted {format_bytes(report.memory.peak)}"))
    processes = f", {measured.processes} processes" if measured.processes > 1 else ""
    facts.append(
        _fact(
            "ran on", f"{measured.devices} × {measured.device_kind}", f"compiled in {format_seconds(measured.compile_seconds)}{processes}"
        )
    )
    return facts


def _fact(label: str, text: str, note: str, tone: str = "") -> dict[str, str]:
    return {"label": label, "text": text, "note": note, "tone": tone}


def _blocks(measured: Measurement, report: Report, colours: dict[str, int]) -> list[dict[str, Any]]:
    comparison = Comparison(report, None, measured)
    blocks = [collectives_block(comparison, Paint(colours))] if comparison.collectives else []
    wrong = [check for check in measured.shards if not check.agrees]
    if wrong:
        columns = (Column("array"), Column("predicted"), Column("on the device"))
        rows = [row(check.path, check.path, str(check.predicted), {"text": str(check.actual), "tone": "bad"}) for check in wrong]
        blocks.insert(0, block("Shard shapes that disagree", columns, rows[:MOST_DISAGREEMENTS]))
    return blocks
