"""Charts that are explored: Bokeh figures of the same records that the pictures are drawn from, filled anew without being made anew."""
