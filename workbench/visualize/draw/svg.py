"""Conversion of a drawing to SVG with attributes only, without style sheet or script, so that any notebook shows it."""

from html import escape

from workbench.visualize.draw.drawing_marks import FONT, Area, Disc, Drawing, Label, Mark, Polyline, Rectangle
from workbench.visualize.draw.palette import TEXT

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
