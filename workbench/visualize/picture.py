"""A picture and its text twin, in each form that one may want it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from workbench.visualize.drawing import Drawing
from workbench.visualize.svg import svg_text


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """In a notebook it shows as SVG, which stays in the file and needs no kernel, no script and no network; `print` shows `text`."""

    drawing: Drawing
    text: str

    @property
    def about(self) -> str:
        """What it shows, in one line."""
        return self.text.partition("\n")[0]

    @property
    def svg(self) -> str:
        return svg_text(self.drawing, self.about)

    @property
    def figure(self) -> Any:
        """A new `bokeh.plotting.figure`: a Bokeh model may stand in one document only."""
        from workbench.visualize.figure import bokeh_figure

        return bokeh_figure(self.drawing)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Picture({self.about!r})"

    def _repr_mimebundle_(self, include: Collection[str] | None = None, exclude: Collection[str] | None = None) -> dict[str, str]:
        del include, exclude  # IPython filters by them itself
        return {"image/svg+xml": self.svg, "text/plain": self.text}
