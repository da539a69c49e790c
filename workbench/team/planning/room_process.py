"""The process of a room: receives the gestures of its users and sends their screens, as JSON objects.

Incoming:

- `{"room": {"document", "name", "log", "time_limit"}}` first: the initial plan and the log to replay; of an assignment
  also the `exercise` with its document and tries;
- `{"enter": {"user_id", "display", "role", "participant"}, "visitor": v}` when a user opens the page, `{"role": r,
  "visitor": v}` when their role changes, `{"leave": true, "visitor": v}`;
- `{"gesture": {...}, "visitor": v}`, `{"heard": {...}, "visitor": v}`, `{"again": true, "visitor": v}`;
- `{"push": {"document", "source", "user_id", "display"}}`, a plan that somebody sends to the room;
- `{"describe": {"document"}}` or one of `ANSWERS` with its arguments, to a process without a room, which replies
  `{"described": {...}}` or `{"problem": {...}}`;
- `{"ticket": n, "ahead": jobs}` from the server's compilation queue, and job events (`team.planning.job_runner`).

Outgoing: `{"ready": pid}`; `{"opened": problem}`; `{"log": {...}}`, a log entry, always before the first `{"show":
target, "parameters": {...}, "visitor": v}` that follows from it; `{"save": {...}, "visitor": v}`; of an assignment
`{"answered": {...}, "visitor": v}` and `{"card": {...}, "thumbnail": svg}`; `{"note": ...}` for the activity of the
room; `{"enter": kind, "ticket": n}` and `{"leave": n}` to the queue, `{"run": ...}` and `{"cancel": n}` of jobs;
`{"done": number}` when a message was handled.

A room process that is not a fork is `python -m workbench.team.planning.room_process DESCRIPTOR [MODULE]`. In a sandbox
it plans the registered program of `MODULE`, whatever it receives; without `MODULE`, on a cluster, zoo models. It starts
its own partitioner.
"""

import gc
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from workbench.app.page.part_changes import VisitorWindow
from workbench.app.processes.job_queue_proxy import RemoteSlots
from workbench.app.processes.message_loop import MessageLoop
from workbench.app.processes.process_connection import Message
from workbench.app.runners.queued_runner import QueuedRunner
from workbench.app.runners.worker_runner import EnginePartitioner, WorkerRunner
from workbench.core.child_process import run_when_idle
from workbench.core.operating_system import limit_data
from workbench.core.public_error_text import describe_error
from workbench.documents import dump_plan, parse_plan
from workbench.errors import WorkbenchError
from workbench.exercises.lesson_answers import lesson_of
from workbench.plan.edits import OpenPlan, ShardDim
from workbench.plan.plan import Plan
from workbench.session.figure_tiers import Settler
from workbench.session.plan_history import Session
from workbench.team.access import ProjectRole
from workbench.team.planning.broker_client import BrokerClient
from workbench.team.planning.grade_answers import (
    describe_exercise,
    describe_plan,
    description_record,
    figures_of,
    find_baselines,
    grade_answer,
    judge_baseline,
    parse_exercise,
)
from workbench.team.planning.job_runner import TeamJobs
from workbench.team.planning.room_edit_log import RoomLogRecord, common_statements, replay, replay_room
from workbench.team.planning.room_session import RoomPerson, RoomSession
from workbench.team.planning.room_visit import RoomVisit, StudentAnswers, WorkCard
from workbench.team.store.store import digest_of
from workbench.tracing.jax_backends import force_cpu_backend
from workbench.widgets.exercise.exercise_progress import ExerciseProgress
from workbench.widgets.run.job_progress import RunProgress

MOST_PARTITIONING = 10.0  # seconds to wait for XLA's partitioner when describing a document
MOST_RUNS = 8  # finished runs that are shown to new visitors
SLOW, OFTEN = 0.3, 4
"""CPU seconds of a slow gesture, and the number of consecutive ones after which the process lowers its priority. A single one
is not enough: a tab takes as long when it is first opened, for any program."""
MEMORY = 4 << 30  # RLIMIT_DATA of a room in bytes; exceeding it ends the process

ANSWERS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "exercise": describe_exercise,
    "grade": grade_answer,
    "replay": replay_room,
    "baselines": find_baselines,
    "judge": judge_baseline,
}
"""Functions by question, for processes without a room; they return records of `web.team_services`."""


