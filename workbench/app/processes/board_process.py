"""The process of one board: it receives its page's messages over a connection, one JSON object each, and sends what is to be shown.

Incoming: `{"prepare": {...}}` with a pickle of what is served, answered by `{"prepared": problem}`, and `{"open": {"asked", "name"}}` when
a visitor has come; then `{"gesture": {...}}`, `{"heard": {...}}` and `{"again": true}`. Outgoing: `{"ready": pid}`, `{"show": target,
"parameters": {...}}` and, when a message was handled, `{"done": its number}`. Its runs wait in the server's queue: `{"enter": kind,
"ticket": n}` and `{"leave": n}` go out, and `{"ticket": n, "ahead": jobs}` comes in. It asks the server's partitioner
(`processes.warm_partitioner_proxy`). It ends when the connection does.
"""

import base64
import functools
import gc
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.requested_visit import ServeOptions, open_visit
from workbench.app.page.served_board_history import BoardHistory, served_program
from workbench.app.page.visit import WATCHED, Settling, Visit, VisitContext
from workbench.app.processes.job_queue_proxy import RemoteSlots
from workbench.app.processes.message_loop import MessageLoop
from workbench.app.processes.process_connection import Message
from workbench.app.processes.warm_partitioner_proxy import RemoteWorker
from workbench.app.runners.queued_runner import QueuedRunner
from workbench.app.runners.worker_runner import EnginePartitioner, WorkerRunner
from workbench.core.operating_system import limit_data
from workbench.engine.worker.job_payload import use_jax_settings
from workbench.errors import WorkbenchError
from workbench.plan.plan import Plan
from workbench.session.journal import journal_folder
from workbench.tracing.jax_backends import force_cpu_backend

MEMORY = 4 << 30  # bytes of data a board may allocate; the kernel refuses more, and the process ends


def serve_board(descriptor: int) -> None:
    """Serve one board, from its opening to the end of the connection."""
    force_cpu_backend()
    limit_data(MEMORY)
    with Connection(descriptor) as connection:
        BoardProcess(connection).serve()


class BoardProcess(MessageLoop):
    """The event loop of a board process. All work on the board happens on the main thread."""

    idle_seconds = WATCHED / 1000

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._served: ServeOptions | None = None
        self._visit: Visit | None = None
        self._slots = RemoteSlots(self.send)
        self._worker = RemoteWorker(self.send)

    def handle_idle(self) -> None:
        if self._visit:
            self._visit.look()

    def handle_end(self) -> None:
        if self._visit:
            self._visit.close()

    def handle_at_once(self, message: Message) -> bool:
        if "ticket" in message:
            self._slots.tell(message["ticket"], message["ahead"])
        elif "partition" in message:
            self._worker.tell(message["partition"], message["answer"])
        else:
            return False
        return True

    def handle(self, message: Message) -> None:
        if "prepare" in message:
            self._prepare(message["prepare"])
        elif "open" in message:
            self._open(message["open"])
        elif self._visit and message.get("again"):
            self._visit.show_again()
        elif self._visit:
            self._visit.hear(message)

    def _prepare(self, settings: Message) -> None:
        """Prepare for a visitor: the first plan is traced before anybody comes. Errors are shown to the visitor, not here."""
        use_jax_settings(settings["jax_config"])
        served: ServeOptions = pickle.loads(base64.b64decode(settings["served"]))  # noqa: S301 - our own parent wrote it
        self._served = replace(served, make=functools.cache(served.make))
        self.send({"prepared": self._problem(self._served.make)})

    def _problem(self, make: Callable[[], Plan]) -> Mapping[str, Any]:
        """What prevents the first plan from being made, if it can be said in words; else the page shows it."""
        try:
            plan = make()
        except WorkbenchError as error:
            return {"message": error.message, "ways_out": error.ways_out}
        except Exception:  # noqa: BLE001 - the visitor sees it
            return {}
        with suppress(Exception):
            analyze(plan)  # pending questions have no one waiting for them
        gc.collect()
        gc.freeze()  # the first plan stays: no edit waits for a garbage collection of it
        return {}

    def _open(self, opening: Message) -> None:
        assert self._served is not None, "prepared first"
        window = VisitorWindow(lambda target, parameters: self.send({"show": target, "parameters": parameters}))
        served, name, query = self._served, opening["name"], opening["asked"]
        source = name if opening.get("died") else query.get("board", "")
        keeping = BoardHistory(journal_folder(), name, source, (*served.allow, *served_program(served.make)))
        limit = served.time_limit
        runner = QueuedRunner(WorkerRunner(limit, limit), self._slots)
        settling = Settling(EnginePartitioner(self._worker), self._inbox.put, self._inbox.empty)
        self._visit = open_visit(served, query, VisitContext(window, runner, self._inbox.put, keeping, settling))
        if reason := opening.get("died"):
            window.tell(notice=died_notice(reason))


def died_notice(reason: str) -> dict[str, Any]:
    """The notice to a visitor whose board had to be started again."""
    text = f"{reason}, so your last edit was not applied. Everything before it is kept, undo included."
    return {"title": "The board was started again", "text": text, "choices": [["dismiss", "All right"]]}
