"""Drawing: shapes and colours, as SVG and as Bokeh figures; it knows nothing of plans."""
