"""The board of a fleet in a notebook cell."""

from collections.abc import Iterable
from pathlib import Path

from workbench.app.notebook.cell_base import BoardCell
from workbench.app.notebook.fleet_snapshot import fleet_html
from workbench.app.runners.worker_fleet_runner import WorkerFleetRunner
from workbench.documents import read_allowed, resolve_fleet
from workbench.multimodel.fleet import Fleet, FleetModel
from workbench.multimodel.fleet_measurement import FleetMeasurement, FleetTimes
from workbench.widgets.fleet.fleet_board import FleetView
from workbench.widgets.fleet.fleet_runner import FleetRunner


class FleetBoard(BoardCell):
    """The board over a fleet of models: a forecast of training them together, and their training as it goes.

        board = wb.FleetBoard("grid.toml")
        board                # choose policy, memory and devices; run, stop a model
        board.fleet          # the fleet as it is asked for now
        board.measurement    # of the last run
        board.add(model)     # one more `FleetModel`, also while the others train

    `times` are units that `engine.measure_units` timed; without them they are timed in a worker process once the board is shown. `runner`
    trains and times, by default the engine in worker processes. `theme` is `auto`, `light` or `dark`. `allow` are modules whose programs a
    fleet file may name besides the zoo's (`documents.load_fleet`). Without a kernel, a static picture is shown.
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
        """Add models, which join the run if there is one. Raises `FleetError` for a name that is taken, or a model that does not fit."""
        self._view.add(*models)

    @property
    def measurement(self) -> FleetMeasurement | None:
        """The measurement of the last finished run."""
        return self._view.measurement

    @property
    def times(self) -> FleetTimes | None:
        """The units timed last."""
        return self._view.times

    def close(self) -> None:
        """Close the board; this also cancels a run."""
        if hasattr(self, "_view"):
            self._view.close()
        super().close()

    def _picture(self) -> str:
        return fleet_html(self._view)

    def __repr__(self) -> str:
        return f"FleetBoard({self.fleet.name}, {self.fleet.policy})"
