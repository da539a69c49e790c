"""A board over a session: answers gestures, and publishes what is to be seen. It knows no notebook and no web page."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from workbench.core.error_text import failure_words
from workbench.errors import WorkbenchError
from workbench.plan.edits import Constrain, Edit, Override, SetAxisAssignment, SetHardware, SetPipeline, ShardDim
from workbench.plan.mesh_edits import ResizeAxis
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.pipeline import PipelineReport
from workbench.reports.report import Report
from workbench.session.session import Session
from workbench.session.settling import Partitioner, Settler, changes_figures, is_settled
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.comparison_state import ComparisonState, comparison_state
from workbench.widgets.board.drag import taken
from workbench.widgets.board.figure import Figure
from workbench.widgets.board.figures import figures
from workbench.widgets.board.files import VERBS as FILE_VERBS
from workbench.widgets.board.files import Files
from workbench.widgets.board.gestures import Gesture, asked_hardware, edit_of, verify_gesture, zone_of
from workbench.widgets.board.host import Host
from workbench.widgets.board.recipes import VERBS as RECIPE_VERBS
from workbench.widgets.board.recipes import RecipesPanel
from workbench.widgets.board.state import Refusal, axis_colours, board_state
from workbench.widgets.pipeline.edits import tried
from workbench.widgets.run.jobs import Defer, Ended, Jobs
from workbench.widgets.run.resting import RestingCompiler
from workbench.widgets.run.runner import Runner
from workbench.widgets.tabs.blocks import Paint
from workbench.widgets.tabs.history import VERBS as HISTORY_VERBS
from workbench.widgets.tabs.history import HistoryPanel
from workbench.widgets.tabs.pictures import VIEW_VERBS, Views
from workbench.widgets.tabs.propagation import REPLAY_VERBS, Replay, suggested
from workbench.widgets.tabs.resharding import try_edits
from workbench.widgets.tabs.tabs import Facts, failed_state, table_state
from workbench.widgets.tabs.why import why

Part = Literal["board", "table", "live"]
MOST_PATH = 1000  # characters of a path that a gesture may name
IN_HAND = 1.0  # seconds for which a hand that rests over a zone is expected to let go
FORESEEN_WITHIN = 0.1  # seconds that a report may take to be made before it is asked for
Publish = Callable[[Part, dict[str, Any]], None]

_log = logging.getLogger(__name__)


def at_once(work: Callable[[], None]) -> None:
    """Defer nothing."""
    work()


class Board:
    """One view on one session.

    `publish(part, state)` shows a part; `defer(work)` carries work from the runner's thread onto the host's own loop.
    A gesture is answered with a new `board` state that names it; a refused edit is part of that state and changes nothing else.
    `selected` is the path of the argument, value or collective that every view marks; empty for none.
    """

    def __init__(
        self, session: Session, publish: Publish, *, runner: Runner | None = None, defer: Defer = at_once, host: Host | None = None
    ) -> None:
        self.session, self._host = session, host or Host()
        self._history, self._files = HistoryPanel(session), Files(session, self._host)
        self._recipes = RecipesPanel(session)
        self._publish = publish
        self._tab, self._search = "tensors", ""
        self.selected = ""
        self._refusal: Refusal | None = None
        self._toggled: frozenset[str] = frozenset()
        self._views, self._replay = Views(), Replay()
        self._background = BackgroundQueries(self._later, lambda: self._show("table"))
        self._taken: dict[str, Any] | None = None
        self._trial: PipelineReport | None = None
        self._why = ""
        self._answer: dict[str, Any] = {"view": "", "seq": 0}
        self._lock, self._answering = threading.RLock(), False
        self._defer, self._revision = defer, 0
        self._done: dict[str, int] = {}  # the last gesture of each view: one that is told again is not done again
        self._owed: set[Part] = set()
        self._jobs = Jobs(runner, self._later, self._working)
        self._comparison_state: ComparisonState | None = None
        self._now: tuple[Figure, ...] = ()
        self._by_tier: dict[str, tuple[Figure, ...]] = {}  # of the present plan
        self._before: dict[str, tuple[Figure, ...]] = {}  # of the plan before: what an edit changed is told within a tier, if it was there
        self._settler: Settler | None = None
        self._resting: RestingCompiler | None = None
        self._free_at = 0.0  # when no hand holds a chip any more, as far as is known
        self._know()
        self._seen = session.report
        self._stop_listening = session.listen(self._moved)
        self._show("board", "table", "live")

    @property
    def measurement(self) -> Measurement | None:
        """What the last finished run measured."""
        ran = self._jobs.live.ran
        return ran[0].measurement if ran else None

    @property
    def compiled(self) -> Compiled | None:
        """What the last finished compilation found."""
        found = self._jobs.compiling.found
        return found[0].compiled if found else None

    def answer(self, gesture: Gesture) -> None:
        """Do what a hand asked for, or say why not."""
        with self._lock:
            self._free_at = time.monotonic() + IN_HAND if gesture.get("ahead") or gesture.get("verb") == "take" else 0.0
            if gesture.get("ahead"):
                self._foresee(gesture)
                return
            asked = {"view": str(gesture.get("view", ""))[:40], "seq": gesture.get("seq", 0)}
            if gesture.get("verb") == "refresh" or (gesture.get("again") and self._done.get(asked["view"]) == asked["seq"]):
                self._tell_again(asked)
                return
            self._done[asked["view"]] = asked["seq"]
            self._refusal, self._taken, self._trial, self._answering = None, None, None, True
            self._files.forget()
            self._answer = asked
            try:
                verify_gesture(gesture)
                self._handle(gesture)
            except WorkbenchError as error:
                self._refusal = Refusal(error, zone_of(gesture), asked_hardware(gesture))
            except Exception as error:  # noqa: BLE001 - the page must answer, whatever broke
                _log.exception("The gesture %r failed", dict(gesture))
                failure = WorkbenchError(f"The workbench itself failed: {failure_words(error)}")
                self._refusal = Refusal(failure, zone_of(gesture), asked_hardware(gesture))
            except KeyboardInterrupt:  # of the kernel: the hand that waits for the answer must have one
                self._refusal = Refusal(WorkbenchError("It was interrupted before it was done."), zone_of(gesture))
                raise
            finally:
                self._answering = False
                self._show("board")
                self._later(self._show_owed)

    def _foresee(self, gesture: Gesture) -> None:
        """Work out what a drop would do while the hand still holds the chip: silently, and only where that takes no time, as the hand may
        do something else. What is wrong with it is said when it is done. What compiles starts while the hand is over the button."""
        if gesture.get("verb") == "compile":
            self._jobs.expect_compilation(self.session.plan)
            return
        if self.session.seconds > FORESEEN_WITHIN or self.session.plan.pipeline is not None:
            return
        try:
            verify_gesture(gesture)
            figures(self.session.foresee(edit_of(gesture, self.session.plan, self.session.report)))
        except WorkbenchError:
            pass
        except Exception:  # noqa: BLE001 - nobody asked yet
            _log.exception("What %r would do is not known", dict(gesture))

    def _tell_again(self, asked: dict[str, Any]) -> None:
        """The page lacks what it was told, as a host may lose a message: it is told anew what stands, and nothing is done twice."""
        self._answer, self._revision = asked, self._revision + 1
        self._show("board", "table", "live")

    def begin_settling(self, partitioner: Partitioner, defer: Defer, is_idle: Callable[[], bool] = lambda: True) -> None:
        """From now on the figures of each plan settle to what XLA's partitioner says of it; once or more.

        `defer(work)` carries work onto the host's loop, behind what is being done there; `is_idle()` says whether a gesture waits there.
        """
        if self._settler is None:
            free = lambda: is_idle() and time.monotonic() >= self._free_at  # noqa: E731
            self._settler = Settler(
                self.session, partitioner, defer=self._locking(defer), is_idle=free, on_change=lambda: self._show("board")
            )
            self._show("board")

    def begin_compiling(self, defer: Defer) -> None:
        """From now on a plan that stands for a moment is compiled for its hardware while the machine is idle (`RestingCompiler`); once or
        more. `defer(work)` as in `begin_settling`."""
        if self._resting is None:
            self._resting = RestingCompiler(self.session, self._jobs, defer=self._locking(defer))
            self._show("live")

    def close(self) -> None:
        """Stop listening, and what runs or is compiled: nobody watches any more."""
        self._stop_listening()
        if self._settler:
            self._settler.close()
        if self._resting:
            self._resting.close()
        self._jobs.cancel_run()
        self._jobs.cancel_compilation()

    def state(self) -> dict[str, Any]:
        """The present `board` state."""
        before = self._before.get(self.session.report.tier) or next(iter(self._before.values()), ())
        shown = board_state(
            self.session,
            now=self._now,
            before=before,
            refusal=self._refusal,
            tab=self._tab,
            comparison_state=self._comparison_state,
            settling_state=self._settler.settling_state if self._settler else None,
        )
        about = {"answer": self._answer, "told": self._revision, "follows": "table" in self._owed}
        return {**shown, "selected": self.selected, "taken": self._taken, **self._beside(), **about}

    def _beside(self) -> dict[str, Any]:
        """What stands beside the plan: its history, and files."""
        return {"history": self._history.state(), "files": self._files.state()}

    def _handle(self, gesture: Gesture) -> None:
        verb = gesture.get("verb")
        if verb == "undo":
            self.session.undo()
        elif verb == "redo":
            self.session.redo()
        elif verb == "open":
            self._open(str(gesture.get("tab", "tensors")), str(gesture.get("search", ""))[:200])
        elif verb == "select":
            self._select(str(gesture.get("path", ""))[:MOST_PATH])
        elif verb == "fold":
            self._toggled ^= {str(gesture.get("key", ""))[:MOST_PATH]}
            self._show("table")
        elif verb == "why":
            self._why = str(gesture.get("of", ""))[:MOST_PATH]
            self._show("table")
        elif verb in REPLAY_VERBS:
            self._replay = self._replay.after(gesture, self.session.plan)
            self._show("table")
        elif verb == "decide":
            self._apply(suggested(gesture, self.session.report.prediction, self._background))
        elif verb in VIEW_VERBS:
            self._views = self._views.after(gesture, self.session.report.prediction)
            self._show("table")
        elif verb == "take":
            self._taken = taken(gesture, self.session.plan, self.session.report)
        elif verb in RECIPE_VERBS:
            self._recipes.handle(gesture)
            self._show("table")
        elif verb == "try_edits":
            try_edits(gesture, self.session.report.prediction, self._background)
            self._show("table")
        elif verb in HISTORY_VERBS:
            self._history.handle(gesture)
        elif verb in FILE_VERBS:
            self._files.handle(gesture)
        elif verb == "try_boundary":
            self._trial = tried(gesture, self.session.plan, self.session.report)
            self._show("table")
        elif verb == "run":
            self._jobs.run(self.session.report.prediction, str(gesture.get("steps", "")), axis_colours(self.session.plan))
        elif verb == "cancel":
            self._jobs.cancel_run()
        elif verb == "compile":
            self._jobs.compile(self.session.report.prediction)
        elif verb == "cancel_compilation":
            self._jobs.cancel_compilation()
        elif verb == "compile_at_rest":
            self._compile_at_rest(is_on=gesture.get("on") is True)
        elif verb != "dismiss":
            self._apply(edit_of(gesture, self.session.plan, self.session.report))

    def _apply(self, edit: Edit) -> None:
        """An edit that changes nothing leaves no trace in the history."""
        plan = self.session.plan
        placed = isinstance(edit, ShardDim) and edit.axes == plan.layout.rule(edit.dim)
        sized = isinstance(edit, ResizeAxis) and (edit.axis, edit.size) in plan.mesh.axes
        equipped = isinstance(edit, SetHardware) and edit.hardware == plan.hardware
        assigned = isinstance(edit, SetAxisAssignment) and edit.axis_assignment == plan.axis_assignment
        piped = isinstance(edit, SetPipeline) and edit.pipeline == plan.pipeline
        owned = isinstance(edit, Override | Constrain) and edit.apply(plan).layout == plan.layout
        if not (placed or sized or equipped or assigned or piped or owned):
            self.session.apply(edit)

    def _open(self, tab: str, search: str) -> None:
        self._tab, self._search = tab, search
        self._show("table")

    def _compile_at_rest(self, *, is_on: bool) -> None:
        if self._resting is not None:
            self._resting.turn(is_on=is_on)
            self._show("live")

    def _select(self, path: str) -> None:
        """Views may show more of what is selected; selecting it again lets it go."""
        self.selected = "" if path == self.selected else path
        self._show("table")

    def _later(self, work: Callable[[], None]) -> None:
        self._locking(self._defer)(work)

    def _locking(self, defer: Defer) -> Defer:
        """`defer` for work that is done with the board's lock held."""
        return lambda work: defer(lambda: self._locked(work))

    def _locked(self, work: Callable[[], None]) -> None:
        with self._lock:
            work()

    def _working(self, ended: Ended) -> None:
        """Something is new of the run or the compilation."""
        if ended == "compilation":
            self._settle_compiled()
        if ended:
            self._know()
            self._calibrate(self._jobs.live.measurement if ended == "run" else None)
            self._show("board", "table")
        self._show("live")

    def _settle_compiled(self) -> None:
        """What was found for the present plan is its memory and kernel times from now on."""
        if (found := self._jobs.compiling.of(self.session.plan)) is not None and self.session.plan.hardware is not None:
            self.session.settle_compiled(self.session.node.number, found.compiled)

    def _calibrate(self, measured: Measurement | None) -> None:
        """A run calibrates the devices: from then on step times are predicted for them, unless the plan names others."""
        if measured and measured.hardware and self.session.plan.hardware is None:
            self.session.use_hardware(measured.hardware)

    def _know(self) -> None:
        """Set the present report against what was compiled and measured."""
        report, live = self.session.report, self._jobs.live
        self._comparison_state = comparison_state(report, self._jobs.compiling, live, self._comparison_state)
        ran, own = live.shown(report.plan), live.of(report.plan)
        self._now = self._by_tier[report.tier] = figures(
            report, self._comparison_state, ran.measurement if ran else None, stale=own is None
        )

    def _moved(self, plan: Plan, report: Report) -> None:
        with self._lock:
            if is_settled(self._seen, report):
                self._show_settled(report)
            elif report is not self._seen:  # else a plan of the history was named or pinned
                self._before, self._by_tier, self._seen = self._by_tier, {}, report
                self._know()
                self._show("table", "live")
                self._host.changed(plan)
                if not report.is_compiled and self._jobs.compiling.of(plan) is not None:
                    self._later(self._settle_compiled)
            if not self._answering:  # the answer shows the board once, at its end
                self._show("board")

    def _show_settled(self, report: Report) -> None:
        """The same plan in figures of another tier: the tables follow the board, if anything in them is another."""
        changed, self._seen = changes_figures(self._seen, report), report
        self._know()
        if changed or self._tab == "communication":
            self._owed |= {"table", "live"}
            self._later(self._show_owed)

    def _show_owed(self) -> None:
        """Show what the last answers left for later: the hand waits for the board, and for the tables after it."""
        owed, self._owed = self._owed, set()
        self._show(*sorted(owed))

    def _show(self, *parts: Part) -> None:
        for part in parts:
            if self._answering:
                self._owed |= {part} - {"board"}  # the answer shows the board, at its end
            elif part == "board":
                self._publish("board", self.state())
            elif part == "table":
                self._publish("table", self._table())
            else:
                live = self._jobs.state(self.session.plan, self._comparison_state)
                self._publish("live", {**live, "at_rest": self._resting and self._resting.state(), "told": self._revision})

    def _table(self) -> dict[str, Any]:
        report, live = self.session.report, self._jobs.live
        ran = live.of(report.plan)
        trace = ran.measurement.trace if ran and ran.measurement else None
        tasks = ran.measurement.tasks if ran and ran.measurement else ()
        opened = (self._toggled, self._views, self._replay, self._background)
        facts = Facts(
            report, self._comparison_state, trace, axis_colours(report.plan), self.selected, *opened, tasks=tasks, trial=self._trial
        )
        try:
            shown = table_state(facts, self._tab, self._search)
        except Exception as error:  # noqa: BLE001 - a view that fails is a message in its place
            _log.exception("The view %r failed", self._tab)
            shown = failed_state(self._tab, error)
        recipes = self._recipes.state(facts.colours)
        return {**shown, "why": self._because(Paint(facts.colours)), "recipes": recipes, "seq": self._answer["seq"], "told": self._revision}

    def _because(self, paint: Paint) -> dict[str, Any] | None:
        """The answer to what was asked last, told anew of each plan."""
        if not self._why:
            return None
        report = self.session.report.prediction
        ran = self._jobs.live.shown(report.plan)
        try:
            return why(self._why, report, paint, ran.measurement if ran else None, self._background)
        except Exception:  # noqa: BLE001 - a question without an answer is no reason to lose the tables
            _log.exception("No answer to %r", self._why)
            return None
