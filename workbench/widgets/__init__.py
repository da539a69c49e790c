"""The drag-and-drop board: states and gestures in Python, drawn by one ES module. `Workbench` hosts it in a notebook cell."""

from workbench.widgets.fleet_notebook import FleetBoard as FleetBoard
from workbench.widgets.notebook import Workbench as Workbench
from workbench.widgets.runner import Runner as Runner
