"""A picture and its text equivalent, in each output format."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.core.installation import install_command
from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.errors import WorkbenchError
from workbench.visualize.draw.drawing_marks import Drawing, Label, fit_drawing
from workbench.visualize.draw.svg import svg_text


@dataclass(frozen=True, repr=False)
class Picture:
    """A drawing and its text equivalent, computed on first use; a notebook shows static SVG.

    `about` is the first line of `text`, a summary of the picture.
    """

    about: str
    draw: Callable[[], Drawing]
    write: Callable[[], str]

    @classmethod
    def of(cls, drawing: Drawing, text: str) -> "Picture":
        """A picture from a finished drawing and text."""
        return cls(text.partition("\n")[0], lambda: drawing, lambda: text)

    @classmethod
    def of_title(cls, text: str) -> "Picture":
        """A picture of the first line of `text` alone, for data with nothing to draw."""
        title = text.partition("\n")[0]
        return cls.of(fit_drawing((Label(0, 12, title, bold=True),)), text)

    @cached_property
    def drawing(self) -> Drawing:
        return self.draw()

    @cached_property
    def text(self) -> str:
        return self.write()

    @cached_property
    def svg(self) -> str:
        return svg_text(self.drawing, self.about)

    @property
    def figure(self) -> Any:
        """A new `bokeh.plotting.figure`; a Bokeh model can be in one document only."""
        from workbench.visualize.draw.bokeh_figure import bokeh_figure

        return bokeh_figure(self.drawing)

    def png(self, ground: str | None = None) -> bytes:
        """The picture as a PNG at twice its size. Raises `WorkbenchError` if it cannot be made."""
        return _png(self.svg, ground)

    def save(self, path: str | Path, ground: str | None = None) -> Path:
        """Write the picture as `.svg`, `.png` (at twice its size) or `.txt`, by the suffix; returns the path.

        `ground` is the background colour of a PNG, transparent by default. Raises `WorkbenchError` for another suffix
        or if the file cannot be written.
        """
        target = Path(path)
        match target.suffix.lower():
            case ".svg":
                content = self.svg.encode()
            case ".txt":
                content = f"{self.text}\n".encode()
            case ".png":
                content = self.png(ground)
            case _:
                raise WorkbenchError(f"A picture cannot be saved as `{target.name}`.", ["use a name ending in .svg, .png or .txt"])
        with explain_write_errors(target, WorkbenchError):
            replace_file(target, content)
        return target

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Picture({self.about!r})"

    def _repr_mimebundle_(self, include: Collection[str] | None = None, exclude: Collection[str] | None = None) -> dict[str, str]:
        del include, exclude  # IPython applies the filters itself
        return {"image/svg+xml": self.svg, "text/plain": self.text}


def _png(svg: str, ground: str | None) -> bytes:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        ways_out = [install_command("app"), "save it as .svg"]
        raise WorkbenchError("A picture becomes a PNG through `resvg-py`, which is not installed.", ways_out) from None
    try:
        return bytes(svg_to_bytes(svg_string=svg, zoom=2, background=ground, monospace_family="DejaVu Sans Mono"))
    except ValueError as error:
        raise WorkbenchError(f"The picture could not be made into a PNG: {error}.", ["save it as .svg"]) from None
