"""All board processes of a server: one waits for the next visitor, those without visitors end after a while."""

import base64
import threading
import time
from collections.abc import Mapping

from workbench.app.page.requested_visit import ServeOptions
from workbench.app.page.visitor_screen import Screen
from workbench.app.processes.child_table import BOARDS, FORK_SERVER, PARTITIONER, ChildState
from workbench.app.processes.healing_child import ForkServer
from workbench.app.processes.served_board import RemoteBoard, ServedBoard
from workbench.app.runners.job_queue import JobQueue
from workbench.core.memory_limits import OomKills
from workbench.core.public_error_text import process_fate
from workbench.engine import shared_worker
from workbench.engine.worker.job_payload import jax_settings, sendable
from workbench.errors import EngineError, WorkbenchError
from workbench.session.journal import is_board_id, journal_folder, new_board_id, prune_journals

MOST = 200
"""Boards at once. Each takes some 150 MiB of its own."""
LINGERING, MOST_LINGERING = 60.0, 4
"""Seconds that a board waits for a page that lost its connection, and how many do so at once; one that has ended is in its journal."""
_LOOK = 1.0  # seconds between two checks of all boards


class Boards:
    """The boards of one server; all of them ask XLA's partitioner in one warm process of the server's.

    Raises `EngineError` if what is served cannot be sent to another process.
    """

    def __init__(self, served: ServeOptions, queue: JobQueue) -> None:
        job_payload = sendable(served, "What is served", "pass a `runner` to `serve` to keep the boards in this process")
        self._prepare = {"prepare": {"served": base64.b64encode(job_payload).decode(), "jax_config": jax_settings()}}
        self._forking, self._queue, self._worker = ForkServer(), queue, shared_worker()
        self._lock = threading.RLock()
        self._boards: list[ServedBoard] = []
        self._spare: RemoteBoard | None = None
        self._deaths, self._oom_kills = 0, OomKills()
        self._is_closed = threading.Event()
        self._first = threading.Thread(target=self._refill, daemon=True, name="spare board")
        self._first.start()
        threading.Thread(target=self._watch, daemon=True, name="boards").start()
        threading.Thread(target=prune_journals, args=(journal_folder(),), daemon=True, name="journals").start()

    def open(self, query: Mapping[str, str], screen: Screen) -> ServedBoard | None:
        """The board that a URL asks for, shown on a page: the live one of its name, or another; `None` if there are too many."""
        name = query.get("board", "")
        with self._lock:
            live = next((board for board in self._boards if board.name == name and not board.is_closed), None)
            if live and not live.is_watched():
                live.attach(screen)
                return live
            if len(self._boards) >= MOST:
                return None
            resumes = live is None and is_board_id(name)
            if not self._boards:
                self._worker.warm()  # only now: a server without visitors needs no partitioner, which takes 0.1 GiB
            board = ServedBoard(name if resumes else new_board_id(), query, screen, self._start, self._explain_end)
            self._boards.append(board)
            return board

    def verify(self) -> None:
        """Raises the `WorkbenchError` that prevents the first plan from being made; waits for the first process to have tried."""
        self._first.join()
        if self._spare is None:
            raise EngineError("The process that starts boards ended.", ["start the server again", "look at what it printed"])
        if problem := self._spare.prepared.result():
            self.close()
            raise WorkbenchError(problem["message"], problem["ways_out"])

    def close(self) -> None:
        """End all of them, with their jobs."""
        self._is_closed.set()
        with self._lock:
            for board in self._boards:
                board.close()
            if self._spare:
                self._spare.close()
        self._forking.close()

    def _start(self) -> RemoteBoard:
        """A process for a board: the spare one, or a new one."""
        self._first.join()
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is None or spare.is_closed:
            return self._start_prepared()
        threading.Thread(target=self._refill, args=(spare,), daemon=True, name="spare board").start()
        return spare

    def _start_prepared(self) -> RemoteBoard:
        remote = RemoteBoard(self._forking.connect(), self._queue, self._worker)
        remote.send(self._prepare)
        return remote

    def _refill(self, previous: RemoteBoard | None = None) -> None:
        """Start another spare process once the one taken is ready: two at a time would slow each other down."""
        if previous:
            previous.prepared.result()
        try:
            remote = self._start_prepared()
        except EngineError:  # closed, or failed: the next visitor gets the error
            return
        self._keep_spare(remote)

    def _keep_spare(self, remote: RemoteBoard) -> None:
        """Keep a spare process for the next visitor."""
        with self._lock:
            if self._spare is None and not self._is_closed.is_set():
                self._spare = remote
                return
        remote.close()

    def _watch(self) -> None:
        while not self._is_closed.wait(_LOOK):
            self._oom_kills.look()
            with self._lock:
                boards = list(self._boards)
            for board in boards:
                board.look()
            self._close_unwatched(boards)

    def _close_unwatched(self, boards: list[ServedBoard]) -> None:
        """End boards without visitors; the last few wait a while for a page that lost its connection."""
        left = sorted((board for board in boards if board.left_at is not None), key=lambda board: -(board.left_at or 0.0))
        for rank, board in enumerate(left):
            if rank >= MOST_LINGERING or time.monotonic() - (board.left_at or 0.0) > LINGERING:
                board.close()
        with self._lock:
            self._boards = [board for board in self._boards if not board.is_closed]

    def children(self) -> Mapping[str, ChildState]:
        """How its processes are."""
        own = ChildState(self._deaths, 0.0)
        return {FORK_SERVER.name: self._forking.state(), BOARDS.name: own, PARTITIONER.name: ChildState(self._worker.deaths, 0.0)}

    def _explain_end(self, remote: RemoteBoard) -> str:
        """What became of a process that ended although a visitor had it, in words."""
        self._deaths += 1
        status = None if remote.pid is None else self._forking.status_of(remote.pid)
        return f"The process of this board {process_fate(status, memory_ran_out=self._oom_kills.is_recent())}"
