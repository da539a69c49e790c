"""The start panel: the choice of model and machines, and the layouts that fit; one of them opens on the board."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.core.parse_untrusted import MOST_TEXT
from workbench.core.program import Reference
from workbench.documents import program_from_reference
from workbench.documents.program_references import is_allowed, verify_allowed
from workbench.errors import DocumentError, HardwareError, WorkbenchError
from workbench.exercises.lesson_answers import count_questions, count_right, delete_answers
from workbench.hardware.hardware import Hardware
from workbench.models.sizing.cluster_answer import ClusterAnswer
from workbench.models.sizing.cluster_question import read_cluster
from workbench.models.sizing.plan_config import plan_config
from workbench.plan.edits import OpenPlan
from workbench.public_plan import Plan as PublicPlan
from workbench.public_plan import as_public
from workbench.session.plan_history import Session
from workbench.widgets.board.board_host import Host
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.gestures.panel_gestures import (
    ChooseMachinesGesture,
    ChooseModelGesture,
    ForgetLessonsGesture,
    NewPlanGesture,
    OpenLayoutGesture,
    StartFileGesture,
    StopStartGesture,
)
from workbench.widgets.glossary.lessons import COURSES, LESSONS, docs_address, lesson_link
from workbench.widgets.run.calibration import Calibration
from workbench.widgets.shared_states import Defer
from workbench.widgets.start.model_choices import (
    FolderFunction,
    ModelChoice,
    configs_in_folder,
    find_choice,
    functions_in_folder,
    functions_of_allowed,
    model_abouts,
    read_start_file,
    zoo_cards,
)
from workbench.widgets.start.start_answer import ProgramLayouts, RecipeAnswer, SizedAnswer, StartAnswer
from workbench.widgets.start.timed_work import TimedWork, WorkTicket

ATTACHED = "attached"
MACHINES = ("8 H100", "64 H100", "TPU v5p 4x4x4", "v5e-256", "8 RTX 4090")
PLANNED_FOR = 2.0  # time limit for planning layouts in seconds, as in `workbench plan`


@dataclass(frozen=True, slots=True)
class Machines:
    """The cluster as typed, and the input of a step; empty texts mean the model's defaults."""

    on: str = ""
    batch: str = ""
    seq: str = ""
    total: str = ""
    decode: bool = False


