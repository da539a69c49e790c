"""The process of one room: it receives what the people in it do, one JSON object each, and sends what each of them is to be shown.

Incoming:

- `{"room": {"document", "name", "log", "time_limit"}}` first: the plan it began with, and its log, which is replayed; of an assignment also
  the `exercise`, its document and what was tried;
- `{"enter": {"user_id", "display", "role", "participant"}, "visitor": v}` when somebody opens the page, `{"role": r, "visitor": v}` when
  their role is another now, `{"leave": true, "visitor": v}`;
- `{"gesture": {...}, "visitor": v}`, `{"heard": {...}, "visitor": v}`, `{"again": true, "visitor": v}`;
- `{"push": {"document", "source", "user_id", "display"}}`, a plan that somebody sends into the room;
- `{"describe": {"document"}}` or one of `ANSWERS` with its arguments, of a process that has no room: `{"described": {...}}` or
  `{"problem": {...}}` comes back;
- `{"ticket": n, "ahead": jobs}` from the server's queue of compilations, and what happens to jobs (`team.planning.job_runner`).

Outgoing: `{"ready": pid}`; `{"opened": problem}`; `{"log": {...}}`, an entry of the log, always before the first `{"show": target,
"parameters": {...}, "visitor": v}` that follows from it; `{"save": {...}, "visitor": v}`; of an assignment `{"answered": {...}, "visitor":
v}` and `{"card": {...}, "thumbnail": svg}`; `{"note": ...}` for the activity of the room; `{"enter": kind, "ticket": n}` and `{"leave": n}`
to the queue, `{"run": ...}` and `{"cancel": n}` of jobs; `{"done": number}` when a message was handled.
"""

import gc
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
from workbench.plan.edits import OpenPlan
from workbench.plan.plan import Plan
from workbench.session.figure_tiers import Settler
from workbench.session.plan_history import Session
from workbench.team.access import ProjectRole
from workbench.team.planning.baseline_plans import find_baselines, judge_baseline
from workbench.team.planning.broker_client import BrokerClient
from workbench.team.planning.grade_answers import (
    describe_exercise,
    describe_plan,
    description_record,
    figures_of,
    grade_answer,
    parse_exercise,
)
from workbench.team.planning.job_runner import TeamJobs
from workbench.team.planning.room_edit_log import RoomLogRecord, common_statements, replay, replay_room
from workbench.team.planning.room_session import RoomPerson, RoomSession
from workbench.team.planning.room_visit import RoomVisit
from workbench.team.planning.student_answers import StudentAnswers, WorkCard
from workbench.team.store.store import digest_of
from workbench.tracing.jax_backends import force_cpu_backend
from workbench.widgets.exercise.exercise_progress import ExerciseProgress
from workbench.widgets.run.run_progress import RunProgress

MOST_PARTITIONING = 10.0  # seconds that a document's description waits for XLA's partitioner
MOST_RUNS = 8  # finished runs that people who come later see
SLOW, OFTEN = 0.3, 4
"""A room in which so many gestures in a row took so many seconds of the processor each lets all others go first from then on. One alone
says nothing: a tab that is opened for the first time takes as long on any program."""
MEMORY = 4 << 30  # bytes of data a room may allocate; the kernel refuses more, and the process ends

ANSWERS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "exercise": describe_exercise,
    "grade": grade_answer,
    "replay": replay_room,
    "baselines": find_baselines,
    "judge": judge_baseline,
}
"""What is asked of a process that has no room: in the form of the records of `web.team_services`."""


def serve_room(descriptor: int, broker: int | None = None, allow: tuple[str, ...] = ()) -> None:
    """Serve one room, from its opening to the end of the connection; `broker` is a socket on which connections to the process come that
    asks XLA's partitioner for all rooms, and `allow` the modules whose programs its plans may name."""
    force_cpu_backend()
    limit_data(MEMORY)
    with Connection(descriptor) as connection:
        RoomProcess(connection, None if broker is None else BrokerClient(broker), allow).serve()


