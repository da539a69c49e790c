"""Interactive charts: Bokeh figures that are created once and refilled, from the same records as the pictures."""
