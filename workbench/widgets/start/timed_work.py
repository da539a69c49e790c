"""Work of more than a second in a thread: which phase it is in, for how long, and that it can be stopped."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from workbench.core.public_error_text import describe_error
from workbench.errors import WorkbenchError
from workbench.widgets.shared_states import Defer

_log = logging.getLogger(__name__)
T = TypeVar("T")


class StoppedError(Exception):
    """Raised in the thread of work that was stopped."""


@dataclass(eq=False)
class WorkTicket:
    """One piece of work under way; its thread reports phases, and raises `StoppedError` in `report` once it was stopped."""

    phase: str
    begun: float = field(default_factory=time.monotonic)
    is_stopped: bool = False

    def report(self, phase: str) -> None:
        """Begin a phase."""
        self.verify()
        self.phase = phase

    def verify(self) -> None:
        """Raises `StoppedError` if nobody waits for this work any more."""
        if self.is_stopped:
            raise StoppedError


class TimedWork(Generic[T]):
    """At most one piece of work whose result is wanted; new work takes the place of the last.

    `defer(work)` moves work from the thread to the host's event loop, where `changed()`, `done` and `failed` are called.
    """

    def __init__(self, defer: Defer, changed: Callable[[], None]) -> None:
        self._defer, self._changed = defer, changed
        self._ticket: WorkTicket | None = None

    @property
    def is_running(self) -> bool:
        return self._ticket is not None

    def start(
        self, phase: str, work: Callable[[WorkTicket], T], done: Callable[[T], None], failed: Callable[[WorkbenchError], None]
    ) -> None:
        """Do `work` in a thread. It is given a ticket, on which it reports its phases."""
        self.stop()
        ticket = self._ticket = WorkTicket(phase)
        threading.Thread(target=self._run, args=(ticket, work, done, failed), daemon=True, name="start").start()

    def tell(self, ticket: WorkTicket, show: Callable[[], None] = lambda: None) -> None:
        """From the thread: call `show` on the event loop, then `changed`, if the work is still wanted."""
        self._defer(lambda: self._show(ticket, show))

    def stop(self) -> None:
        """Drop the work under way; its thread ends at its next phase."""
        if self._ticket is not None:
            self._ticket.is_stopped = True
            self._ticket = None

    def state(self) -> dict[str, Any] | None:
        """The phase, and the seconds so far, from which the page counts on."""
        if (ticket := self._ticket) is None:
            return None
        return {"phase": ticket.phase, "seconds": round(time.monotonic() - ticket.begun, 1)}

    def _run(
        self, ticket: WorkTicket, work: Callable[[WorkTicket], T], done: Callable[[T], None], failed: Callable[[WorkbenchError], None]
    ) -> None:
        try:
            found = work(ticket)
        except StoppedError:
            return
        except WorkbenchError as error:
            self._finish(ticket, failed, error)
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            _log.exception("The work %r failed", ticket.phase)
            self._finish(ticket, failed, WorkbenchError(f"The workbench itself failed: {describe_error(error)}"))
        else:
            self._finish(ticket, done, found)

    def _finish(self, ticket: WorkTicket, report: Callable[[Any], None], found: object) -> None:
        def finish() -> None:
            self._ticket = None
            report(found)

        self.tell(ticket, finish)

    def _show(self, ticket: WorkTicket, show: Callable[[], None]) -> None:
        if self._ticket is ticket:
            show()
            self._changed()
