"""The history of a plan, and whoever listens to it. It knows no user interface."""

from collections.abc import Callable

from workbench.analyze import analyze
from workbench.edits import Edit
from workbench.hardware import Hardware
from workbench.plan import Plan
from workbench.report import Report

Listener = Callable[[Plan, Report], None]


class Session:
    """Plans one after another, the newest analysed; `undo` and `redo` walk them. An edit that is refused changes nothing."""

    def __init__(self, plan: Plan, hardware: Hardware | None = None) -> None:
        self._hardware = hardware
        self._plans = [plan]
        self._edits: list[Edit] = []
        self._now = 0
        self._report = self._analyze(plan)
        self._listeners: list[Listener] = []

    @property
    def plan(self) -> Plan:
        return self._plans[self._now]

    @property
    def report(self) -> Report:
        return self._report

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits that led to the present plan, oldest first."""
        return tuple(self._edits[: self._now])

    @property
    def can_undo(self) -> bool:
        return self._now > 0

    @property
    def can_redo(self) -> bool:
        return self._now < len(self._plans) - 1

    def apply(self, edit: Edit) -> Report:
        """Make an edit; raises its `WorkbenchError` and stays where it was if the plan would be illegal."""
        plan = edit.apply(self.plan)
        report = self._analyze(plan)
        del self._plans[self._now + 1 :], self._edits[self._now :]
        self._plans.append(plan)
        self._edits.append(edit)
        return self._move(len(self._plans) - 1, report)

    def undo(self) -> Report:
        """Back to the plan before, if there is one."""
        return self._move(self._now - 1) if self.can_undo else self._report

    def redo(self) -> Report:
        """Forward again, if an edit was undone."""
        return self._move(self._now + 1) if self.can_redo else self._report

    def use_hardware(self, hardware: Hardware) -> Report:
        """Predict step times for this hardware from now on, a machine just calibrated, say, where the plan names none."""
        self._hardware = hardware
        return self._move(self._now)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each new plan and report; the function returned stops that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _move(self, place: int, report: Report | None = None) -> Report:
        self._now, self._report = place, report or self._analyze(self._plans[place])
        for listener in tuple(self._listeners):
            listener(self.plan, self._report)
        return self._report

    def _analyze(self, plan: Plan) -> Report:
        return analyze(plan, plan.hardware or self._hardware)
