"""The served page: one board a visitor. `serve` starts it."""

from workbench.app.serve import serve as serve
