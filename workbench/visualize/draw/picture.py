"""A picture and its text equivalent, in each format."""

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
    """A picture. In a notebook it shows as SVG, which stays in the file and needs no kernel, no script and no network; `print` shows
    `text`, which begins with `about`: what it shows, in one line.

    Its drawing and its text are made once they are asked for: a board asks for few of them.
    """

    about: str
    draw: Callable[[], Drawing]
    write: Callable[[], str]

    @classmethod
    def of(cls, drawing: Drawing, text: str) -> "Picture":
        """One that is made already."""
        return cls(text.partition("\n")[0], lambda: drawing, lambda: text)

    @classmethod
    def of_title(cls, text: str) -> "Picture":
        """The first line of a text, where there is nothing to draw under it."""
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
        """A new `bokeh.plotting.figure`: a Bokeh model may be in one document only."""
        from workbench.visualize.draw.bokeh_figure import bokeh_figure

        return bokeh_figure(self.drawing)

    def png(self, ground: str | None = None) -> bytes:
        """The picture as a PNG, twice its size, for sharp screens, on a `ground` as for `save`. Raises `WorkbenchError` where it cannot be
        made here."""
        return _png(self.svg, ground)

    def save(self, path: str | Path, ground: str | None = None) -> Path:
        """Write the picture in the format of the name's suffix: `.svg`, `.png` (twice its size, for sharp screens) or `.txt`; returns where
        it is.

        `ground` is a colour behind it, `white` say; without one it shows through. Raises `WorkbenchError` for any other ending, and where
        nothing can be written.
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
        del include, exclude  # IPython filters by them itself
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
