"""Building blocks of the tabs as JSON: tables, pictures, edit buttons, and compositions of a number.

A cell is a text, or one of `{"text", "title", "tone"}`, `{"path", "count"}` (truncated at its front), `{"dims": [...]}`
(named dimensions coloured by mesh axis), `{"axes": [...]}` (mesh axes), `{"share": 0..1, "text"}` (a bar), `{"edits":
[...]}` (edit buttons), `{"terms": [...]}` (glossary terms) and `{"stack": [cells]}` (cells in a column, with optional
`lead` before and `beside` after one).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.analysis.conflict_remedies import resolving_edits
from workbench.core import fact_page
from workbench.core.mesh import Mesh
from workbench.core.sharding import Sharding, base_axis
from workbench.plan.edits import Edit, EditGroup
from workbench.plan.mesh_edits import RenameAxis
from workbench.reports.propagation_records import Conflict
from workbench.reports.report import Report
from workbench.session.plan_history import Session
from workbench.units import format_bytes, format_figure, format_seconds
from workbench.visualize.charts.chart import Chart
from workbench.visualize.draw.palette import number_axes
from workbench.visualize.draw.picture import Picture
from workbench.widgets.board.background_queries import BackgroundQueries, compute_in_background
from workbench.widgets.board.layer_folding import fold_paths, template
from workbench.widgets.gestures.gesture import TABLES, Gesture
from workbench.widgets.gestures.setup_gestures import DecideGesture

Cell = Any
Row = dict[str, Any]
Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `title` is the tooltip."""

    label: str
    number: bool = False
    title: str = ""


def block(title: str, columns: tuple[Column, ...], rows: list[Row], note: str = "") -> Block:
    heads = [{"label": column.label, "number": column.number, "title": column.title} for column in columns]
    return {"title": title, "columns": heads, "rows": rows, "note": note, "picture": None}


@dataclass(frozen=True, slots=True)
class Control:
    """A button beside a text that presses or focuses a board control, given by its `data-focus` name."""

    label: str
    name: str


CHOOSE_HARDWARE, COMPILE, RUN = Control("Choose hardware", "hw-chip"), Control("Compile", "compile"), Control("Run", "run")


def note_block(note: str, *controls: Control) -> Block:
    """Build a placeholder text, with the controls that would change it."""
    shown = [{"label": control.label, "name": control.name} for control in controls]
    return {**block("", (), [], note), **({"controls": shown} if shown else {})}


@dataclass(frozen=True, slots=True)
class Opens:
    """The gesture of a click on a mark, and its field for the name of the mark."""

    kind: type[Gesture]
    field: str


def picture_block(
    picture: Picture, note: str = "", name: str = "picture", opens: Opens | None = None, charts: Sequence[Chart] = ()
) -> Block:
    """Build a picture and its text alternative; `charts` are interactive versions, `name` is the file name."""
    gesture = {"verb": opens.kind.verb, "field": opens.field} if opens else None
    drawn = {"name": name, "about": picture.about, "opens": gesture, "charts": [chart.state for chart in charts]}
    return {**note_block(note), "picture": {**drawn, "made": picture}}


def as_json(block: Block, is_asked: Callable[[str], bool]) -> Block:
    """Render a block's picture; hidden forms, which can be slow, stay `None` until requested by name."""
    if not block["picture"]:
        return block
    picture = dict(block["picture"])
    made, is_requested = picture.pop("made"), is_asked(picture["name"])
    svg = made.svg if is_requested or not picture["charts"] else None
    return {**block, "picture": {**picture, "svg": svg, "text": made.text if is_requested else None}}


def row(key: str, *cells: Cell, subject: str = "", tone: str = "") -> Row:
    """Build a table row; `subject` is the selectable path, `tone` "bad" highlights the row."""
    return {"key": key, "cells": list(cells), "subject": subject, "tone": tone}


def axis_colours(session: Session, mesh: Mesh | None = None) -> dict[str, int]:
    """Return the colour of each axis of a mesh, by default the present one; an axis keeps its colour when renamed."""
    return number_axes(((node.plan.mesh, _renamed_axes(node.edit)) for node in session.nodes), mesh or session.plan.mesh)


def _renamed_axes(edit: Edit | None) -> dict[str, str]:
    match edit:
        case RenameAxis():
            return {edit.axis: edit.name}
        case EditGroup():
            return {old: new for inner in edit.edits for old, new in _renamed_axes(inner).items()}
    return {}


