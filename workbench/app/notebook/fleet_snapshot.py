"""A fleet's board as static HTML, shown without a kernel. Tables and plain tags, inline styles only."""

from collections.abc import Mapping
from html import escape
from typing import Any

from workbench.app.notebook.board_snapshot import MOST_ROWS, MOST_SVG
from workbench.visualize.draw.palette import AXES, NEUTRAL
from workbench.visualize.fleet import fleet
from workbench.widgets.fleet.fleet_board import FleetView

_QUIET = f' style="color:{NEUTRAL};font-weight:400"'


def fleet_html(view: FleetView) -> str:
    """Name, figures, models with their shards, the schedule: a few kilobytes, however many units there are."""
    board = view.parts["board"]
    controls = board["controls"]
    memory = f", {controls['memory']} of each" if controls["memory"] else ""
    name = f'<b style="font-size:16px">{escape(board["name"])}</b>'
    heading = f"{name} {escape(board['devices'])}{escape(memory)}, {controls['policy']}"
    parts = [f"<div>{heading}</div>", _figures(board["figures"]), _models(board), _schedule(view)]
    if board["problem"]:
        parts.insert(1, f"<div><b>{escape(board['problem']['message'])}</b></div>")
    style = f"font:13px/1.5 system-ui,sans-serif;border:1px solid {NEUTRAL};border-radius:8px;padding:12px;max-width:960px;overflow-x:auto"
    return f'<div style="{style}">{"".join(parts)}</div>'


def _figures(figures: list[dict[str, Any]]) -> str:
    heads = "".join(f"<td><small{_QUIET}>{escape(each['label'])}</small></td>" for each in figures)
    cells = "".join(f'<td><b style="font-size:16px">{escape(each["text"])}</b></td>' for each in figures)
    return f'<table cellpadding=4 style="margin:8px 0"><tr>{heads}</tr><tr>{cells}</tr></table>'


def _models(board: Mapping[str, Any]) -> str:
    heads = "".join(f"<th>{escape(each)}</th>" for each in ("model", *board["columns"], "epochs", "shards", "alone"))
    rows = "".join(map(_model, board["models"][:MOST_ROWS]))
    more = len(board["models"]) - MOST_ROWS
    rest = f"<tr><td>… {more:,} more</td></tr>" if more > 0 else ""
    return f'<table cellpadding=3 style="margin:4px 0;font-size:12px"><tr{_QUIET}>{heads}</tr>{rows}{rest}</table>'


def _model(model: Mapping[str, Any]) -> str:
    cells = [*model["arguments"], model["epochs"], model["shards_text"], model["seconds"]]
    name = f'<td style="border-left:4px solid {AXES[model["colour"]]};padding-left:8px">{escape(model["name"])}</td>'
    return f"<tr>{name}{''.join(f'<td>{escape(each)}</td>' for each in cells)}</tr>"


def _schedule(view: FleetView) -> str:
    """The run's schedule, else the predicted one; in words where the drawing would be large."""
    if view.seen is None:
        return ""
    picture = fleet(view.measured) if view.measured else fleet(view.seen.schedule, view.seen.jobs)
    svg = picture.svg
    return svg if len(svg) <= MOST_SVG else f'<pre style="font-size:11px;overflow-x:auto">{escape(picture.text)}</pre>'
