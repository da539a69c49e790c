"""The protocol of a runner, which runs, compiles and searches for the board. The board knows only this; `app.runners` has the engine's."""

from typing import Protocol

from workbench.hardware.hardware import Hardware
from workbench.plan.plan import Plan
from workbench.reports.run_events import RunListener
from workbench.search.search_messages import SearchCommand, SearchListener
from workbench.search.search_space import SearchSpace


class RunHandle(Protocol):
    """A run or a compilation under way."""

    def cancel(self) -> None:
        """Ask it to stop; an event says when it has."""
        ...


class SearchHandle(Protocol):
    """A process that searches a space."""

    def send(self, command: SearchCommand) -> None:
        """Ask it; its answer is an event. Nothing happens if it has ended."""
        ...

    def cancel(self) -> None:
        """End it now."""
        ...


class Runner(Protocol):
    """Starts work and returns at once. Events may come from another thread."""

    def start(self, plan: Plan, steps: int, on_event: RunListener) -> RunHandle:
        """Run a plan on the attached devices."""
        ...

    def compile(self, plan: Plan, on_event: RunListener, *, behind: bool = False) -> RunHandle:
        """Compile a plan for the hardware it names, or for the attached devices; `behind`: at low priority."""
        ...

    def calibrate(self, plan: Plan, on_event: RunListener) -> RunHandle:
        """Measure the attached devices, as many as the plan's mesh has."""
        ...

    def calibrated(self, plan: Plan) -> Hardware | None:
        """What so many attached devices were measured to be before; `None` if that is not known. At once."""
        ...

    def expect(self, plan: Plan) -> None:
        """Such a compilation is likely to be requested in a moment: what it needs besides the plan may be started."""
        ...

    def refuses(self, plan: Plan) -> str:
        """Why a plan cannot be compiled here, as far as that is known without trying; empty if it can."""
        ...

    def search(self, space: SearchSpace, on_event: SearchListener) -> SearchHandle:
        """Start a process that searches a space of plans, and explains them."""
        ...

    def expect_search(self, plan: Plan) -> None:
        """A search for this plan's program is likely to be requested in a moment."""
        ...