class RoomProcess(MessageLoop):
    """The event loop of a room. All work on its session happens on the main thread."""

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
        self._card: WorkCard | None = None

    def handle_end(self) -> None:
        for visit in self._visits.values():
            visit.close()

    def handle_at_once(self, message: Message) -> bool:
        """Of the queue of compilations, or of a job."""
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
        elif name := next((each for each in self._answers_of if each in message), ""):
            self.send({**self._answer(name, message[name]), "answers": message["number"]})
        elif "push" in message:
            self._push(message["push"])
        elif (visit := self._visits.get(message.get("visitor", 0))) is not None:
            self._handle_visitor(message["visitor"], visit, message)

    def _open_room(self, room: Message) -> None:
        """Replay the log. A room that cannot be replayed is not opened, and says why."""
        self._time_limit = room["time_limit"]
        try:
            first = parse_plan(room["document"], "The plan of this room", self._allow)
            records = [RoomLogRecord(each["kind"], each["author"], each["body"]) for each in room["log"]]
            self._session = RoomSession.begin(replay(first, records, self._allow), self._keep, self._inbox.put)
            self._seq = len(records)
            self._begin_exercise(room.get("exercise"))
        except WorkbenchError as error:
            self.send({"opened": _problem(error)})
            return
        except Exception as error:  # noqa: BLE001 - whoever waits at the door must be answered
            self.send({"opened": _problem(WorkbenchError(f"The room could not be opened: {describe_error(error)}"))})
            return
        self._settler = Settler(
            self._session, self._partitioner, defer=self._inbox.put, is_idle=self._inbox.empty, on_change=self._show_settling
        )
        gc.collect()
        gc.freeze()  # the plans so far stay: no edit waits for a garbage collection of them
        self.send({"opened": None})

    def _begin_exercise(self, exercise: Message | None) -> None:
        """Of an assignment: what all its boards share, and what the wall shows of it."""
        if exercise is None or self._session is None:
            return
        self._progress = ExerciseProgress(parse_exercise(exercise["document"]))
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
            visit.open(lambda plan: self._save(visitor, plan), partial(self._share_run, visit), self._allow, self._answers(visit, visitor))
        except Exception as error:  # noqa: BLE001 - the page must show it, whatever failed
            visit.show_failure(error)
        self._visits[visitor] = visit
        if self._settler:
            visit.share_settling(self._settler, self._partitioner)
        for run in self._runs:
            visit.show_run(run)
        self._tell_view(visitor, visit)

    def _push(self, pushed: Message) -> None:
        """A plan that was sent into the room, as an edit that all of those who edit here can take back."""
        if self._session is None:
            return
        sender = RoomPerson(pushed["user_id"], pushed["display"], ProjectRole.EDITOR)
        with suppress(WorkbenchError), self._session.acting(sender):  # a plan of another program than this room may have: it stays as it is
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
            begun = time.thread_time()
            visit.hear(message)
            self._tell_view(visitor, visit)
            self._note_seconds(time.thread_time() - begun)

    def _note_seconds(self, seconds: float) -> None:
        """Whoever works on a slow program waits in any case; the people in other rooms should not."""
        self._slow_gestures = self._slow_gestures + 1 if seconds > SLOW else 0
        if self._slow_gestures == OFTEN:
            run_when_idle()

    def _tell_view(self, visitor: int, visit: RoomVisit) -> None:
        """What this person sees now, for the others."""
        self.send({"view": visit.view(), "visitor": visitor})

    def _keep(self, record: RoomLogRecord, plan: Plan) -> None:
        """The server stores the entry before it passes on anything that is sent after it."""
        assert self._session is not None
        message = {
            "log": {"seq": self._seq + 1, "kind": record.kind, "author": record.author, "body": record.body},
            "says": self._session.words_of(record),
            "digest": digest_of(dump_plan(plan)),
            "conflicts": self._conflicts(record),
        }
        self._seq += 1  # not before: a plan without a document raises, and its number is the next one's
        self.send(message)

    def _conflicts(self, record: RoomLogRecord) -> list[dict[str, Any]]:
        """Whose edits of the same statement this edit replaces, without having seen them."""
        session = self._session
        if session is None or record.kind != "edit" or session.edit_under_way is None:
            return []
        shared = [(each, common_statements(each.edit, session.edit_under_way)) for each in session.unseen_edits()]
        return [{"user_id": each.person.user_id, "edit": str(each.edit), "statements": sorted(common)} for each, common in shared if common]

    def _save(self, visitor: int, plan: Plan) -> str:
        assert self._session is not None
        self._visits[visitor].person.verify(ProjectRole.EDITOR, "add a plan to the gallery")
        self.send({"save": description_record(describe_plan(plan, self._session.report)), "name": plan.name, "visitor": visitor})
        return "the gallery"

    def _answer(self, name: str, given: Message) -> Message:
        """What the server asked about a document, or why there is no answer."""
        try:
            return {"described": self._answers_of[name](**given)}
        except WorkbenchError as error:
            return {"problem": _problem(error)}
        except Exception as error:  # noqa: BLE001 - whoever asked must be answered
            return {"problem": _problem(WorkbenchError(f"The workbench itself failed: {describe_error(error)}"))}

    def _describe(self, document: str) -> dict[str, Any]:
        """What the gallery keeps of a document, with the partitioner's figures where it answers in time."""
        session = Session(parse_plan(document, "The document", self._allow))
        planned = describe_plan(session.plan, session.report)
        with suppress(WorkbenchError, TimeoutError, CancelledError):
            session.use_partitioned(0, self._partitioner.ask(session.plan, session.plan.hardware).result(MOST_PARTITIONING))
        figures = {**planned.figures, session.report.tier: figures_of(session.report)}
        return description_record(replace(planned, figures=figures))

    def _share_run(self, visit: RoomVisit, run: RunProgress) -> None:
        """What one person ran all in the room may see, those who come later too."""
        self._runs = [*self._runs, run][-MOST_RUNS:]
        for other in self._visits.values():
            if other is not visit:
                other.show_run(run)

    def _show_settling(self) -> None:
        for visit in self._visits.values():
            visit.show_settling()


def _problem(error: WorkbenchError) -> Message:
    return {"message": error.message, "ways_out": list(error.ways_out)}