class StartPanel:
    """The start panel of one board. `defer` moves work to the board's event loop, `show()` publishes the panel."""

    def __init__(self, session: Session, host: Host, calibration: Calibration, defer: Defer, show: Callable[[], None]) -> None:
        self._session, self._host, self._calibration = session, host, calibration
        self._work: TimedWork[Any] = TimedWork(defer, show)
        self.is_open = host.starts and host.start_open
        self._model: ModelChoice | None = None
        self._machines = Machines()
        self._answer: StartAnswer | None = None
        self._problem: WorkbenchError | None = None
        self._in_folder: tuple[tuple[FolderFunction, ...], tuple[ModelChoice, ...]] | None = None
        self.recent: Sequence[Mapping[str, str]] = ()

    def handlers(self) -> Handlers:
        return handlers_of(
            on(NewPlanGesture, self._open),
            on(ChooseModelGesture, self._choose_model),
            on(StartFileGesture, self._read_file),
            on(ChooseMachinesGesture, self._choose_machines),
            on(OpenLayoutGesture, self._open_layout),
            on(StopStartGesture, lambda _: self._stop()),
            on(ForgetLessonsGesture, lambda _: self._forget_lessons()),
        )

    def close(self) -> None:
        self._work.stop()

    def follow_calibration(self) -> None:
        """Answer a question about the attached devices once they are measured, or report why that failed."""
        if not self.is_open or not self._asks_attached or self._answer is not None or self._work.is_running or self._calibration.stage:
            return
        if self._calibration.kept() is not None:
            self._ask()
        elif self._calibration.problem:
            self._problem = HardwareError(self._calibration.problem, ["choose other machines"])

    def state(self) -> dict[str, Any] | None:
        """Return the panel as JSON, with its choices while it is open; `None` if the board has no panel."""
        if not self._host.starts:
            return None
        if not self.is_open:
            return {"open": False}
        model, problem = self._model, self._problem
        functions, configs = self._list_folder()
        measuring = self._calibration.stage if self._asks_attached else ""
        return {
            "open": True,
            "model": model and {"key": model.key, "title": model.title, "about": model.about, "sized": model.sized is not None},
            "on": self._machines.on,
            "batch": self._machines.batch,
            "tokens": self._machines.seq,
            "total": self._machines.total,
            "decode": self._machines.decode,
            "machines": list(MACHINES),
            "attached": self._calibration.is_offered,
            "work": self._work.state() or ({"phase": f"Measuring this machine: {measuring}", "seconds": 0} if measuring else None),
            "answer": self._answer and self._answer.state(),
            "problem": problem and {"message": problem.message, "ways_out": list(problem.ways_out)},
            "missing": self._missing(),
            "zoo": list(zoo_cards()),
            "abouts": dict(model_abouts()),
            "functions": [self._function_state(function) for function in functions],
            "configs": [{"key": config.key, "about": config.about.partition(", from ")[0]} for config in configs],
            "recent": list(self.recent),
            "lessons": lesson_states(opens=self._host.opens_lessons),
            "only_lessons": self._host.only_lessons,
        }

    @property
    def _asks_attached(self) -> bool:
        return self._machines.on.strip().casefold() == ATTACHED

    def _missing(self) -> str:
        """What a question still needs: a model or machines."""
        if self._model is None:
            return "Now choose a model." if self._machines.on else ""
        return "" if self._machines.on else "Now choose machines."

    def _list_folder(self) -> tuple[tuple[FolderFunction, ...], tuple[ModelChoice, ...]]:
        """The functions and `config.json` models of the folder."""
        if self._in_folder is None:
            folder, allowed = self._host.folder, functions_of_allowed(self._host.allow)
            listed = functions_in_folder(folder) if folder is not None else ()
            configs = tuple(configs_in_folder(folder)) if folder is not None else ()
            self._in_folder = tuple(dict.fromkeys((*allowed, *listed))), configs
        return self._in_folder

    def _function_state(self, function: FolderFunction) -> dict[str, Any]:
        allowed = is_allowed(Reference(function.target), self._host.allow)
        command = f"workbench serve --allow {function.module.partition('.')[0]}"
        return {
            "key": function.target,
            "builder": function.is_builder,
            "allowed": allowed,
            "command": "" if allowed else command,
            "lines": function.lines,
        }

    def _verify(self) -> None:
        if not self._host.starts:
            raise WorkbenchError("This board cannot start other plans.", ["open a board of your own"])

    def _stop(self) -> None:
        self._work.stop()
        if self._asks_attached:
            self._calibration.cancel()

    def _forget_lessons(self) -> None:
        self._verify()
        if self._host.opens_lessons:
            delete_answers()

    def _open(self, gesture: NewPlanGesture) -> None:
        self._verify()
        if gesture.open and not self.is_open:
            self._in_folder = None  # the files may have changed
        if not gesture.open:
            self._work.stop()
        self.is_open = gesture.open

    def _choose_model(self, gesture: ChooseModelGesture) -> None:
        self._verify()
        functions, configs = self._list_folder()
        config = next((config for config in configs if config.key == gesture.model), None)
        self._use_model(config or (find_choice(gesture.model, functions, self._host.allow) if gesture.model else None))

    def _read_file(self, gesture: StartFileGesture) -> None:
        self._verify()
        if gesture.text is None or len(gesture.text) > MOST_TEXT:
            raise DocumentError(f"`{gesture.name[:80]}` is too large.", ["choose a `config.json` or a plan file"])
        choice = read_start_file(gesture.name, gesture.text, self._host.allow)
        if isinstance(choice, ModelChoice):
            self._use_model(choice)
        else:
            self._work.stop()
            self._apply(OpenPlan(as_public(choice), gesture.name))

    def _use_model(self, model: ModelChoice | None) -> None:
        self._model = model
        self._ask()

    def _choose_machines(self, gesture: ChooseMachinesGesture) -> None:
        self._verify()
        on, batch, seq, total = (text.strip() for text in (gesture.on, gesture.batch, gesture.tokens, gesture.total))
        self._machines = Machines(on, batch, seq, total, gesture.decode)
        self._ask()

    def _ask(self) -> None:
        self._work.stop()
        self._answer, self._problem = None, None
        if self._model is None or not self._machines.on:
            return
        hardware = self._hardware()
        if hardware is None:
            return
        answer = self._answer_sized if self._model.sized is not None else self._answer_by_recipes
        work = partial(answer, self._model, hardware, self._machines)
        self._work.start(f"Sizing {self._model.title} for {hardware}", work, self._use_answer, self._use_problem)

    def _hardware(self) -> Hardware | None:
        """Return the cluster, `None` while the attached devices are measured. Raises `HardwareError`."""
        if not self._asks_attached:
            return read_cluster(self._machines.on)
        if not self._calibration.is_offered:
            raise HardwareError("No devices are attached to this board.", ['write the hardware to plan for, "8 H100"'])
        hardware = self._calibration.kept()
        if hardware is None:
            self._calibration.start()
        return hardware

    def _answer_sized(self, model: ModelChoice, hardware: Hardware, machines: Machines, ticket: WorkTicket) -> SizedAnswer:
        def follow(answer: ClusterAnswer) -> None:
            planned = f", {answer.planned:,} planned" if answer.planned else ""
            ticket.report(f"Comparing {answer.outlined:,} layouts of {model.title}{planned}")
            self._work.tell(ticket, lambda: self._use_answer(SizedAnswer(answer)))

        assert model.sized is not None  # this function was chosen for sized models
        answer = plan_config(
            model.sized,
            hardware,
            batch=machines.batch or None,
            seq=machines.seq or None,
            tokens=machines.total or None,
            inference=machines.decode,
            seconds=PLANNED_FOR,
            on_progress=follow,
            plan_class=PublicPlan,
        )
        ticket.report("Collecting what was assumed")
        return SizedAnswer.complete(answer)

    def _answer_by_recipes(self, model: ModelChoice, hardware: Hardware, _: Machines, ticket: WorkTicket) -> RecipeAnswer:
        assert model.reference is not None  # a model without an architecture has a reference
        verify_allowed(model.reference, "The choice", self._host.allow)
        ticket.report(f"Tracing {model.title}")
        program = program_from_reference(model.reference)
        return RecipeAnswer.of(ProgramLayouts(program, model.title, hardware, ticket.report))

    def _use_answer(self, answer: StartAnswer) -> None:
        self._answer = answer

    def _use_problem(self, problem: WorkbenchError) -> None:
        self._problem = problem

    def _open_layout(self, gesture: OpenLayoutGesture) -> None:
        self._verify()
        answer = self._answer
        if answer is None:
            raise WorkbenchError("There is no answer yet, so no layout to open.", ["choose a model and machines first"])
        title, self._problem = self._model.title if self._model else "", None

        def prepare(ticket: WorkTicket) -> OpenPlan:
            plan = answer.plan(gesture.goal)
            ticket.report(f"Analysing {title}")
            edit = OpenPlan(plan.updated(hardware=None) if self._asks_attached else plan, f"{title}, {gesture.goal}")
            self._session.foresee(edit)
            return edit

        self._work.start(f"Planning {title}, {gesture.goal}", prepare, self._apply, self._use_problem)

    def _apply(self, edit: OpenPlan) -> None:
        try:
            self._session.apply(edit)
        except WorkbenchError as error:
            self._problem = error
            return
        self.is_open = False
        if self._asks_attached:
            self._calibration.use_kept()


def lesson_states(*, opens: bool) -> list[dict[str, Any]]:
    """List the lessons by course, with addresses if the documentation site is known."""

    def lesson(name: str) -> dict[str, Any]:
        if opens:
            return {**lesson_link(name), "right": count_right(name), "questions": count_questions(name)}
        link = f"{docs_address()}/lessons/{name}/lesson.html" if docs_address() else ""
        return {"title": LESSONS[name], "link": link, "right": 0, "questions": 0}

    return [{"course": course, "lessons": [lesson(name) for name in lessons]} for course, lessons in COURSES.items()]
