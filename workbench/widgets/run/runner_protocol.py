"""The protocol of a runner, which runs, compiles and searches for a board; `app.runners` implements it."""

from typing import Protocol

from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchCommand, SearchListener
from workbench.search.search_space import SearchSpace


class RunHandle(Protocol):
    """A run or compilation in progress."""

    def cancel(self) -> None:
        """Request a stop, which an event confirms."""
        ...


class SearchHandle(Protocol):
    """A process that searches a space."""

    def send(self, command: SearchCommand) -> None:
        """Send a command, which is answered by an event; ignored if the process has ended."""
        ...

    def cancel(self) -> None:
        """End the process at once."""
        ...


class Runner(Protocol):
    """Starts work without blocking. Events may come from another thread."""

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> RunHandle:
        """Run a plan on the attached devices."""
        ...

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> RunHandle:
        """Compile a plan for its hardware, or for the attached devices; `behind`: at low priority."""
        ...

    def calibrate(self, plan: Plan, on_event: RunListener) -> RunHandle:
        """Measure as many attached devices as the plan's mesh has."""
        ...

    def calibrated(self, plan: Plan) -> Hardware | None:
        """Return an earlier calibration of as many attached devices without measuring; `None` without one."""
        ...

    def expect(self, plan: Plan) -> None:
        """Prepare for a likely compilation request; may start processes that it needs."""
        ...

    def refuses(self, plan: Plan) -> str:
        """Return why a plan cannot be compiled here, as far as known without trying; empty if it can."""
        ...

    def search(self, space: SearchSpace, on_event: SearchListener) -> SearchHandle:
        """Start a process that searches a space of plans and explains them."""
        ...

    def expect_search(self, plan: Plan) -> None:
        """Prepare for a likely search of this plan's program."""
        ...