@dataclass(frozen=True, slots=True)
class Paint:
    """Builds cells in the colours of the mesh axes."""

    colours: dict[str, int]

    def sharding_cell(self, sharding: Sharding, names: tuple[str, ...] = (), *, with_axes: bool = True) -> Cell:
        """Build a sharding cell with one tag per dimension: `batch:data`, `seq`; unnamed `data`, `-`, `?`."""
        tags = [_dim_tag(names[place] if place < len(names) else "", axes) for place, axes in enumerate(sharding.dims)]
        if not with_axes:
            tags = [(name, title) for name, (_, title) in zip(names, tags, strict=False)]
        colours = [[self.colours.get(base_axis(axis)) for axis in axes or ()] for axes in sharding.dims]
        shown = [{"name": text, "title": title, "colours": dim_colours} for (text, title), dim_colours in zip(tags, colours, strict=True)]
        return {"dims": shown} if shown else "scalar"

    def axes(self, axes: tuple[str, ...]) -> Cell:
        return {"axes": [{"name": axis, "colour": self.colours.get(base_axis(axis))} for axis in axes]}

    def dims(self, names: tuple[str, ...], shape: tuple[int, ...], sharding: Sharding) -> Cell:
        entries = zip(names, shape, sharding.dims, strict=True)
        return {
            "dims": [
                {
                    "name": name if name not in ("", "_") else str(size),
                    "title": f"{name or 'unnamed'} = {size}, " + (f"split over {' then '.join(axes)}" if axes else "whole on every device"),
                    "colours": [self.colours.get(base_axis(axis)) for axis in axes or ()],
                }
                for name, size, axes in entries
            ]
        }


def _dim_tag(name: str, axes: tuple[str, ...] | None) -> tuple[str, str]:
    if axes is None:
        return f"{name} ?".strip(), "left to propagation"
    over = "+".join(axes)
    if not over:
        return name or "-", "whole on every device"
    return f"{name}:{over}" if name else over, f"split over {' then '.join(axes)}"


def byte_cell(count: int) -> Cell:
    return {"text": format_bytes(count), "title": f"{count:,} bytes"} if count else {"text": "–", "tone": "muted"}


def seconds_cell(seconds: float, tone: str = "", title: str = "") -> Cell:
    if not seconds:
        return {"text": "–", "tone": "muted", "title": title}
    return {"text": format_seconds(seconds), "title": title or f"{seconds:.3e} s", "tone": tone}


def dtype_cell(name: str) -> Cell:
    """Abbreviate a dtype as JAX does: `float32` as `f32`."""
    return {"text": re.sub(r"^(b?)(float|int|uint|complex)", lambda match: match[1] + match[2][0], name), "title": name, "tone": "muted"}


def rest_text(count: int, most: int, advice: str = "") -> str:
    return f"The first {most} of {count:,}.{advice}" if count > most else ""


def page_blocks(shown: fact_page.Page, paint: Paint, most: int) -> Iterator[Block]:
    for part in shown.parts:
        if isinstance(part, str):
            yield note_block(part)
        elif part.rows or part.note:
            yield table_block(part, paint, most)
            if part.terms:
                yield _terms_block(part)


def table_block(table: fact_page.Table, paint: Paint, most: int) -> Block:
    titles = dict(table.titles)
    labels = [(name.rstrip(">~+"), name) for name in table.columns]
    columns = tuple(Column(label, number=name.endswith(">"), title=titles.get(label, "")) for label, name in labels)
    rows = [
        row(page_row.key or page_row.cells[0].text, *(_page_cell(cell, paint) for cell in page_row.cells), subject=page_row.subject)
        for page_row in table.rows[:most]
    ]
    return block(table.heading or table.title, columns, rows, f"{table.note} {rest_text(len(table.rows), most)}".strip())


def _terms_block(table: fact_page.Table) -> Block:
    rows = [row(name, {"text": name, "tone": "strong"}, {"text": f"{meaning}.", "wrap": True}) for name, meaning in table.terms]
    return block("Causes", (Column("cause"), Column("what happens")), rows)


def _page_cell(cell: fact_page.PageCell, paint: Paint) -> Cell:
    match cell.kind:
        case "axes":
            return paint.axes(cell.value)
        case "path":
            return {"path": cell.value or "–", "count": f"×{cell.times}" if cell.times > 1 else ""}
        case "bytes" | "seconds" | "FLOP":
            return _amount_cell(cell)
        case "sharding":
            return paint.sharding_cell(cell.value, cell.names, with_axes=not cell.names)
        case "edits":
            return {"edits": list(cell.value)}
        case "pair":
            most = max(cell.value) or 1
            return {"pair": [round(amount / most, 4) for amount in cell.value], "tone": cell.tone}
    toned = {name: value for name, value in (("title", cell.title), ("tone", cell.tone)) if value}
    return {"text": str(cell.value), **toned} if toned else str(cell.value)


