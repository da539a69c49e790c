"""The served page: one board a visitor. `serve` starts it."""

from workbench.app.fleet import serve_fleet as serve_fleet
from workbench.app.guard import verify_origins as verify_origins
from workbench.app.serve import LOOPBACK as LOOPBACK
from workbench.app.serve import serve as serve
from workbench.app.serve import verify_address as verify_address
from workbench.app.serve import verify_port as verify_port
