"""Who runs and compiles a plan for the board. The board knows this protocol only; the engine is imported when a person asks for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

RUN_LIMIT = COMPILE_LIMIT = 1800.0  # seconds, from the start of the worker process on


class Handle(Protocol):
    """A run or a compilation under way."""

    def cancel(self) -> None:
        """Ask it to stop; an event says when it has."""
        ...


class Runner(Protocol):
    """Starts work and returns at once. Events may come from another thread."""

    def start(self, plan: Plan, steps: int, on_event: Callable[[Event], None]) -> Handle:
        """Run a plan on the attached devices."""
        ...

    def compile(self, plan: Plan, on_event: Callable[[Event], None], *, behind: bool = False) -> Handle:
        """Compile a plan for the hardware it names, or for the attached devices; `behind` all else that the machine has to do."""
        ...

    def expect(self, plan: Plan) -> None:
        """Such a compilation is likely to be asked for in a moment: what it needs besides the plan may be started."""
        ...

    def refuses(self, plan: Plan) -> str:
        """Why a plan cannot be compiled here, as far as that is known without trying; empty if it may be."""
        ...


@dataclass(frozen=True, slots=True)
class WorkerRunner:
    """Runs and compiles in worker processes, through the engine, each for so many seconds at most."""

    run_limit: float = RUN_LIMIT
    compile_limit: float = COMPILE_LIMIT

    def start(self, plan: Plan, steps: int, on_event: Callable[[Event], None]) -> Handle:
        from workbench.engine import start_run

        handle: Handle = start_run(plan, steps, on_event, time_limit=self.run_limit)
        return handle

    def compile(self, plan: Plan, on_event: Callable[[Event], None], *, behind: bool = False) -> Handle:
        from workbench.engine import start_compile

        handle: Handle = start_compile(plan, plan.hardware, on_event, self.compile_limit, behind=behind)
        return handle

    def expect(self, plan: Plan) -> None:
        from workbench.engine import prepare_compile

        if not self.refuses(plan):
            prepare_compile(plan)

    def refuses(self, plan: Plan) -> str:
        from workbench.engine import why_not_compiled

        return why_not_compiled(plan)
