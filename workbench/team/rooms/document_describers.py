"""Processes that read documents for the server, a few at a time; those of the zoo are kept for the next.

A document that takes too long, or breaks its process, is felt by no other: a process has one at a time.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from workbench.errors import WorkbenchError
from workbench.team.rooms.room_connection import DescribeConnection, StartedPlanner
from workbench.team.store.store import digest_of
from workbench.team.store.tables import RegisteredProgram

MOST_SECONDS = 60.0
"""Seconds that describing a document may take, from when its turn has come."""
AT_ONCE = 2
"""Documents; the others wait, on no thread that anybody else waits for."""


class DocumentDescribers:
    """`connect(program)` starts a process. Thread-safe."""

    def __init__(self, connect: Callable[[RegisteredProgram | None], StartedPlanner]) -> None:
        self._connect, self._lock = connect, threading.Lock()
        self._threads = ThreadPoolExecutor(AT_ONCE, "documents")
        self._idle: list[DescribeConnection] = []
        self._at_work: set[DescribeConnection] = set()
        self._is_closed = False
        self.deaths = 0  # of processes that nobody had ended

    async def ask(self, question: Mapping[str, Any], program: RegisteredProgram | None = None) -> Mapping[str, Any]:
        """What a process answers to a message: one of the zoo, or of a program apart. Raises `WorkbenchError`."""
        if self._is_closed:
            raise WorkbenchError("The server is closing.", ["try again after the restart"])
        work = partial(self._ask_zoo, question) if program is None else partial(self._ask_apart, question, program)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """End the processes, and what they are at."""
        with self._lock:
            self._is_closed, idle, self._idle, at_work = True, self._idle, [], list(self._at_work)
        for each in idle:
            each.close()
        for each in at_work:
            each.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask_zoo(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._lock:
            describing = self._idle.pop() if self._idle else None
        if describing is None or describing.is_closed:
            describing = DescribeConnection(self._connect(None), self._note_death)
        try:
            return self._wait(describing, question)
        finally:
            self._give_back(describing)

    def _note_death(self) -> None:
        with self._lock:
            self.deaths += 1

    def _give_back(self, describing: DescribeConnection) -> None:
        with self._lock:
            if not self._is_closed and not describing.is_closed:
                self._idle.append(describing)
                return
        describing.close()

    def _ask_apart(self, question: Mapping[str, Any], program: RegisteredProgram) -> Mapping[str, Any]:
        describing = DescribeConnection(self._connect(program), self._note_death)
        try:
            return _verified(self._wait(describing, question), program)
        finally:
            describing.close()

    def _wait(self, describing: DescribeConnection, question: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._lock:
            self._at_work.add(describing)
        try:
            return describing.ask(question).result(MOST_SECONDS)
        except TimeoutError:
            describing.is_closed = True  # nobody else is to ask it
            describing.kill()
            raise WorkbenchError(
                f"Reading this document took longer than {MOST_SECONDS:g} s and was stopped.", ["plan a smaller program", "ask again later"]
            ) from None
        finally:
            with self._lock:
                self._at_work.discard(describing)


def _verified(record: Mapping[str, Any], program: RegisteredProgram) -> Mapping[str, Any]:
    """What a process says that runs somebody's code is believed of its own program alone."""
    if record.get("target") != program.target or record.get("digest") != digest_of(str(record.get("document"))):
        raise WorkbenchError(f"The program `{program.name}` describes a different plan.", ["ask an owner to look at it"])
    return record
