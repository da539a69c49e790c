"""The start panel: what is sharded, on which machines, and the layouts that fit; one of them opens on the board."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.core.parse_untrusted import MOST_TEXT
from workbench.core.program import Reference
from workbench.documents import program_from_reference
from workbench.documents.program_references import is_allowed, verify_allowed
from workbench.errors import DocumentError, HardwareError, WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.models.sizing.cluster_answer import ClusterAnswer
from workbench.models.sizing.cluster_question import read_cluster
from workbench.models.sizing.plan_config import plan_config
from workbench.plan.edits import OpenPlan
from workbench.public_plan import Plan as PublicPlan
from workbench.public_plan import as_public
from workbench.session.plan_history import Session
from workbench.widgets.board.board_host import Host
from workbench.widgets.gestures.gesture import Handlers, on
from workbench.widgets.gestures.start_gestures import (
    ChooseMachinesGesture,
    ChooseModelGesture,
    NewPlanGesture,
    OpenLayoutGesture,
    StartFileGesture,
    StopStartGesture,
)
from workbench.widgets.glossary.lessons import COURSES, docs_address
from workbench.widgets.run.calibration import Calibration
from workbench.widgets.shared_states import Defer
from workbench.widgets.start.folder_functions import FolderFunction, functions_in_folder, functions_of_allowed
from workbench.widgets.start.model_choices import ModelChoice, find_choice, model_abouts, read_start_file, zoo_cards
from workbench.widgets.start.program_layouts import ProgramLayouts
from workbench.widgets.start.start_answer import RecipeAnswer, SizedAnswer, StartAnswer
from workbench.widgets.start.timed_work import TimedWork, WorkTicket

ATTACHED = "attached"
MACHINES = ("8 H100", "64 H100", "TPU v5p 4x4x4", "v5e-256", "8 RTX 4090")
PLANNED_FOR = 2.0  # seconds in which layouts are planned, as by `workbench plan`


@dataclass(frozen=True, slots=True)
class Machines:
    """The second choice: a cluster as a person writes it, and what a step is given; empty texts are the model's own."""

    on: str = ""
    batch: str = ""
    seq: str = ""
    decode: bool = False


