"""The served page: one board a visitor. `serve` starts it."""

from workbench.app.fleet import serve_fleet as serve_fleet
from workbench.app.serve import serve as serve
from workbench.app.serve import verify_port as verify_port
