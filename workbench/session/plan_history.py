"""The history of plans as a tree, with listeners; independent of the user interface."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from workbench.analysis.analyze import analyze
from workbench.analysis.compiled_report import with_compiled
from workbench.errors import WorkbenchError
from workbench.hardware.hardware import Hardware
from workbench.pipeline.balance import apply_edit
from workbench.plan.edits import Edit, RenameDim
from workbench.plan.plan import Plan
from workbench.reports.compiled import Compiled
from workbench.reports.partitioned import Partitioned
from workbench.reports.report import Report

Listener = Callable[[Plan, Report], None]

KEPT_REPORTS, KEPT_BYTES = 8, 128 << 20
"""Maximum number and bytes of cached reports; a plan is small, but a report references Shardy's whole result."""
_BYTES_PER_OPERATION = 2300  # of a report with all details, measured on an unrolled GPT
MOST_NAME = 80  # characters of a name


@dataclass(frozen=True, slots=True)
class HistoryNode:
    """One plan of the history, made by `edit` from the plan `parent`, both `None` at the root; numbered in order."""

    number: int
    plan: Plan
    parent: int | None = None
    edit: Edit | None = None
    name: str = ""
    pinned: bool = False


class ReportSummary(NamedTuple):
    """Cached figures of a report: peak bytes, bytes sent, seconds of a step if known, and the tier, empty if unknown."""

    peak: int
    sent: int
    seconds: float | None
    tier: str = ""