class StartPanel:
    """The start panel of one board. `defer` moves work to the board's event loop, `show()` publishes it."""

    def __init__(self, session: Session, host: Host, calibration: Calibration, defer: Defer, show: Callable[[], None]) -> None:
        self._session, self._host, self._calibration = session, host, calibration
        self._work: TimedWork[Any] = TimedWork(defer, show)
        self.is_open = host.starts and host.start_open
        self._model: ModelChoice | None = None
        self._machines = Machines()
        self._answer: StartAnswer | None = None
        self._problem: WorkbenchError | None = None
        self._functions: tuple[FolderFunction, ...] | None = None
        self.recent: Sequence[Mapping[str, str]] = ()

    def handlers(self) -> Handlers:
        """Its handlers; they raise `WorkbenchError` for what cannot be chosen."""
        return dict(
            [
                on(NewPlanGesture, self._open),
                on(ChooseModelGesture, self._choose_model),
                on(StartFileGesture, self._read_file),
                on(ChooseMachinesGesture, self._choose_machines),
                on(OpenLayoutGesture, self._open_layout),
                on(StopStartGesture, lambda _: self._stop()),
            ]
        )

    def close(self) -> None:
        """Nobody waits any more."""
        self._work.stop()

    def follow_calibration(self) -> None:
        """The attached devices may be known now: answer what was asked about them, or say why they could not be measured."""
        if not self.is_open or not self._asks_attached or self._answer is not None or self._work.is_running or self._calibration.stage:
            return
        if self._calibration.kept() is not None:
            self._ask()
        elif self._calibration.problem:
            self._problem = HardwareError(self._calibration.problem, ["choose other machines"])

    def state(self) -> dict[str, Any] | None:
        """The panel as JSON; `None` where the board has none. What can be chosen is sent while it is open."""
        if not self._host.starts:
            return None
        if not self.is_open:
            return {"open": False}
        model, problem = self._model, self._problem
        measuring = self._calibration.stage if self._asks_attached else ""
        return {
            "open": True,
            "model": model and {"key": model.key, "title": model.title, "about": model.about, "sized": model.sized is not None},
            "on": self._machines.on,
            "batch": self._machines.batch,
            "tokens": self._machines.seq,
            "decode": self._machines.decode,
            "machines": list(MACHINES),
            "attached": self._calibration.is_offered,
            "work": self._work.state() or ({"phase": f"Measuring this machine: {measuring}", "seconds": 0} if measuring else None),
            "answer": self._answer and self._answer.state(),
            "problem": problem and {"message": problem.message, "ways_out": list(problem.ways_out)},
            "zoo": list(zoo_cards()),
            "abouts": dict(model_abouts()),
            "functions": [self._function_state(each) for each in self._known_functions()],
            "recent": list(self.recent),
            "lessons": lesson_states(),
        }

    @property
    def _asks_attached(self) -> bool:
        return self._machines.on.strip().casefold() == ATTACHED

    def _known_functions(self) -> tuple[FolderFunction, ...]:
        """Those of the folder that this page may list, and of the modules that files may name."""
        if self._functions is None:
            folder, allowed = self._host.folder, functions_of_allowed(self._host.allow)
            listed = functions_in_folder(folder) if folder is not None else ()
            self._functions = tuple(dict.fromkeys((*allowed, *listed)))
        return self._functions

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
            raise WorkbenchError("This board begins no other plans.", ["open a board of your own"])

    def _stop(self) -> None:
        """Wait for nothing any more: neither for an answer nor for the measurement of the devices that it needs."""
        self._work.stop()
        if self._asks_attached:
            self._calibration.cancel()

    def _open(self, gesture: NewPlanGesture) -> None:
        self._verify()
        if gesture.open and not self.is_open:
            self._functions = None  # the files may have changed
        if not gesture.open:
            self._work.stop()
        self.is_open = gesture.open

    def _choose_model(self, gesture: ChooseModelGesture) -> None:
        self._verify()
        self._use_model(find_choice(gesture.model, self._known_functions(), self._host.allow) if gesture.model else None)

    def _read_file(self, gesture: StartFileGesture) -> None:
        self._verify()
        if gesture.text is None or len(gesture.text) > MOST_TEXT:
            raise DocumentError(f"`{gesture.name[:80]}` is too large.", ["choose a `config.json` or a plan file"])
        found = read_start_file(gesture.name, gesture.text, self._host.allow)
        if isinstance(found, ModelChoice):
            self._use_model(found)
        else:
            self._work.stop()
            self._apply(OpenPlan(as_public(found), gesture.name))

    def _use_model(self, model: ModelChoice | None) -> None:
        self._model = model
        self._ask()

    def _choose_machines(self, gesture: ChooseMachinesGesture) -> None:
        self._verify()
        self._machines = Machines(gesture.on.strip(), gesture.batch.strip(), gesture.tokens.strip(), gesture.decode)
        self._ask()

    def _ask(self) -> None:
        """Answer both choices, once they are made."""
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
        """The cluster; `None` while the attached devices are measured. Raises `HardwareError`."""
        if not self._asks_attached:
            return read_cluster(self._machines.on)
        if not self._calibration.is_offered:
            raise HardwareError("No devices are attached to this board.", ['write what you plan for, "8 H100"'])
        kept = self._calibration.kept()
        if kept is None:
            self._calibration.start()
        return kept

    def _answer_sized(self, model: ModelChoice, hardware: Hardware, machines: Machines, ticket: WorkTicket) -> SizedAnswer:
        def follow(answer: ClusterAnswer) -> None:
            planned = f", {answer.planned:,} planned" if answer.planned else ""
            ticket.report(f"Comparing {answer.outlined:,} layouts of {model.title}{planned}")
            self._work.tell(ticket, lambda: self._use_answer(SizedAnswer(answer)))

        assert model.sized is not None  # it was chosen by that
        answer = plan_config(
            model.sized,
            hardware,
            batch=machines.batch or None,
            seq=machines.seq or None,
            inference=machines.decode,
            seconds=PLANNED_FOR,
            on_progress=follow,
            plan_class=PublicPlan,
        )
        ticket.report("Collecting what was assumed")
        return SizedAnswer.complete(answer)

    def _answer_by_recipes(self, model: ModelChoice, hardware: Hardware, _: Machines, ticket: WorkTicket) -> RecipeAnswer:
        assert model.reference is not None  # it has no architecture
        verify_allowed(model.reference, "The choice", self._host.allow)
        ticket.report(f"Tracing {model.title}")
        program = program_from_reference(model.reference)
        return RecipeAnswer.of(ProgramLayouts(program, model.title, hardware, ticket.report))

    def _use_answer(self, answer: StartAnswer) -> None:
        self._answer = answer

    def _use_problem(self, problem: WorkbenchError) -> None:
        self._problem = problem

    def _open_layout(self, gesture: OpenLayoutGesture) -> None:
        """Open a row on the board: what has to be traced and analysed first, a thread does."""
        self._verify()
        answer = self._answer
        if answer is None:
            raise WorkbenchError("There is no answer yet to open a layout of.", ["choose a model and machines first"])
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


def lesson_states() -> list[dict[str, Any]]:
    """The lessons by course, each with its address where the documentation site is known."""
    at = docs_address()
    return [
        {
            "course": course,
            "lessons": [{"title": title, "link": f"{at}/lessons/{name}/lesson.html" if at else ""} for name, title in lessons.items()],
        }
        for course, lessons in COURSES.items()
    ]
