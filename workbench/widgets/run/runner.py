"""Who runs and compiles a plan for the board. The board knows this protocol only; `app.runners` has the engine's."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from workbench.plan.plan import Plan

Event = Mapping[str, Any]
"""What a run or a compilation tells of itself, as a plain dict:

- `{"event": "waiting", "ahead": int}`: so many others come first (`queued_runner`)
- `{"event": "progress", "stage": str, "fraction": float}`
- `{"event": "step", "step": int, "of": int, "seconds": float, "loss": float | None}`
- `{"event": "done", "measurement": Measurement}`, or `"compiled": Compiled`
- `{"event": "error", "message": str}`
- `{"event": "cancelled"}`

The last three end it.
"""


class RunHandle(Protocol):
    """A run or a compilation under way."""

    def cancel(self) -> None:
        """Ask it to stop; an event says when it has."""
        ...


class Runner(Protocol):
    """Starts work and returns at once. Events may come from another thread."""

    def start(self, plan: Plan, steps: int, on_event: Callable[[Event], None]) -> RunHandle:
        """Run a plan on the attached devices."""
        ...

    def compile(self, plan: Plan, on_event: Callable[[Event], None], *, behind: bool = False) -> RunHandle:
        """Compile a plan for the hardware it names, or for the attached devices; `behind` all else that the machine has to do."""
        ...

    def expect(self, plan: Plan) -> None:
        """Such a compilation is likely to be asked for in a moment: what it needs besides the plan may be started."""
        ...

    def refuses(self, plan: Plan) -> str:
        """Why a plan cannot be compiled here, as far as that is known without trying; empty if it may be."""
        ...
