"""All board processes of a server: a spare one waits for the next visitor, those without visitors end after a while."""

import base64
import threading
import time
from collections.abc import Mapping

from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.visitor_screen import Screen
from workbench.app.processes.child_table import BOARDS, FORK_SERVER, PARTITIONER, ChildState
from workbench.app.processes.healing_child import ForkServer
from workbench.app.processes.served_board import RemoteBoard, ServedBoard
from workbench.app.runners.job_queue import JobQueue
from workbench.core.memory_limits import OomKills
from workbench.core.public_error_text import describe_process_end
from workbench.engine import shared_worker
from workbench.engine.worker.pickling import jax_settings, sendable
from workbench.errors import EngineError, WorkbenchError
from workbench.session.journal_folder import is_board_id, journal_folder, new_board_id, prune_journals

MOST = 200
"""Limit of simultaneous boards, each of about 150 MiB."""
LINGERING, MOST_LINGERING = 60.0, 4
"""Seconds that a board waits for a disconnected page, and the number of such boards; an ended board is in its journal."""
_LOOK = 1.0  # seconds between two checks of all boards


class Boards:
    """The boards of one server, with one warm process of XLA's partitioner.

    Raises `EngineError` if the served options cannot be sent to another process.
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
        """Open the board of a URL on a page: the live one of that name, or another; `None` if there are too many."""
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
                self._worker.warm()  # on the first visitor, since the partitioner takes 0.1 GiB
            board = ServedBoard(name if resumes else new_board_id(), query, screen, self._start, self._explain_end)
            self._boards.append(board)
            return board

    def verify(self) -> None:
        """Wait for the first process, and raise the `WorkbenchError` that prevents the first plan."""
        self._first.join()
        if self._spare is None:
            raise EngineError("The process that starts boards ended.", ["start the server again", "see its output"])
        if problem := self._spare.prepared.result():
            self.close()
            raise WorkbenchError(problem["message"], problem["ways_out"])

    def close(self) -> None:
        self._is_closed.set()
        with self._lock:
            for board in self._boards:
                board.close()
            if self._spare:
                self._spare.close()
        self._forking.close()

    def _start(self) -> RemoteBoard:
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
        """Start another spare process once the previous one is ready, since two at a time would slow each other down."""
        if previous:
            previous.prepared.result()
        try:
            remote = self._start_prepared()
        except EngineError:  # closed, or failed: the next visitor gets the error
            return
        self._keep_spare(remote)

    def _keep_spare(self, remote: RemoteBoard) -> None:
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
        unwatched = sorted((board for board in boards if board.left_at is not None), key=lambda board: -(board.left_at or 0.0))
        for rank, board in enumerate(unwatched):
            if rank >= MOST_LINGERING or time.monotonic() - (board.left_at or 0.0) > LINGERING:
                board.close()
        with self._lock:
            self._boards = [board for board in self._boards if not board.is_closed]

    def children(self) -> Mapping[str, ChildState]:
        boards_state = ChildState(self._deaths, 0.0)
        return {FORK_SERVER.name: self._forking.state(), BOARDS.name: boards_state, PARTITIONER.name: ChildState(self._worker.deaths, 0.0)}

    def _explain_end(self, remote: RemoteBoard) -> str:
        self._deaths += 1
        status = None if remote.pid is None else self._forking.status_of(remote.pid)
        return f"The process of this board {describe_process_end(status, memory_ran_out=self._oom_kills.is_recent())}"
