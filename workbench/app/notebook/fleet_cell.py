"""The board of a fleet in a notebook cell."""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from workbench.app.notebook.board_snapshot import MOST_ROWS, MOST_SVG, QUIET, card_html, figures_html
from workbench.app.notebook.cell_base import BoardCell
from workbench.app.runners.worker_runner import WorkerFleetRunner
from workbench.core.parse_untrusted import read_allowed
from workbench.documents import resolve_fleet
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.visualize.draw.palette import AXES
from workbench.visualize.fleet_gantt import fleet
from workbench.widgets.fleet.fleet_board import FleetView
from workbench.widgets.fleet.fleet_jobs import FleetRunner


class FleetBoard(BoardCell):
    """The board over a fleet of models: a forecast of training them together, and their training in progress.

        board = wb.FleetBoard("grid.toml")
        board                # choose policy, memory and devices; run, stop a model
        board.fleet          # the fleet with the present settings
        board.measurement    # of the last run
        board.add(model)     # one more `FleetModel`, also during training

    `times` are unit times, as `engine.measure_units` returns them; by default a worker process measures them when the
    board is shown. `runner` trains and times, by default in worker processes. `theme` is `auto`, `light` or `dark`. `allow` are
    modules, besides the zoo, whose programs a fleet file may name (`documents.load_fleet`). Without a kernel a static
    picture is shown.
    """

    def __init__(
        self,
        fleet: Fleet | str | Path,
        times: FleetTimes | None = None,
        runner: FleetRunner | None = None,
        theme: str = "auto",
        allow: str | Iterable[str] = (),
    ) -> None:
        view = FleetView(
            resolve_fleet(fleet, allow),
            runner or WorkerFleetRunner(),
            times,
            path="" if isinstance(fleet, Fleet) else str(fleet),
            allow=read_allowed(allow),
        )
        super().__init__(theme, when_shown=view.look)
        self._view = view
        for part, state in view.parts.items():
            self._show(part, state)
        view.watch(self._show)
        self.observe(lambda change: view.answer(change["new"]), "gesture")

    @property
    def fleet(self) -> Fleet:
        return self._view.fleet

    def add(self, *models: FleetModel) -> None:
        """Add models, which join a run. Raises `FleetError` for a duplicate name or a model that does not fit."""
        self._view.add(*models)

    @property
    def measurement(self) -> FleetMeasurement | None:
        return self._view.measurement

    @property
    def times(self) -> FleetTimes | None:
        """The most recent unit times."""
        return self._view.times

    def close(self) -> None:
        """Close the board and cancel its run."""
        if hasattr(self, "_view"):
            self._view.close()
        super().close()

    def _picture(self) -> str:
        return fleet_html(self._view)

    def __repr__(self) -> str:
        return f"FleetBoard({self.fleet.name}, {self.fleet.policy})"


# A fleet's board as static HTML, shown without a kernel. Tables and plain tags, inline styles only.


def fleet_html(view: FleetView) -> str:
    """Render name, figures, models with shards, and schedule in a few kilobytes, whatever the number of units."""
    board = view.parts["board"]
    controls = board["controls"]
    memory = f", {controls['memory']} of each" if controls["memory"] else ""
    name = f'<b style="font-size:16px">{escape(board["name"])}</b>'
    heading = f"{name} {escape(board['devices'])}{escape(memory)}, {controls['policy']}"
    parts = [f"<div>{heading}</div>", figures_html(board["figures"]), _models(board), _schedule(view)]
    if board["problem"]:
        parts.insert(1, f"<div><b>{escape(board['problem']['message'])}</b></div>")
    return card_html(parts)


def _models(board: Mapping[str, Any]) -> str:
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in ("model", *board["columns"], "epochs", "shards", "alone"))
    rows = "".join(map(_model, board["models"][:MOST_ROWS]))
    more = len(board["models"]) - MOST_ROWS
    rest = f"<tr><td>… {more:,} more</td></tr>" if more > 0 else ""
    return f'<table cellpadding=3 style="margin:4px 0;font-size:12px"><tr{QUIET}>{heads}</tr>{rows}{rest}</table>'


def _model(model: Mapping[str, Any]) -> str:
    cells = [*model["arguments"], model["epochs"], model["shards_text"], model["seconds"]]
    name = f'<td style="border-left:4px solid {AXES[model["colour"]]};padding-left:8px">{escape(model["name"])}</td>'
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _schedule(view: FleetView) -> str:
    """Render the measured schedule, else the predicted one; as text if the drawing would be large."""
    if view.seen is None:
        return ""
    picture = fleet(view.measured) if view.measured else fleet(view.seen.schedule, view.seen.jobs)
    svg = picture.svg
    return svg if len(svg) <= MOST_SVG else f'<pre style="font-size:11px;overflow-x:auto">{escape(picture.text)}</pre>'
