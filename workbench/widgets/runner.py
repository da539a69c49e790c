"""Who runs a plan for the board. The board knows this protocol only; the engine is imported when a person presses Run, never before."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from workbench.plan import Plan

Event = Mapping[str, Any]
"""What a run tells of itself, as a plain dict:

- `{"event": "progress", "stage": str, "fraction": float}`
- `{"event": "step", "step": int, "of": int, "seconds": float, "loss": float | None}`
- `{"event": "done", "measurement": Measurement}`
- `{"event": "error", "message": str}`
- `{"event": "cancelled"}`

The last three end the run.
"""


class Handle(Protocol):
    """A run under way."""

    def cancel(self) -> None:
        """Ask it to stop; an event says when it has."""
        ...


class Runner(Protocol):
    """Starts runs; returns at once. Events may come from another thread."""

    def start(self, plan: Plan, steps: int, on_event: Callable[[Event], None]) -> Handle: ...


class WorkerRunner:
    """Runs on the attached devices in a worker process, through the engine."""

    def start(self, plan: Plan, steps: int, on_event: Callable[[Event], None]) -> Handle:
        from workbench.engine import start_run

        handle: Handle = start_run(plan, steps, on_event)
        return handle
