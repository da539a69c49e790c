"""Cancellable work of more than a second in a thread, with its phase and duration."""

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
    """Raised in the thread of cancelled work."""


@dataclass(eq=False)
class WorkTicket:
    """Work in progress; its thread reports phases, and gets `StoppedError` once it is cancelled."""

    phase: str
    begun: float = field(default_factory=time.monotonic)
    is_stopped: bool = False

    def report(self, phase: str) -> None:
        self.verify()
        self.phase = phase

    def verify(self) -> None:
        if self.is_stopped:
            raise StoppedError


class TimedWork(Generic[T]):
    """At most one piece of work whose result is wanted; new work replaces the last.

    `defer(work)` moves work to the host's event loop, where `changed()`, `done` and `failed` are called.
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
        """Run `work` in a thread with a ticket, on which it reports its phases."""
        self.stop()
        ticket = self._ticket = WorkTicket(phase)
        threading.Thread(target=self._run, args=(ticket, work, done, failed), daemon=True, name="start").start()

    def tell(self, ticket: WorkTicket, show: Callable[[], None] = lambda: None) -> None:
        """Schedule `show`, then `changed`, on the event loop if the work is still wanted; called from the thread."""
        self._defer(lambda: self._show(ticket, show))

    def stop(self) -> None:
        """Cancel the work in progress; its thread ends at its next phase."""
        if self._ticket is not None:
            self._ticket.is_stopped = True
            self._ticket = None

    def state(self) -> dict[str, Any] | None:
        if (ticket := self._ticket) is None:
            return None
        return {"phase": ticket.phase, "seconds": round(time.monotonic() - ticket.begun, 1)}

    def _run(
        self, ticket: WorkTicket, work: Callable[[WorkTicket], T], done: Callable[[T], None], failed: Callable[[WorkbenchError], None]
    ) -> None:
        try:
            result = work(ticket)
        except StoppedError:
            return
        except WorkbenchError as error:
            self._finish(ticket, failed, error)
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            _log.exception("The work %r failed", ticket.phase)
            self._finish(ticket, failed, WorkbenchError(f"The workbench itself failed: {describe_error(error)}"))
        else:
            self._finish(ticket, done, result)

    def _finish(self, ticket: WorkTicket, report: Callable[[Any], None], found: object) -> None:
        def finish() -> None:
            self._ticket = None
            report(found)

        self.tell(ticket, finish)

    def _show(self, ticket: WorkTicket, show: Callable[[], None]) -> None:
        if self._ticket is ticket:
            show()
            self._changed()
