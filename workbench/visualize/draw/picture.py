"""A picture and its text equivalent, in each output format."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from workbench.core.installation import install_command
from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.errors import WorkbenchError
from workbench.visualize.draw.drawing_marks import FONT, Area, Disc, Drawing, Label, Mark, Polyline, Rectangle, fit_drawing
from workbench.visualize.draw.palette import TEXT


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


# Conversion of a drawing to SVG with attributes only, without style sheet or script, so that any notebook shows it.


_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
_HATCH = (
    '<defs><pattern id="copy-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<path d="M0 0V5" stroke="{TEXT}" stroke-width="2"/></pattern></defs>'
)


def svg_text(drawing: Drawing, about: str) -> str:
    """One `<svg>` element; `about` is its label for screen readers, and its role is a group if marks are selectable."""
    size = f'width="{_number(drawing.width)}" height="{_number(drawing.height)}"'
    box = f'viewBox="-1 0 {_number(drawing.width)} {_number(drawing.height)}"'
    look = f'font-family="{_FONTS}" font-size="{FONT}" fill="{TEXT}"'
    role = "group" if drawing.reacts else "img"
    hatch = _HATCH if any(rectangle.hatched for rectangle in drawing.rectangles) else ""
    marks = "\n".join(_mark(mark) for mark in drawing.marks)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="{role}" aria-label="{escape(about)}" {look}>'
    return f"{head}{hatch}\n{marks}\n</svg>"


def _mark(mark: Mark) -> str:
    match mark:
        case Rectangle():
            return _rectangle(mark)
        case Label():
            return _label(mark)
        case Disc():
            place = f'cx="{_number(mark.x)}" cy="{_number(mark.y)}" r="{_number(mark.radius)}"'
            return _element("circle", f'{place} fill="{mark.fill}"{_alpha(mark.alpha)}{_about(mark.subject, mark.opens)}', mark.title)
        case Area():
            return _element("polygon", f'points="{_points(mark.points)}" fill="{mark.fill}"{_alpha(mark.alpha)}', mark.title)
        case Polyline():
            return _line(mark)


def _line(mark: Polyline) -> str:
    dashes = ' stroke-dasharray="4 3"' if mark.dashed else ""
    alpha = f' stroke-opacity="{mark.alpha}"' if mark.alpha < 1 else ""
    look = f'fill="none" stroke="{mark.colour}" stroke-width="{_number(mark.width)}"{dashes}{alpha}'
    return _element("polyline", f'points="{_points(mark.points)}" {look}', mark.title)


def _rectangle(mark: Rectangle) -> str:
    place = f'x="{_number(mark.x)}" y="{_number(mark.y)}" width="{_number(mark.width)}" height="{_number(mark.height)}"'
    if mark.round:
        place += f' rx="{_number(mark.round)}"'
    line = f' stroke="{mark.line}"' if mark.line else ""
    clear = ' pointer-events="all"' if not mark.fill and (mark.title or mark.opens) else ""
    alpha = _alpha(mark.alpha) if mark.fill else ""
    body = _element("rect", f'{place} fill="{mark.fill or "none"}"{alpha}{line}{clear}{_about(mark.subject, mark.opens)}', mark.title)
    return body + (f'<rect {place} fill="url(#copy-hatch)" pointer-events="none"/>' if mark.hatched else "")


def _label(mark: Label) -> str:
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    colour = f' fill="{mark.colour}"' if mark.colour != TEXT else ""
    weight = ' font-weight="600"' if mark.bold else ""
    return f'<text x="{_number(mark.x)}" y="{_number(mark.y)}"{anchor}{colour}{weight}>{escape(mark.text)}</text>'


def _element(tag: str, attributes: str, title: str) -> str:
    return f"<{tag} {attributes}><title>{escape(title)}</title></{tag}>" if title else f"<{tag} {attributes}/>"


def _about(subject: str, opens: str) -> str:
    marks = f' data-subject="{escape(subject)}"' if subject else ""
    return marks + (f' data-opens="{escape(opens)}"' if opens else "")


def _points(points: tuple[tuple[float, float], ...]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _alpha(alpha: float) -> str:
    return f' fill-opacity="{alpha}"' if alpha < 1 else ""


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
