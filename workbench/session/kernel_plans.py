"""The plans of this process, for the sidebar of JupyterLab, which asks a kernel with `live_plans(vars(__main__))`.

It is read-only: nothing is computed, nothing is imported, and a plan that was not analysed yet shows no memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol
from weakref import WeakSet

from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.units import format_bytes


class ShownBoard(Protocol):
    """A board shown in a notebook cell; several may show one session."""

    session: Session


boards: "WeakSet[ShownBoard]" = WeakSet()
"""The open boards, also those that no variable names."""


class LivePlans(list[dict[str, Any]]):
    """Rows that a notebook's front end gets as JSON."""

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        return {"application/json": list(self), "text/plain": repr(list(self))}


def live_plans(namespace: Mapping[str, Any]) -> LivePlans:
    """A row for each plan that a variable of `namespace` holds or a board shows.

    Its entries are texts: `plan`, `mesh`, `layout` and `memory` per device; and `names`, those of the variables.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, plan, memory in _find_plans(namespace):
        key = (plan.name, str(plan.mesh), str(plan.layout))
        row = rows.setdefault(key, {"plan": plan.name, "names": [], "mesh": str(plan.mesh), "layout": str(plan.layout), "memory": ""})
        row["memory"] = row["memory"] or memory
        if name and name not in row["names"]:
            row["names"].append(name)
    return LivePlans({**row, "layout": row["layout"] or "everything replicated"} for row in rows.values())


def _find_plans(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Plan, str]]:
    """Names, plans and the memory per device. A plan of a board's history is listed as the present plan of that board."""
    shown = {id(node.plan): board.session for board in tuple(boards) for node in board.session.nodes}
    for name, value in _own_values(namespace.items()):
        session = getattr(value, "session", value)  # of a board
        if isinstance(session, Session):
            yield name, session.plan, _memory_text(session.report)
        elif isinstance(value, Report | Plan):
            plan = value.plan if isinstance(value, Report) else value
            if (board_session := shown.get(id(plan))) is not None:
                yield name, board_session.plan, _memory_text(board_session.report)
            else:
                yield name, plan, _memory_text(value) if isinstance(value, Report) else ""
    for board in tuple(boards):
        yield "", board.session.plan, _memory_text(board.session.report)


def _own_values(variables: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Values of this package, without those that IPython keeps under `_` and `_12`."""
    return [(name, value) for name, value in variables if not name.startswith("_") and type(value).__module__.startswith("workbench.")]


def _memory_text(report: Report) -> str:
    return format_bytes(report.memory.peak)
