"""The drag-and-drop board: states and gestures in Python, drawn by one ES module. `Workbench` hosts it in a notebook cell."""

from workbench.app.notebook.fleet_board import FleetBoard as FleetBoard
from workbench.app.notebook.workbench import Workbench as Workbench
from workbench.widgets.run.runner import Runner as Runner