class Session:
    """The history of plans, each made by an edit of an earlier one, with one present plan.

    `undo` goes to the parent, `redo` back to the last visited child, `go` to any plan. An edit after an undo begins a
    branch, so nothing is lost. A rejected edit changes nothing.
    """

    def __init__(self, plan: Plan) -> None:
        self._set_up([HistoryNode(0, plan)], 0, {}, {})

    @classmethod
    def from_history(
        cls, nodes: Sequence[HistoryNode], now: int, redo_children: Mapping[int, int], summaries: Mapping[int, ReportSummary]
    ) -> "Session":
        """Create a session from stored parts; only the present plan is analyzed.

        Raises `WorkbenchError` for wrong numbers, a later parent, or a `redo_children` entry that is no child.
        """
        _verify_history(nodes, now, redo_children)
        session = cls.__new__(cls)
        cls._set_up(session, list(nodes), now, dict(redo_children), dict(summaries))
        return session

    def _set_up(self, nodes: list[HistoryNode], now: int, redo_children: dict[int, int], summaries: dict[int, ReportSummary]) -> None:
        self._hardware: Hardware | None = None
        self._nodes, self._now = nodes, now
        self._redo_children = redo_children
        self._reports: dict[int, Report] = {}  # least recently used first
        self._summaries = summaries
        self._answers: dict[int, Partitioned] = {}
        self._compiled: dict[int, Compiled] = {}
        self._foreseen: list[Report] = []  # reports of previewed edits, latest last
        self.revision = 0  # number of notifications
        self._report = self.report_of(now)
        self._listeners: list[Listener] = []

    @property
    def plan(self) -> Plan:
        return self.node.plan

    @property
    def report(self) -> Report:
        return self._report

    @property
    def node(self) -> HistoryNode:
        return self._nodes[self._now]

    @property
    def nodes(self) -> tuple[HistoryNode, ...]:
        """All nodes by number; parents precede children."""
        return tuple(self._nodes)

    @property
    def summaries(self) -> Mapping[int, ReportSummary]:
        """Key figures of the plans analyzed for the present hardware, by number."""
        return self._summaries

    @property
    def redo_children(self) -> Mapping[int, int]:
        """The child that `redo` goes to, by plan number: on the branch visited last."""
        return self._redo_children

    @property
    def edits(self) -> tuple[Edit, ...]:
        return tuple(edit for number in self._path(self._now) if (edit := self._nodes[number].edit) is not None)

    @property
    def undoable(self) -> Edit | None:
        """The edit that `undo` would revert."""
        return self.node.edit

    @property
    def undone(self) -> Edit | None:
        """The edit that `redo` would repeat."""
        return self._nodes[self._redo_children[self._now]].edit if self.can_redo else None

    @property
    def can_undo(self) -> bool:
        return self.node.parent is not None

    @property
    def can_redo(self) -> bool:
        return self._now in self._redo_children

    def hardware_of(self, plan: Plan) -> Hardware | None:
        """Return the hardware a plan is analyzed for: its own, or the session's."""
        return plan.hardware or self._hardware

    def apply(self, edit: Edit) -> Report:
        """Apply an edit. Raises its `WorkbenchError`, changing nothing, if the plan would be illegal."""
        report = self.foresee(edit)
        self._foreseen = []
        node = HistoryNode(len(self._nodes), report.plan, self._now, edit)
        self._store_report(node.number, report)
        if self._only_renames(edit):
            self._keep_answers(node.number)
        self._nodes.append(node)
        return self.go(node.number)

    def _only_renames(self, edit: Edit) -> bool:
        """Return whether an edit only changes names; an existing dimension name would merge two dimensions."""
        return isinstance(edit, RenameDim) and edit.name not in self.plan.program.dims

    def _keep_answers(self, number: int) -> None:
        """Reuse XLA's results of the present plan for a plan that differs only in names, which compilers do not see."""
        if self._now in self._answers:
            self._answers[number] = self._answers[self._now]
        if self._now in self._compiled:
            self._compiled[number] = self._compiled[self._now]

    def foresee(self, edit: Edit) -> Report:
        """Return the report of the plan after an edit, and cache it for `apply`. Raises as `apply`."""
        plan = apply_edit(self.plan, edit)
        report = next((cached for cached in self._foreseen if cached.plan == plan), None)
        if report is None:
            answers = (self._answers.get(self._now), self._compiled.get(self._now)) if self._only_renames(edit) else ()
            report = self._analyze(plan, *answers)
            most = 1 if _BYTES_PER_OPERATION * len(plan.program.operations) * KEPT_REPORTS > KEPT_BYTES else KEPT_REPORTS
            self._foreseen = [*self._foreseen, report][-most:]
        return report

    def undo(self) -> Report:
        return self._report if self.node.parent is None else self._move(self.node.parent)

    def redo(self) -> Report:
        return self._move(self._redo_children[self._now]) if self.can_redo else self._report

    def go(self, number: int) -> Report:
        """Go to any plan; `redo` then follows its branch. Raises `WorkbenchError` if there is no such plan."""
        self._redo_children.update(pairwise(self._path(self._find_node(number).number)))
        return self._move(number)

    def name(self, number: int, name: str) -> None:
        """Name a plan; an empty name removes it."""
        self._nodes[number] = replace(self._find_node(number), name=" ".join(name.split())[:MOST_NAME])
        self._notify()

    def pin(self, number: int, pinned: bool = True) -> None:
        self._nodes[number] = replace(self._find_node(number), pinned=pinned)
        self._notify()

    def report_of(self, number: int) -> Report:
        """Return the report of any plan; the last few are cached."""
        report = self._reports.pop(number, None)
        if report is None:
            report = self._analyze(self._find_node(number).plan, self._answers.get(number), self._compiled.get(number))
        return self._store_report(number, report)

    def use_partitioned(self, number: int, answer: Partitioned) -> Report:
        """Recompute a plan's report with the partitioner's result; listeners are called if it is the present plan."""
        node = self._find_node(number)
        cached = self._reports.get(number)
        if cached is not None and cached.partitioned == answer:
            return cached
        report = self._analyze(node.plan, answer, self._compiled.get(number))
        self._answers[number] = answer
        return self._replace_report(number, report)

    def use_compiled(self, number: int, compiled: Compiled) -> Report:
        """Update a plan's report with compiled memory and kernel times; listeners are called as by `use_partitioned`."""
        self._compiled[self._find_node(number).number] = compiled
        return self._replace_report(number, with_compiled(self.report_of(number), compiled))

    def _replace_report(self, number: int, report: Report) -> Report:
        self._store_report(number, report)
        if number == self._now:
            self._report = report
            self._notify()
        return report

    def store_partitioned(self, number: int, answer: Partitioned) -> None:
        """Store the partitioner's result for a plan that is not present, to be used when it becomes so."""
        if number == self._now:
            self.use_partitioned(number, answer)
            return
        self._answers[self._find_node(number).number] = answer
        self._reports.pop(number, None)

    def use_hardware(self, hardware: Hardware) -> Report:
        """Predict step times of plans without hardware for this hardware from now on, such as a calibrated machine."""
        self._hardware = hardware
        self._answers.clear()
        self._compiled.clear()
        self._reports.clear()
        self._summaries.clear()
        self._foreseen = []
        return self._move(self._now)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with plan and report after every move, name and pin; the returned function unsubscribes."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def _move(self, number: int) -> Report:
        self._report = self.report_of(number)
        self._now = number
        self._notify()
        return self._report

    def _notify(self) -> None:
        self.revision += 1
        for listener in tuple(self._listeners):
            listener(self.plan, self._report)

    def _path(self, number: int) -> list[int]:
        path = [number]
        while (parent := self._nodes[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]

    def _find_node(self, number: int) -> HistoryNode:
        if not 0 <= number < len(self._nodes):
            raise WorkbenchError(
                f"There is no plan {number} in the history; it has 0 to {len(self._nodes) - 1}.", ["see the current history"]
            )
        return self._nodes[number]

    def _store_report(self, number: int, report: Report) -> Report:
        self._reports[number] = report
        self._summaries[number] = _summarize(report)
        while len(self._reports) > KEPT_REPORTS or (len(self._reports) > 1 and self._stored_bytes > KEPT_BYTES):
            del self._reports[next(iter(self._reports))]
        return report

    @property
    def _stored_bytes(self) -> int:
        return sum(_BYTES_PER_OPERATION * len(cached.plan.program.operations) for cached in self._reports.values())

    def _analyze(self, plan: Plan, answer: Partitioned | None = None, compiled: Compiled | None = None) -> Report:
        report = analyze(plan, self.hardware_of(plan), answer)
        report = with_compiled(report, compiled) if compiled is not None else report
        _summarize(report)  # computes lazy details: a plan whose stages cannot be reported is refused here
        return report


def _summarize(report: Report) -> ReportSummary:
    return ReportSummary(report.peak, report.most(lambda each: each.sent).sent, report.seconds, report.tier)


def _verify_history(nodes: Sequence[HistoryNode], now: int, redo_children: Mapping[int, int]) -> None:
    roots = [node.parent is None for node in nodes]
    numbered = [node.number for node in nodes] == list(range(len(nodes)))
    parents_precede = all(node.parent is None or 0 <= node.parent < node.number for node in nodes)
    redo_is_valid = all(0 < child < len(nodes) and nodes[child].parent == number for number, child in redo_children.items())
    if not (numbered and parents_precede and redo_is_valid and roots.count(True) == 1 and 0 <= now < len(nodes)):
        raise WorkbenchError(
            "These plans are not a history: each plan but the first must come from an earlier one.", ["begin with one plan"]
        )
