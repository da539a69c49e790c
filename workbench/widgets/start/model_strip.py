"""The strip that resizes a board's zoo model and confirms proposed dimension names."""

from collections.abc import Callable
from functools import partial
from typing import Any

from workbench.errors import DocumentError, WorkbenchError
from workbench.models.registry import ALL_MODELS, Model
from workbench.plan.edits import EditGroup, OpenPlan, RenameDim
from workbench.plan.plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board_host import Host
from workbench.widgets.gestures.gesture import Handlers, on
from workbench.widgets.gestures.start_gestures import ConfirmNamesGesture, SizeModelGesture, StopSizingGesture
from workbench.widgets.shared_states import Defer
from workbench.widgets.start.model_sizes import read_value, resized_plan, size_changes, size_fields, size_values
from workbench.widgets.start.timed_work import TimedWork, WorkTicket


class ModelStrip:
    """The model sizes of one board. `defer` moves work to the board's event loop, `show()` publishes the strip."""

    def __init__(
        self, session: Session, host: Host, defer: Defer, show: Callable[[], None], refuse: Callable[[WorkbenchError], None]
    ) -> None:
        self._session, self._host, self._refuse = session, host, refuse
        self._work: TimedWork[OpenPlan] = TimedWork(defer, show)

    def handlers(self) -> Handlers:
        return dict(
            [
                on(SizeModelGesture, self._resize),
                on(StopSizingGesture, lambda _: self._work.stop()),
                on(ConfirmNamesGesture, lambda _: self._confirm_names()),
            ]
        )

    def close(self) -> None:
        self._work.stop()

    def state(self) -> dict[str, Any] | None:
        """Return the model's sizes and the names to confirm; `None` without either."""
        if not self._offered:
            return None
        plan, model = self._session.plan, self._model
        names = proposed_names(plan)
        if model is None and not names:
            return None
        return {
            "title": model.name if model else "",
            "sizes": list(size_fields(model, size_values(model, plan))) if model else [],
            "work": self._work.state(),
            "names": names,
        }

    @property
    def _offered(self) -> bool:
        return self._host.starts and self._host.exercise is None

    @property
    def _model(self) -> Model | None:
        reference = self._session.plan.program.reference
        return None if reference is None else next((model for model in ALL_MODELS if model.name == reference.target), None)

    def _resize(self, gesture: SizeModelGesture) -> None:
        """Trace the resized model in a thread; a later change replaces one in progress."""
        model = self._model
        if model is None or not self._offered:
            raise DocumentError("The program on the board is not a zoo model, so its sizes are set in its code.", ["change the code"])
        plan, value = self._session.plan, read_value(model, gesture.name, gesture.value)
        changes = size_changes(model, gesture.name, value)

        def trace(ticket: WorkTicket) -> OpenPlan:
            resized = resized_plan(plan, changes, self._host.allow)
            ticket.report(f"Analysing {resized.program.name}")
            edit = OpenPlan(resized, f"{resized.program.name} with {gesture.name} {gesture.value}")
            self._session.foresee(edit)
            return edit

        self._work.start(
            f"Tracing {plan.program.name} with {gesture.name} {gesture.value}", trace, partial(self._apply, gesture, plan), self._refuse
        )

    def _apply(self, gesture: SizeModelGesture, plan: Plan, edit: OpenPlan) -> None:
        """Open the resized plan; a plan edited meanwhile is resized instead, and another model is left alone."""
        now = self._session.plan
        try:
            if now is plan:
                self._session.apply(edit)
            elif now.program.reference == plan.program.reference:
                self._resize(gesture)
        except WorkbenchError as error:
            self._refuse(error)

    def _confirm_names(self) -> None:
        plan = self._session.plan
        names = [proposal["name"] for proposal in proposed_names(plan)]
        if self._offered and names:
            self._session.apply(EditGroup("confirm names", tuple(RenameDim(name, name) for name in names)))


def proposed_names(plan: Plan) -> list[dict[str, str]]:
    """List the unconfirmed names that the trace proposes, each with its size and reason."""
    proposed, dims = plan.program.proposed, plan.program.dims
    return [
        {"name": name, "size": " or ".join(f"{size:,}" for size in dims.get(name, ())), "reason": proposed.reason(name)}
        for name in proposed.unconfirmed
    ]
