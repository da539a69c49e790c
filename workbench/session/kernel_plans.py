"""List the plans of this process for the JupyterLab sidebar, which calls `live_plans(vars(__main__))` in the kernel.

Read-only: nothing is computed or imported, and a plan that was not analyzed shows no memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol
from weakref import WeakSet

from workbench.plan.plan import Plan
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.units import format_bytes


class ShownBoard(Protocol):
    """A board in a notebook cell; several boards may show one session."""

    session: Session


boards: "WeakSet[ShownBoard]" = WeakSet()
"""The open boards, including boards without a variable."""


class LivePlans(list[dict[str, Any]]):
    """Rows that a notebook front end receives as JSON."""

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, Any]:
        return {"application/json": list(self), "text/plain": repr(list(self))}


def live_plans(namespace: Mapping[str, Any]) -> LivePlans:
    """Return a row (`plan`, `mesh`, `layout`, `memory` per device, `names`) per plan in a variable or on a board."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, plan, memory in _find_plans(namespace):
        key = (plan.name, str(plan.mesh), str(plan.layout))
        row = rows.setdefault(key, {"plan": plan.name, "names": [], "mesh": str(plan.mesh), "layout": str(plan.layout), "memory": ""})
        row["memory"] = row["memory"] or memory
        if name and name not in row["names"]:
            row["names"].append(name)
    return LivePlans({**row, "layout": row["layout"] or "everything replicated"} for row in rows.values())


def _find_plans(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Plan, str]]:
    """Yield variable names, plans and memory; a board's earlier plan is listed as its present plan."""
    session_of = {id(node.plan): board.session for board in tuple(boards) for node in board.session.nodes}
    for name, value in _own_values(namespace.items()):
        session = getattr(value, "session", value)  # boards have one
        if isinstance(session, Session):
            yield name, session.plan, _memory_text(session.report)
        elif isinstance(value, Report | Plan):
            plan = value.plan if isinstance(value, Report) else value
            if (board_session := session_of.get(id(plan))) is not None:
                yield name, board_session.plan, _memory_text(board_session.report)
            else:
                yield name, plan, _memory_text(value) if isinstance(value, Report) else ""
    for board in tuple(boards):
        yield "", board.session.plan, _memory_text(board.session.report)


def _own_values(variables: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return values of this package, without IPython's outputs such as `_` and `_12`."""
    return [(name, value) for name, value in variables if not name.startswith("_") and type(value).__module__.startswith("workbench.")]


def _memory_text(report: Report) -> str:
    return format_bytes(report.memory.peak)
