"""How pictures are drawn: shapes and colours, as SVG and as Bokeh figures; nothing of plans."""