def serve_room(descriptor: int, broker: int | None = None, allow: tuple[str, ...] = ()) -> None:
    """Serve one room. `broker` receives broker connections; `allow` lists modules that plans may name."""
    force_cpu_backend()
    limit_data(MEMORY)
    with Connection(descriptor) as connection:
        RoomProcess(connection, None if broker is None else BrokerClient(broker), allow).serve()


class RoomProcess(MessageLoop):
    """The event loop of a room. All session work happens on the main thread."""

    def __init__(self, connection: Connection, broker: BrokerClient | None, allow: tuple[str, ...]) -> None:
        super().__init__(connection)
        self._allow, self._answers_of = allow, {"describe": self._describe, **ANSWERS}
        self._slots, self._jobs = RemoteSlots(self.send), TeamJobs(self.send)
        self._partitioner = EnginePartitioner(broker.worker if broker else None)
        self._session: RoomSession | None = None
        self._settler: Settler | None = None
        self._time_limit = 0.0
        self._seq = 0
        self._visits: dict[int, RoomVisit] = {}
        self._slow_gestures = 0
        self._runs: list[RunProgress] = []
        self._progress: ExerciseProgress | None = None
        self._lesson = ""
        self._card: WorkCard | None = None

    def handle_end(self) -> None:
        for visit in self._visits.values():
            visit.close()

    def handle_at_once(self, message: Message) -> bool:
        if "ticket" in message:
            self._slots.tell(message["ticket"], message["ahead"])
        elif "job" in message:
            self._jobs.tell(message)
        else:
            return False
        return True

    def handle(self, message: Message) -> None:
        if "room" in message:
            self._open_room(message["room"])
        elif "enter" in message:
            self._enter(message["visitor"], RoomPerson.from_message(message["enter"]))
        elif name := next((question for question in self._answers_of if question in message), ""):
            self.send({**self._answer(name, message[name]), "answers": message["number"]})
        elif "push" in message:
            self._push(message["push"])
        elif (visit := self._visits.get(message.get("visitor", 0))) is not None:
            self._handle_visitor(message["visitor"], visit, message)

    def _open_room(self, room: Message) -> None:
        self._time_limit = room["time_limit"]
        try:
            first = parse_plan(room["document"], "The plan of this room", self._allow)
            records = [RoomLogRecord(entry["kind"], entry["author"], entry["body"]) for entry in room["log"]]
            self._session = RoomSession.begin(replay(first, records, self._allow), self._keep, self._inbox.put)
            self._seq = len(records)
            self._begin_exercise(room.get("exercise"))
        except WorkbenchError as error:
            self.send({"opened": _problem(error)})
            return
        except Exception as error:  # noqa: BLE001 - waiting visitors need an answer
            self.send({"opened": _problem(WorkbenchError(f"The room could not be opened: {describe_error(error)}"))})
            return
        self._settler = Settler(
            self._session, self._partitioner, defer=self._inbox.put, is_idle=self._inbox.empty, on_change=self._show_settling
        )
        gc.collect()
        gc.freeze()  # existing plans are permanent: edits must not wait for their garbage collection
        self.send({"opened": None})

    def _begin_exercise(self, exercise: Message | None) -> None:
        if exercise is None or self._session is None:
            return
        self._progress = ExerciseProgress(parse_exercise(exercise["document"]))
        self._lesson = lesson_of(exercise["document"])
        self._progress.restore((name, count, is_done) for name, count, is_done in exercise["tries"])
        self._card = WorkCard(self._session, self._progress, self.send, self._inbox.put)

    def _enter(self, visitor: int, person: RoomPerson) -> None:
        if self._session is None:
            return
        window = VisitorWindow(lambda target, parameters: self.send({"show": target, "parameters": parameters, "visitor": visitor}))
        runner = QueuedRunner(WorkerRunner(self._time_limit, self._time_limit), self._slots)
        start_job = partial(self._jobs.start, visitor=visitor)
        visit = RoomVisit(self._session, person, window, runner, start_job, self._inbox.put)
        try:
            save, ran = partial(self._save, visitor), partial(self._share_run, visit)
            visit.open(save, ran, self._allow, self._answers(visit, visitor), self._lesson)
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            visit.show_failure(error)
        self._visits[visitor] = visit
        if self._settler:
            visit.share_settling(self._settler, self._partitioner)
        for run in self._runs:
            visit.show_run(run)
        self._tell_view(visitor, visit)

    def _push(self, pushed: Message) -> None:
        if self._session is None:
            return
        sender = RoomPerson(pushed["user_id"], pushed["display"], ProjectRole.EDITOR)
        with suppress(WorkbenchError), self._session.acting(sender):  # the plan of another program is ignored
            plan = parse_plan(pushed["document"], "The plan that was sent", self._allow, self._session.plan.program)
            self._session.push(OpenPlan(plan, pushed["source"]))

    def _answers(self, visit: RoomVisit, visitor: int) -> StudentAnswers | None:
        if self._progress is None:
            return None
        return StudentAnswers(lambda: visit.person, self._progress, lambda record: self.send({"answered": record, "visitor": visitor}))

    def _handle_visitor(self, visitor: int, visit: RoomVisit, message: Message) -> None:
        if message.get("leave"):
            del self._visits[visitor]
            visit.close()
        elif "role" in message:
            visit.person = replace(visit.person, role=ProjectRole(message["role"]))
        elif message.get("again"):
            visit.show_again()
        else:
            start = time.thread_time()
            visit.hear(message)
            self._tell_view(visitor, visit)
            self._note_seconds(time.thread_time() - start)

    def _note_seconds(self, seconds: float) -> None:
        """Lower the process's priority after repeated slow gestures, so that other rooms stay responsive."""
        self._slow_gestures = self._slow_gestures + 1 if seconds > SLOW else 0
        if self._slow_gestures == OFTEN:
            run_when_idle()

    def _tell_view(self, visitor: int, visit: RoomVisit) -> None:
        self.send({"view": visit.view(), "visitor": visitor})

    def _keep(self, record: RoomLogRecord, plan: Plan) -> None:
        """Send a log entry, which the server stores before it passes on later messages."""
        assert self._session is not None
        message = {
            "log": {"seq": self._seq + 1, "kind": record.kind, "author": record.author, "body": record.body},
            "says": self._session.words_of(record),
            "moves": edit.dim if record.kind == "edit" and isinstance(edit := self._session.edit_under_way, ShardDim) else "",
            "digest": digest_of(dump_plan(plan)),
            "conflicts": self._conflicts(record),
        }
        self._seq += 1  # incremented last, because a plan without a document raises
        self.send(message)

    def _conflicts(self, record: RoomLogRecord) -> list[dict[str, Any]]:
        session = self._session
        if session is None or record.kind != "edit" or session.edit_under_way is None:
            return []
        shared = [(recent, common_statements(recent.edit, session.edit_under_way)) for recent in session.unseen_edits()]
        return [
            {"user_id": recent.person.user_id, "edit": str(recent.edit), "statements": sorted(statements)}
            for recent, statements in shared
            if statements
        ]

    def _save(self, visitor: int, plan: Plan) -> str:
        assert self._session is not None
        self._visits[visitor].person.verify(ProjectRole.EDITOR, "add a plan to the gallery")
        self.send({"save": description_record(describe_plan(plan, self._session.report)), "name": plan.name, "visitor": visitor})
        return ""  # the server says in a notice whether it is there

    def _answer(self, name: str, given: Message) -> Message:
        try:
            return {"described": self._answers_of[name](**given)}
        except WorkbenchError as error:
            return {"problem": _problem(error)}
        except Exception as error:  # noqa: BLE001 - the server waits for an answer
            return {"problem": _problem(WorkbenchError(f"The workbench itself failed: {describe_error(error)}"))}

    def _describe(self, document: str) -> dict[str, Any]:
        session = Session(parse_plan(document, "The document", self._allow))
        planned = describe_plan(session.plan, session.report)
        with suppress(WorkbenchError, TimeoutError, CancelledError):
            session.use_partitioned(0, self._partitioner.ask(session.plan, session.plan.hardware).result(MOST_PARTITIONING))
        figures = {**planned.figures, session.report.tier: figures_of(session.report)}
        return description_record(replace(planned, figures=figures))

    def _share_run(self, visit: RoomVisit, run: RunProgress) -> None:
        self._runs = [*self._runs, run][-MOST_RUNS:]
        for other in self._visits.values():
            if other is not visit:
                other.show_run(run)

    def _show_settling(self) -> None:
        for visit in self._visits.values():
            visit.show_settling()


def _problem(error: WorkbenchError) -> Message:
    return {"message": error.message, "ways_out": list(error.ways_out)}


if __name__ == "__main__":
    serve_room(int(sys.argv[1]), allow=tuple(sys.argv[2:]))
