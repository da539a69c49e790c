"""The board as static HTML for use without a kernel; tables and inline styles only, for light and dark themes."""

from collections.abc import Iterable
from html import escape
from typing import Any

from workbench.visualize.draw.palette import AXES, NEUTRAL

MOST_ROWS = 12  # of a table
MOST_TABLES = 3
MOST_SVG = 12_000  # characters of a picture; a larger one is replaced by its text
MOST_TWIN = 3_000  # characters of that text

_LEFT = ' style="text-align:left"'
_RIGHT = ' style="text-align:right"'
QUIET = f' style="color:{NEUTRAL};font-weight:400"'


def snapshot_html(board: dict[str, Any], table: dict[str, Any] | None = None) -> str:
    """Render name, mesh, key figures, zones and the open tab in a few kilobytes, whatever the program's size."""
    head = f'<b style="font-size:16px">{escape(board["name"])}</b> on <code>{escape(board["mesh"])}</code> ({escape(board["devices"])})'
    hardware = board["hardware"]["name"]
    planned_for = f", planned for <b>{escape(hardware)}</b>" if hardware else ""
    parts = [
        f"<div>{head}{planned_for}</div>",
        figures_html(board["figures"]),
        *(f"<div><b>{escape(alarm['kind'])}</b>: {escape(alarm['message'])}</div>" for alarm in board["alarms"]),
        *_question(board["exercise"]),
        f'<table cellpadding=3 style="margin:8px 0">{"".join(map(_zone, board["zones"]))}</table>',
    ]
    parts += _open_tab(board, table) if table else []
    return card_html(parts)


def card_html(parts: Iterable[str]) -> str:
    style = f"font:13px/1.5 system-ui,sans-serif;border:1px solid {NEUTRAL};border-radius:8px;padding:12px;max-width:960px;overflow-x:auto"
    return f'<div style="{style}">{"".join(parts)}</div>'


def _question(state: dict[str, Any] | None) -> Iterable[str]:
    if state is None:
        return
    yield f'<p style="margin:8px 0">{_with_code(state["ask"])}</p>'
    marks = {True: "✓", False: "✗", None: "○"}
    rows = [f"{marks[goal['met']]} {_with_code(goal['text'])}" for goal in state["goals"]]
    rows += [f"{number}. {_with_code(choice)}" for number, choice in enumerate(state["choices"], 1)]
    yield "".join(f"<div>{row}</div>" for row in rows)


def _with_code(text: str) -> str:
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(escape(text).split("`")))


def figures_html(figures: list[dict[str, Any]]) -> str:
    heads = "".join(f"<th{_LEFT}><small{QUIET}>{escape(figure['label'])}</small></th>" for figure in figures)
    cells = "".join(f'<td{_LEFT}><b style="font-size:16px">{escape(figure["text"])}</b></td>' for figure in figures)
    return f'<table cellpadding=4 style="margin:8px 0"><tr>{heads}</tr><tr>{cells}</tr></table>'


def _zone(zone: dict[str, Any]) -> str:
    colour = NEUTRAL if zone["colour"] is None else AXES[zone["colour"]]
    size = f" ×{escape(zone['size'])}" if zone["size"] else ""
    chips = " · ".join(f"<code>{escape(chip['dim'])} {escape(chip['size'])}</code>" for chip in zone["chips"]) or "nothing"
    title = f'<th style="text-align:left;border-left:4px solid {colour};padding-left:8px">{escape(zone["title"])}{size}</th>'
    return f"<tr>{title}<td{_LEFT}>{chips}</td></tr>"


def _open_tab(board: dict[str, Any], table: dict[str, Any]) -> Iterable[str]:
    label = next((tab["label"] for tab in board["tabs"] if tab["key"] == table["tab"]), "")
    yield f'<div style="margin-top:12px"><b>{escape(label)}</b></div>'
    for block in table["blocks"][:MOST_TABLES]:
        yield from _block(block)


def _block(block: dict[str, Any]) -> Iterable[str]:
    if block["title"]:
        yield f"<div{QUIET}>{escape(block['title'])}</div>"
    if picture := block["picture"]:
        fits = len(picture["svg"]) <= MOST_SVG
        yield picture["svg"] if fits else f'<pre style="font-size:11px;overflow-x:auto">{escape(picture["text"][:MOST_TWIN])}</pre>'
    if block["rows"]:
        yield _table(block["columns"], block["rows"])
    if block["note"]:
        yield f"<div{QUIET}>{escape(block['note'])}</div>"


def _table(columns: list[dict[str, Any]], rows: list[dict[str, Any]]) -> str:
    sides = [_RIGHT if column["number"] else _LEFT for column in columns]
    heads = "".join(f"<th{side}>{escape(column['label'])}</th>" for column, side in zip(columns, sides, strict=True))
    shown = "".join(_row(row, sides) for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    rest = f"<tr><td colspan={len(columns)}{_LEFT}>… {more:,} more</td></tr>" if more > 0 else ""
    return f'<table cellpadding=3 style="margin:4px 0;font-size:12px"><tr>{heads}</tr>{shown}{rest}</table>'


def _row(row: dict[str, Any], sides: list[str]) -> str:
    if section := row.get("section"):
        return f"<tr><td colspan={len(sides)}{_LEFT}><b>{escape(section['title'])}</b> {escape(section.get('note', ''))}</td></tr>"
    return "<tr>" + "".join(f"<td{side}>{_cell(cell)}</td>" for cell, side in zip(row["cells"], sides, strict=False)) + "</tr>"


def _cell(cell: Any) -> str:
    if not isinstance(cell, dict):
        return escape(str(cell))
    if "path" in cell and "chips" not in cell:
        return f"<code>{escape(cell['path'])}</code> {escape(cell.get('count', ''))}"
    if named := cell.get("chips") or cell.get("dims"):
        return " ".join(_dimension(entry) for entry in named)
    if "axes" in cell:
        return " ".join(_axis(entry["name"], entry.get("colour")) for entry in cell["axes"])
    if "edits" in cell:
        return escape(" · ".join(str(entry.get("label", "")) if isinstance(entry, dict) else str(entry) for entry in cell["edits"]))
    return escape(str(cell.get("text", "")))


def _dimension(chip: dict[str, Any]) -> str:
    axes = "".join(f"/{_axis(axis['name'], axis.get('colour'))}" for axis in chip.get("axes", ()) if isinstance(axis, dict))
    return escape(chip.get("label") or chip.get("name", "")) + axes


def _axis(name: str, colour: int | None) -> str:
    return f'<b style="color:{AXES[colour]}">{escape(name)}</b>' if colour is not None else escape(name)
