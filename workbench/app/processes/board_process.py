"""The process of one board: receives its page's messages over a connection, one JSON object each, and sends state to
show.

Incoming: `{"prepare": {...}}` with a pickle of the served options, answered by `{"prepared": problem}`; `{"open":
{"asked", "name"}}` for a visitor; then `{"gesture": {...}}`, `{"heard": {...}}` and `{"again": true}`. Outgoing:
`{"ready": pid}`, `{"show": target, "parameters": {...}}` and, for each handled message, `{"done": number}`. Its runs
use the server's queue: `{"enter": kind, "ticket": n}` and `{"leave": n}` go out, `{"ticket": n, "ahead": jobs}` comes
in. It uses the server's partitioner (`processes.warm_partitioner_proxy`). It ends with the connection.
"""

import base64
import functools
import gc
import pickle
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from workbench.analysis.analyze import analyze
from workbench.app.page.part_changes import VisitorWindow
from workbench.app.page.requested_visit import open_visit
from workbench.app.page.serve_options import ServeOptions
from workbench.app.page.served_board_history import BoardHistory, served_reference
from workbench.app.page.visit import WATCHED, Settling, Visit, VisitContext
from workbench.app.processes.job_queue_proxy import RemoteSlots
from workbench.app.processes.message_loop import MessageLoop
from workbench.app.processes.process_connection import Message
from workbench.app.processes.warm_partitioner_proxy import RemoteWorker
from workbench.app.runners.queued_runner import QueuedRunner
from workbench.app.runners.worker_runner import EnginePartitioner, WorkerRunner
from workbench.core.operating_system import limit_data
from workbench.engine.worker.pickling import use_jax_settings
from workbench.errors import WorkbenchError
from workbench.session.journal_folder import journal_folder
from workbench.tracing.jax_backends import force_cpu_backend

MEMORY = 4 << 30  # limit of a board's data in bytes; beyond it the process ends


def serve_board(descriptor: int) -> None:
    """Serve one board until the connection ends."""
    force_cpu_backend()
    limit_data(MEMORY)
    with Connection(descriptor) as connection:
        BoardProcess(connection).serve()


class BoardProcess(MessageLoop):
    """The event loop of a board process; all work on the board runs on the main thread."""

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
        use_jax_settings(settings["jax_config"])
        served: ServeOptions = pickle.loads(base64.b64decode(settings["served"]))  # noqa: S301 - our own parent wrote it
        self._served = replace(served, make=functools.cache(served.make))
        self.send({"prepared": self._problem(self._served)})

    def _problem(self, served: ServeOptions) -> Mapping[str, Any]:
        """Return the `WorkbenchError` that prevents the exercise or the first plan; the page shows other errors."""
        try:
            served.load_exercise()
            plan = served.make()
        except WorkbenchError as error:
            return {"message": error.message, "ways_out": error.ways_out}
        except Exception:  # noqa: BLE001 - the visitor sees it
            return {}
        with suppress(Exception):
            analyze(plan)  # errors are reported to the visitor
        gc.collect()
        gc.freeze()  # exclude the permanent first plan from later collections
        return {}

    def _open(self, opening: Message) -> None:
        assert self._served is not None, "prepared first"
        window = VisitorWindow(lambda target, parameters: self.send({"show": target, "parameters": parameters}))
        served, name, query = self._served, opening["name"], opening["asked"]
        source = name if opening.get("died") else query.get("board", "")
        keeping = BoardHistory(journal_folder(), name, source, (*served.allow, *served_reference(served.make)))
        limit = served.time_limit
        runner = QueuedRunner(WorkerRunner(limit, limit), self._slots)
        settling = Settling(EnginePartitioner(self._worker), self._inbox.put, self._inbox.empty)
        self._visit = open_visit(served, query, VisitContext(window, runner, self._inbox.put, keeping, settling))
        if reason := opening.get("died"):
            window.tell(notice=restart_notice(reason))


def restart_notice(reason: str) -> dict[str, Any]:
    text = f"{reason}, so your last edit was not applied. Everything before it is kept, undo included."
    return {"title": "The board was restarted", "text": text, "choices": [["dismiss", "All right"]]}
