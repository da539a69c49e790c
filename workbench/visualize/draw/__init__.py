"""Drawing primitives: shapes and colours as SVG and as Bokeh figures, independent of plans."""