def _amount_cell(cell: fact_page.PageCell) -> Cell:
    if cell.value is None or not (cell.value or cell.is_figure):
        return {"text": "–", "tone": "muted"}
    exact = f"{cell.value:.3e} s" if cell.kind == "seconds" else f"{cell.value:,.0f} {cell.kind}"
    return {"text": format_figure(cell.value, cell.kind), "title": cell.title or exact, "tone": cell.tone}


# Buttons in the tabs.


def edits_cell(report: Report, conflict: Conflict, background: BackgroundQueries | None) -> Cell:
    """Build buttons for the edits that resolve a conflict, once found."""
    name = f"decide {conflict.first.wanted} {conflict.first.giver}"
    edits = compute_in_background(background, report, name, lambda: resolving_edits(report, conflict), patience=0.0)
    if edits is None:
        return {"text": "trying…", "tone": "muted"}
    return (
        buttons_cell(*(edit_button(edit) for edit in edits))
        if edits
        else {"text": "only a different program or mesh", "tone": "muted", "wrap": True}
    )


def edit_button(edit: Edit, label: str = "") -> dict[str, Any]:
    return act(label or str(edit), DecideGesture(str(edit), zone=TABLES))


def act(label: str, gesture: Gesture, **more: str) -> dict[str, Any]:
    return {"label": label, "gesture": gesture.as_message(), **more}


def buttons_cell(*each: dict[str, Any]) -> Cell:
    return {"acts": list(each)}


def find_edit(text: str, report: Report, known: Callable[[Report], dict[str, Any]]) -> Edit | None:
    """Return the edit with this text among those found for a report."""
    for answer in known(report).values():
        edits = answer if isinstance(answer, tuple) else [getattr(answer, "edit", None)]
        for edit in edits:
            if edit is not None and str(edit) == text:
                return edit
    return None


# The composition of a number as a table: each part with its share, largest first.

MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part of a number; equal parts of repeated layers are merged. `count` 0 means not counted."""

    path: str
    amount: float
    source: str = ""
    shade: int = 0
    notes: tuple[Cell, ...] = ()
    count: int = 0  # 0: not counted


def parts_table(
    what: str, columns: tuple[Column, ...], parts: Iterable[Contribution], show: Callable[[float], str], amount: str = "on one device"
) -> Block:
    """Build a table of parts with their shares, equal layers merged, largest first."""
    merged = sorted(_merge_alike(parts), key=lambda entry: -entry[0].amount)
    total = sum(part.amount for part, _ in merged) or 1.0
    counted = any(part.count for part, _ in merged)
    times = (Column("times", number=True, title="a step"),) * counted
    heads = (Column("share"), Column(amount, number=True), Column(what), *columns, *times, Column("line"))
    rows = [_part_row(place, part, subject, total, show, counted=counted) for place, (part, subject) in enumerate(merged[:MOST_ROWS])]
    rest = total - sum(part.amount for part, _ in merged[:MOST_ROWS])
    more = rest_text(len(merged), MOST_ROWS)
    return block("", heads, rows, f"{more} The others make {rest / total:.1%}." if more else "")


def _part_row(place: int, part: Contribution, subject: str, total: float, show: Callable[[float], str], *, counted: bool) -> Row:
    share = part.amount / total
    return row(
        f"{place} {part.path}",
        {"share": round(share, 6), "shade": part.shade, "text": f"{share:.1%}"},
        {"text": show(part.amount)},
        {"path": part.path, "title": part.path},
        *part.notes,
        *([f"{part.count:,}" if part.count else ""] * counted),
        {"text": part.source, "tone": "muted"},
        subject=subject,
    )


def _merge_alike(parts: Iterable[Contribution]) -> Iterator[tuple[Contribution, str]]:
    alike: dict[str, list[Contribution]] = {}
    for part in parts:
        alike.setdefault(f"{template(part.path)} {part.source} {part.shade} {part.notes}", []).append(part)
    for members in alike.values():
        first = members[0]
        subject, label = fold_paths(list(dict.fromkeys(member.path for member in members)))
        yield (
            Contribution(
                label,
                sum(member.amount for member in members),
                first.source,
                first.shade,
                first.notes,
                sum(member.count for member in members),
            ),
            subject,
        )
