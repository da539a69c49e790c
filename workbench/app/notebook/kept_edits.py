"""Edits stored with a notebook cell: records to continue in another kernel, and the cell's code with the edits applied."""

import ast
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from workbench.core.mesh import Mesh
from workbench.documents import dump_plan, edit_record, parse_edit
from workbench.errors import WorkbenchError
from workbench.plan.edits import Edit
from workbench.plan.plan import Plan
from workbench.session.plan_history import Session

ARGUMENTS = ("hardware", "axis_assignment", "pipeline")
"""Arguments of `Plan` that an edit may change, besides mesh and layout."""
_MESH, _LAYOUT = 1, 2  # positions among the arguments of `Plan`


def edits_since(session: Session, start: int) -> tuple[Edit, ...] | None:
    """Return the edits from plan `start` of the history to the present plan; `None` if it is no descendant."""
    edits: list[Edit] = []
    node = session.node
    while node.number != start:
        if node.parent is None or node.edit is None:
            return None
        edits.append(node.edit)
        node = session.nodes[node.parent]
    return tuple(reversed(edits))


def edits_record(session: Session, start: int) -> dict[str, Any] | None:
    """Return the record for a notebook: edits since plan `start`, both plans, a document; `None` if impossible."""
    edits = edits_since(session, start)
    if not edits:
        return None
    try:
        records = [edit_record(edit, session.plan.program) for edit in edits]
    except WorkbenchError:  # an opened plan whose program no document can name
        return None
    record = {"from": str(session.nodes[start].plan), "to": str(session.plan), "edits": records}
    with suppress(WorkbenchError):
        record["plan"] = json.loads(dump_plan(session.plan))
    return record


def can_continue(session: Session, start: int, record: Any) -> bool:
    """Whether a stored record continues plan `start`, and nothing was edited since."""
    is_record = isinstance(record, dict) and isinstance(record.get("edits"), list)
    return is_record and session.node.number == start and record.get("from") == str(session.plan)


def continue_edits(session: Session, record: dict[str, Any]) -> None:
    """Apply the stored edits one by one, so that each can be undone. Raises `WorkbenchError` at the first that fails."""
    for number, stored in enumerate(record["edits"], 1):
        try:
            session.apply(parse_edit(stored, known=session.plan.program))
        except WorkbenchError as error:
            raise WorkbenchError(
                f"Stored edit {number} of {len(record['edits'])} no longer applies: {error.message}", error.ways_out
            ) from error


def code_with_plan(source: str, before: Plan, after: Plan) -> str:
    """Rewrite a cell's code to make the plan `after`, in its `Plan(...)` or `Workbench(...)`; raises `WorkbenchError`.

    >>> _replace("Plan(p, 'data:4')", [(8, 16, "'data:8'")])
    "Plan(p, 'data:8')"
    """
    if after.program.traced_with != before.program.traced_with or after.program.dims != before.program.dims:
        raise WorkbenchError(
            "The program was changed on the board; the plan has no argument for that.", ["change how the program is traced, in the code"]
        )
    try:
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    except SyntaxError as error:  # a cell with a magic command
        raise WorkbenchError("The cell is not plain Python code.", ["copy the mesh and the layout by hand"]) from error
    plans = [node for node in calls if _name(node) == "Plan" and _mesh_of(node) == before.mesh]
    boards = [node for node in calls if _name(node) == "Workbench" and node.args]
    if len(plans) == 1:
        return _replace(source, list(_changed_arguments(source, plans[0], before, after)))
    if len(boards) == 1:
        start, end = _place(source, boards[0].args[0])
        argument = (
            f"{source[start:end]}" if isinstance(boards[0].args[0], ast.Name | ast.Attribute | ast.Call) else f"({source[start:end]})"
        )
        changes = ", ".join(f"{name}={value}" for name, value in _values(before, after).items())
        return _replace(source, [(start, end, f"{argument}.updated({changes})")])
    raise WorkbenchError("The cell has no single `Plan(...)` or `Workbench(...)` to change.", ["copy the mesh and the layout by hand"])


def _values(before: Plan, after: Plan) -> dict[str, str]:
    changed = {name: getattr(after, name) for name in ("mesh", "layout", *ARGUMENTS) if getattr(after, name) != getattr(before, name)}
    return {name: "None" if value is None else json.dumps(str(value), ensure_ascii=False) for name, value in changed.items()}


def _changed_arguments(source: str, call: ast.Call, before: Plan, after: Plan) -> Iterator[tuple[int, int, str]]:
    """Yield the code spans to replace: present arguments, then missing ones after the last."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    placed = dict(zip(("program", "mesh", "layout"), call.args, strict=False))
    added = []
    for name, value in _values(before, after).items():
        node = named.get(name) or placed.get(name)
        if node is None:
            added.append(f", {name}={value}")
        else:
            yield *_place(source, node), value
    if added:
        last = max(_place(source, keyword)[1] for keyword in (*call.args, *named.values()))
        yield last, last, "".join(added)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""


def _mesh_of(call: ast.Call) -> Mesh | None:
    node = next((keyword.value for keyword in call.keywords if keyword.arg == "mesh"), call.args[_MESH] if len(call.args) > _MESH else None)
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return None
    try:
        return Mesh(node.value)
    except WorkbenchError:
        return None


def _place(source: str, node: ast.expr) -> tuple[int, int]:
    """Return the start and end of a node in characters; Python counts the bytes of each line."""
    lines = io.StringIO(source, newline="").readlines()  # as Python does: `splitlines` also divides at form feeds and U+2028

    def character(line: int, column: int) -> int:
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    return character(node.lineno, node.col_offset), character(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def _replace(source: str, pieces: list[tuple[int, int, str]]) -> str:
    for start, end, text in sorted(pieces, reverse=True):
        source = source[:start] + text + source[end:]
    return source
