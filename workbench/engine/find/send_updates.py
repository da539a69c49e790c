"""Updates of one search, a few a second: of every state where they come slowly, of the last one where they come fast, and where none comes
for a while of the same one with the time that has passed, for a round of a large program takes seconds."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from workbench.search.search_messages import FoundEntries, SearchUpdate, SearchUpdated
from workbench.search.search_state import SearchState

EVERY = 0.5  # seconds between two updates

Tell = Callable[[Any], None]


class UpdateSender:
    """Used as a context: the last update is sent after it, by its caller. `take_found()` gives what was planned since the last call."""

    def __init__(self, number: int, tell: Tell, take_found: Callable[[], FoundEntries]) -> None:
        self._number, self._tell, self._take_found = number, tell, take_found
        self._lock, self._is_over = threading.Lock(), threading.Event()
        self._state: SearchState | None = None
        self._known_at = self._sent_at = float("-inf")
        self._thread = threading.Thread(target=self._repeat, daemon=True, name="updates")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def show(self, state: SearchState) -> None:
        """There is a new state."""
        with self._lock:
            self._state, self._known_at = state, time.perf_counter()
            if self._known_at - self._sent_at >= EVERY:
                self._send(state, self._take_found())

    def _repeat(self) -> None:
        while not self._is_over.wait(EVERY):
            with self._lock:
                now = time.perf_counter()
                if self._state is not None and now - self._sent_at >= EVERY:
                    self._send(replace(self._state, elapsed=self._state.elapsed + now - self._known_at), ())

    def _send(self, state: SearchState, found: FoundEntries) -> None:
        self._sent_at = time.perf_counter()
        self._tell(SearchUpdated(SearchUpdate(self._number, state, found)))
