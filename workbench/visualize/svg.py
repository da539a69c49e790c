"""A drawing as SVG: attributes alone, no style sheet and no script, so that it shows wherever a notebook does."""

from html import escape

from workbench.visualize.drawing import FONT, Area, Drawing, Label, Mark, Rectangle
from workbench.visualize.palette import TEXT

_FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
_HATCH = (
    '<defs><pattern id="copy-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<path d="M0 0V5" stroke="{TEXT}" stroke-width="2"/></pattern></defs>'
)


def svg_text(drawing: Drawing, about: str) -> str:
    """One `<svg>` element; `about` is read to those who do not see it."""
    size = f'width="{_number(drawing.width)}" height="{_number(drawing.height)}"'
    box = f'viewBox="-1 0 {_number(drawing.width)} {_number(drawing.height)}"'
    look = f'font-family="{_FONTS}" font-size="{FONT}" fill="{TEXT}"'
    hatch = _HATCH if any(each.hatched for each in drawing.rectangles) else ""
    marks = "\n".join(_mark(mark) for mark in drawing.marks)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} role="img" aria-label="{escape(about)}" {look}>{hatch}\n{marks}\n</svg>'


def _mark(mark: Mark) -> str:
    if isinstance(mark, Area):
        return _area(mark)
    return _label(mark) if isinstance(mark, Label) else _rectangle(mark)


def _area(mark: Area) -> str:
    points = " ".join(f"{_number(x)},{_number(y)}" for x, y in mark.points)
    alpha = f' fill-opacity="{mark.alpha}"' if mark.alpha < 1 else ""
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    return f'<polygon points="{points}" fill="{mark.fill}"{alpha}>{title}</polygon>'


def _rectangle(mark: Rectangle) -> str:
    place = f'x="{_number(mark.x)}" y="{_number(mark.y)}" width="{_number(mark.width)}" height="{_number(mark.height)}"'
    alpha = f' fill-opacity="{mark.alpha}"' if mark.fill and mark.alpha < 1 else ""
    line = f' stroke="{mark.line}"' if mark.line else ""
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    body = f'<rect {place} fill="{mark.fill or "none"}"{alpha}{line}>{title}</rect>'
    return body + (f'<rect {place} fill="url(#copy-hatch)" pointer-events="none"/>' if mark.hatched else "")


def _label(mark: Label) -> str:
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    colour = f' fill="{mark.colour}"' if mark.colour != TEXT else ""
    weight = ' font-weight="600"' if mark.bold else ""
    return f'<text x="{_number(mark.x)}" y="{_number(mark.y)}"{anchor}{colour}{weight}>{escape(mark.text)}</text>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
