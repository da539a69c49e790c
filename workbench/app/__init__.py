"""The served page: one board a visitor. `serve` starts it."""

from workbench.app.page.fleet import serve_fleet as serve_fleet
from workbench.app.page.guard import verify_origins as verify_origins
from workbench.app.page.serve import LOOPBACK as LOOPBACK
from workbench.app.page.serve import serve as serve
from workbench.app.page.serve import verify_address as verify_address
from workbench.app.page.serve import verify_port as verify_port
