"""A board over a session: handles gestures and publishes state, independent of notebook and web page."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.core.public_error_text import describe_error
from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.report import Report
from workbench.session.figure_tiers import Partitioner, Settler, changes_figures, is_settled
from workbench.session.plan_history import Session
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.board_host import Host, Publish, Publisher
from workbench.widgets.board.board_state import Refusal, board_state
from workbench.widgets.board.figure_changes import FigureHistory
from workbench.widgets.board.gesture_edits import EDITS, changes_nothing, edit_of, other_drops
from workbench.widgets.board.open_tab_part import table_part
from workbench.widgets.board.plan_files_panel import Files
from workbench.widgets.board.precompute_drops import DropPreviews, expect
from workbench.widgets.board.recipes_panel import RecipesPanel
from workbench.widgets.board.table_chip_options import drag_options
from workbench.widgets.board.view_state import Answers, Sight
from workbench.widgets.exercise.exercise_panel import ExercisePanel
from workbench.widgets.find.find_tab import FindPanel
from workbench.widgets.gestures.gesture import Gesture, Handler, Handlers, Message, handlers_of, on
from workbench.widgets.gestures.gesture_codec import read_gesture, requested_hardware, zone_of
from workbench.widgets.gestures.panel_gestures import MODEL
from workbench.widgets.gestures.setup_gestures import DecideGesture, MendGesture, TryEditsGesture
from workbench.widgets.gestures.tensor_gestures import PreviewGesture, TakeGesture
from workbench.widgets.gestures.view_gestures import CompileAtRestGesture, DismissGesture, RedoGesture, RefreshGesture, UndoGesture
from workbench.widgets.run.background_compile import RestingCompiler
from workbench.widgets.run.board_jobs import Ended, Jobs, job_handlers
from workbench.widgets.run.calibration import Calibration
from workbench.widgets.run.job_progress import RunProgress
from workbench.widgets.run.runner_protocol import Runner
from workbench.widgets.shared_states import Defer, at_once, shared_states
from workbench.widgets.start.model_strip import ModelStrip
from workbench.widgets.start.start_panel import StartPanel
from workbench.widgets.tabs.history_tab import HistoryPanel
from workbench.widgets.tabs.propagation_tab import find_suggested_edit
from workbench.widgets.tabs.resharding_tab import try_edits
from workbench.widgets.tabs.table_blocks import axis_colours

IN_HAND = 1.0  # seconds for which a drag that hovers over a zone is expected to end in a drop

_log = logging.getLogger(__name__)


class Board:
    """One view of one session.

    `publish(part, state)` shows a part; `defer(work)` moves work from the runner's thread to the host's event loop.
    Each gesture is answered with a new `board` state that identifies it; a refused edit is part of that state and
    changes nothing else.
    """

    def __init__(
        self, session: Session, publish: Publish, *, runner: Runner | None = None, defer: Defer = at_once, host: Host | None = None
    ) -> None:
        self.session, self._host = session, host or Host()
        self._history, self._files = HistoryPanel(session), Files(session, self._host, self._measured)
        self._recipes, self._shared = RecipesPanel(session), shared_states(session)
        self._exercise = ExercisePanel(session, self._host, self._later, lambda: self._show("board", "table"))
        self._publisher = Publisher(publish, {"board": self.state, "table": self._table, "live": self._live})
        self._show = self._publisher.show
        self._sight, self._figures, self._answers = Sight(session), FigureHistory(), Answers()
        self._refusal: Refusal | None = None
        self._background = BackgroundQueries(self._later, lambda: self._show("table"))
        self._remedies = BackgroundQueries(self._later, lambda: self._show("board"))
        self._taken: dict[str, Any] | None = None
        self._offered: tuple[Edit, ...] = ()
        self._lock, self._defer = threading.RLock(), defer
        self._previews = DropPreviews(session, lambda: self._figures.earlier, self._later, self._show_previews)
        self._jobs = Jobs(runner, self._later, self._working)
        self._calibration = Calibration(session, runner, self._later, self._follow_calibration)
        self._start = StartPanel(session, self._host, self._calibration, self._later, lambda: self._show("board"))
        self._strip = ModelStrip(session, self._host, self._later, lambda: self._show("board"), self._refuse_size)
        self._find = FindPanel(session, runner, self._later, self._show, lambda: self._sight.tab == "find")
        self._settler: Settler | None = None
        self._is_settler_shared = False
        self._passed_on: RunProgress | None = None
        self._resting: RestingCompiler | None = None
        self._free_at = 0.0  # when the last drag ended, as far as known
        self._handlers = self._make_handlers()
        self._know()
        self._seen = session.report
        self._stop_listening = session.listen(self._follow_session)
        self._show("board", "table", "live")
        if self._host.lesson:
            self._host.lesson.begin(lambda: self._later(lambda: self._show("board")))

    @property
    def measurement(self) -> Measurement | None:
        ran = self._jobs.live.ran
        return ran[0].measurement if ran else None

    def _measured(self, plan: Plan) -> Measurement | None:
        ran = self._jobs.live.of(plan)
        return ran.measurement if ran else None

    @property
    def compiled(self) -> Compiled | None:
        """The result of the last finished compilation."""
        finished = self._jobs.compiling.found
        return finished[0].compiled if finished else None

    @property
    def selected(self) -> str:
        """Path of the argument, value or collective that every view marks; empty for none."""
        return self._sight.selected

    def answer(self, message: Message) -> None:
        """Handle a gesture and publish the answer, which gives the reason if the gesture is refused."""
        with self._lock:
            is_held = message.get("ahead") or message.get("verb") == TakeGesture.verb
            self._free_at = time.monotonic() + IN_HAND if is_held else 0.0
            if message.get("ahead"):
                expect(message, self.session, self._jobs, self._find, self._previews)
            elif self._answers.begin(message):
                self._do(message)
            else:
                self._show("board", "table", "live")

    def _show_previews(self) -> None:
        self._publisher.amend("board", previews=self._previews.state())

    def _do(self, message: Message) -> None:
        self._offered = self._refusal.edits if self._refusal else ()
        self._refusal, self._taken, self._sight.trial, self._publisher.answering = None, None, None, True
        self._previews.forget()
        self._files.forget()
        try:
            gesture = read_gesture(message)
            self._handlers[type(gesture)](gesture)
        except WorkbenchError as error:
            self._refusal = Refusal(error, zone_of(message), requested_hardware(message), other_drops(message, self.session.plan))
        except Exception as error:  # noqa: BLE001 - the page must answer, whatever failed
            _log.exception("The gesture %r failed", dict(message))
            failure = WorkbenchError(f"The workbench itself failed: {describe_error(error)}")
            self._refusal = Refusal(failure, zone_of(message), requested_hardware(message))
        except KeyboardInterrupt:  # even on an interrupt of the kernel the waiting page must get an answer
            self._refusal = Refusal(WorkbenchError("Interrupted before it finished."), zone_of(message))
            raise
        finally:
            self._publisher.answering = False
            self._show("board")
            self._later(self._publisher.show_owed)

    def begin_settling(self, partitioner: Partitioner, defer: Defer, is_idle: Callable[[], bool] = lambda: True) -> None:
        """Start replacing planned figures by those of XLA's partitioner; may be called again.

        `defer(work)` moves work to the end of the host's event loop; `is_idle()` tells whether no gesture is queued
        there.
        """
        if self._settler is None:
            self._find.finder.compilers.partitioner = partitioner
            self._calibration.use_kept()
            free = lambda: is_idle() and time.monotonic() >= self._free_at  # noqa: E731
            self._settler = Settler(
                self.session, partitioner, defer=self._locking(defer), is_idle=free, on_change=lambda: self._show("board")
            )
            self._show("board")

    def begin_compiling(self, defer: Defer) -> None:
        """Start compiling plans left unchanged for a moment while the machine is idle; may be called again."""
        if self._resting is None:
            self._resting = RestingCompiler(self.session, self._jobs, defer=self._locking(defer))
            self._show("live")

    def share_settling(self, settler: Settler, partitioner: Partitioner) -> None:
        """Use a `settler` shared by the session's boards, whose owner calls `show_settling` and closes it."""
        self._settler, self._is_settler_shared = settler, True
        self._find.finder.compilers.partitioner = partitioner
        self._calibration.use_kept()
        self._show("board")

    def show_run(self, run: RunProgress) -> None:
        """Show a run that another board of the session has finished (`Host.ran`)."""
        with self._lock:
            self._jobs.show_finished(run)

    def show_settling(self) -> None:
        with self._lock:
            self._show("board")

    def view(self) -> tuple[str, str]:
        """Return the key of the open tab and the path of the selection."""
        return self._sight.tab, self._sight.selected

    def close(self) -> None:
        self._stop_listening()
        self._exercise.close()
        if self._settler and not self._is_settler_shared:
            self._settler.close()
        if self._resting:
            self._resting.close()
        self._jobs.cancel_run()
        self._jobs.cancel_compilation()
        self._find.finder.close()
        self._calibration.cancel()
        self._start.close()
        self._strip.close()

    def state(self) -> dict[str, Any]:
        shown = board_state(
            self.session,
            now=self._figures.now,
            before=self._figures.before,
            earlier=self._figures.earlier,
            refusal=self._refusal,
            tab=self._sight.tab,
            opened=self._sight.opened,
            comparison_state=self._figures.comparison_state,
            settling_state=self._settler.settling_state if self._settler else None,
            found=self._find.finder.badge if self._host.searches else None,
            needed=self._host.exercise.sections if self._host.exercise else (),
            remedies=None if self._exercise.is_asking else self._remedies,
            shared=self._shared,
        )
        about = {
            "hardware": {**shown["hardware"], "attached": self._calibration.state()},
            "revision": self.session.revision,
            "answer": self._answers.last,
            "told": self._answers.revision,
            "follows": self._publisher.owes("table"),
        }
        return {**shown, "selected": self.selected, "taken": self._taken, "previews": self._previews.state(), **self._beside(), **about}

    def _beside(self) -> dict[str, Any]:
        beside = {"history": self._history.state(), "files": self._files.state(), "exercise": self._exercise.state()}
        lesson = self._host.lesson
        text = {"lesson": lesson.state(), "lesson_blocks": lesson.blocks} if lesson else {}
        return {**beside, **text, "start": self._start.state(), "model": self._strip.state()}

    def _make_handlers(self) -> Handlers:
        return {
            **dict.fromkeys(EDITS, self._edit),
            **self._history.handlers(),
            **self._files.handlers(),
            **self._exercise.handlers(),
            **self._start.handlers(),
            **self._strip.handlers(),
            **job_handlers(self.session, self._jobs),
            **self._calibration.handlers(),
            **self._before_tables(
                {
                    **self._sight.handlers(),
                    **self._recipes.handlers(),
                    **self._find.handlers(),
                    **handlers_of(
                        on(TryEditsGesture, lambda gesture: try_edits(gesture.key, self.session.report.prediction, self._background))
                    ),
                }
            ),
            **handlers_of(
                on(UndoGesture, lambda _: self.session.undo()),
                on(RedoGesture, lambda _: self.session.redo()),
                on(
                    DecideGesture,
                    lambda gesture: self._apply(find_suggested_edit(gesture, self.session.report.prediction, self._background)),
                ),
                on(TakeGesture, self._take),
                on(PreviewGesture, self._previews.begin),
                on(MendGesture, self._mend),
                on(CompileAtRestGesture, self._compile_at_rest),
                on(DismissGesture, lambda _: None),  # needs only an answer
                on(RefreshGesture, lambda _: None),
            ),
        }

    def _before_tables(self, handlers: Handlers) -> Handlers:
        def with_tables(handler: Handler) -> Handler:
            def handle(gesture: Gesture) -> None:
                handler(gesture)
                self._show("table")

            return handle

        return {kind: with_tables(handler) for kind, handler in handlers.items()}

    def _edit(self, gesture: Gesture) -> None:
        self._apply(edit_of(gesture, self.session.plan, self.session.report))

    def _mend(self, gesture: MendGesture) -> None:
        """Apply an edit that the last refusal offered, or that a note of the report suggests."""
        offered = next((edit for edit in self._offered if str(edit) == gesture.edit), None)
        self._apply(offered or edit_of(gesture, self.session.plan, self.session.report))

    def _apply(self, edit: Edit) -> None:
        """Apply an edit, except one that changes nothing: it leaves no trace in the history."""
        if not changes_nothing(edit, self.session.plan):
            self.session.apply(edit)

    def _follow_calibration(self) -> None:
        self._start.follow_calibration()
        self._show("board")

    def _refuse_size(self, error: WorkbenchError) -> None:
        self._refusal = Refusal(error, MODEL)

    def offer_recent(self, boards: Sequence[Mapping[str, str]]) -> bool:
        """Show former boards in the start panel, and return whether it is open."""
        self._start.recent = boards
        if self._start.is_open:
            self._show("board")
        return self._start.is_open

    def _take(self, gesture: TakeGesture) -> None:
        self._taken = drag_options(gesture, self.session.plan, self.session.report)

    def _compile_at_rest(self, gesture: CompileAtRestGesture) -> None:
        if self._resting is not None:
            self._resting.turn(is_on=gesture.on)
            self._show("live")

    def _later(self, work: Callable[[], None]) -> None:
        self._locking(self._defer)(work)

    def _locking(self, defer: Defer) -> Defer:
        return lambda work: defer(lambda: self._do_locked(work))

    def _do_locked(self, work: Callable[[], None]) -> None:
        with self._lock:
            work()

    def _working(self, ended: Ended) -> None:
        live = self._jobs.live
        if ended == "compilation":
            self._settle_compiled()
        if ended:
            self._know()
            self._calibration.learn(live.measurement if ended == "run" else None)
            self._show("board", "table")
        self._show("live")
        if ended == "run" and live.phase == "done" and live is not self._passed_on:
            self._passed_on = live
            self._host.ran(live)

    def _settle_compiled(self) -> None:
        """Use the compiler's memory and kernel times for the present plan from now on."""
        if (finished := self._jobs.compiling.of(self.session.plan)) is not None and self.session.plan.hardware is not None:
            self.session.use_compiled(self.session.node.number, finished.compiled)

    def _know(self) -> None:
        self._figures.learn(self.session.node.number, self.session.report, self._jobs)

    def _follow_session(self, plan: Plan, report: Report) -> None:
        with self._lock:
            if is_settled(self._seen, report):
                self._show_settled(report)
            elif report is not self._seen:  # otherwise a plan was only named or pinned
                is_same_program = report.plan.program.dims.keys() == self._seen.plan.program.dims.keys()
                self._seen = report
                self._figures.begin() if is_same_program else self._figures.forget()
                self._know()
                self._show("table", "live")
                self._host.changed(plan)
                if not report.is_compiled and self._jobs.compiling.of(plan) is not None:
                    self._later(self._settle_compiled)
            if not self._publisher.answering:  # the answer publishes the board once, at its end
                self._show("board")

    def _show_settled(self, report: Report) -> None:
        """Show the same plan with figures of another tier; the tables are published only if these changed."""
        changed = changes_figures(self._seen, report) or self._seen.is_compiled != report.is_compiled
        self._seen = report
        self._know()
        if changed or self._sight.tab == "communication":
            self._publisher.owe("table", "live")
            self._later(self._publisher.show_owed)

    def _live(self) -> dict[str, Any]:
        live = self._jobs.state(self.session.plan, self._figures.comparison_state, runs=self._host.runs)
        return {**live, "at_rest": self._resting and self._resting.state(), "told": self._answers.revision}

    def whole_table(self) -> dict[str, Any]:
        """Return the `table` state with every picture in all its forms, for a host that cannot request them later."""
        with self._lock:
            return self._table(lambda _name: True)

    def _table(self, is_asked: Callable[[str], bool] | None = None) -> dict[str, Any]:
        colours = axis_colours(self.session)
        about = (self._jobs.live, self._figures.comparison_state, self._background, self._find.blocks)
        is_requested, remedies = is_asked or self._sight.is_asked, not self._exercise.is_asking
        shown = table_part(self.session.report, self._sight, *about, is_requested, self._shared, colours, remedies=remedies)
        recipes = self._recipes.state(colours)
        return {**shown, "recipes": recipes, "seq": self._answers.last["seq"], "told": self._answers.revision}
