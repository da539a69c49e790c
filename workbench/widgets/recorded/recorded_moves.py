"""The moves of a recording: gestures that a board offers for the allowed changes of an answer, as the page sends them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

Gesture = Mapping[str, Any]
LARGEST_AXIS = 1024
FEW_AXES, FEW_STAGES, NEAR_BLOCKS = 3, 4, 4
"""Limits for recording all orders of axes, stage boundaries, and boundary shifts in blocks."""
ROUNDS = ("0", "1", "2")
MOVE_FIELDS: Mapping[str, tuple[str, ...]] = {
    "drop": ("dim", "source", "target"),
    "whole": ("dim",),
    "prioritize": ("dim", "priority"),
    "recipe": ("name", "axes"),
    "order_axes": ("names",),
    "shift_axis": ("axis", "by"),
    "resize": ("axis", "size"),
    "pipeline": ("change", "value"),
    "traced_as": ("option", "name"),
}
"""Fields that identify a move, by verb."""
_STAGE_CONTROLS = ("micro_batches", "schedule", "chunks", "remat")


def move_key(gesture: Gesture) -> str:
    """Return the key of a move, `drop|K||x`: the verb, the dimension, the source zone, the target zone."""
    values = (gesture.get(name, "") for name in MOVE_FIELDS[gesture["verb"]])
    texts = (",".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for value in values)
    return "|".join((gesture["verb"], *texts, *(["add"] if gesture.get("add") else [])))


def moves_of(
    board: Mapping[str, Any], recipes: Mapping[str, Any] | None, stages: Mapping[str, Any] | None, what: Sequence[str]
) -> list[Gesture]:
    """List the moves that a board offers of the kinds in `what`; `recipes` and `stages` are panel states."""
    moves: list[Gesture] = []
    if "mesh" in what:
        moves += _mesh_moves(board)
    if "pipeline" in what and stages:
        moves += _stage_moves(stages)
    moves += [
        choice["gesture"]
        for option in board["program"]["options"]
        if option["key"] in what
        for choice in option["menu"]
        if not choice["ask"]
    ]
    if "layout" in what:
        moves += [*_recipe_moves(recipes), *_layout_moves(board, has_rounds="mesh" not in what)]
    return moves


def _layout_moves(board: Mapping[str, Any], *, has_rounds: bool) -> Iterator[Gesture]:
    """Yield chip drops and menu moves; rounds only with a fixed mesh, to limit their number."""
    zones = board["zones"]
    for zone in zones:
        for chip in zone["chips"]:
            for target in zones:
                if target["axis"] != zone["axis"]:
                    yield {"verb": "drop", "dim": chip["dim"], "source": zone["axis"], "target": target["axis"], "add": False}
            for item in chip["menu"]:
                if has_rounds and len(zone["chips"]) > 1:  # rounds decide which dimension gets the axis
                    yield from (
                        choice["gesture"] for choice in item.get("options", ()) if choice["label"] in ROUNDS and not choice["checked"]
                    )
                gesture = item.get("gesture") or {}
                if not item.get("reason") and (gesture.get("verb") == "whole" or gesture.get("add")):
                    yield gesture


def _recipe_moves(recipes: Mapping[str, Any] | None) -> Iterator[Gesture]:
    for row in recipes["rows"] if recipes else ():
        if row["state"] == "applies":
            yield {"verb": "recipe", "name": row["name"], "axes": row["given"]}


def _mesh_moves(board: Mapping[str, Any]) -> Iterator[Gesture]:
    """Yield every order of a few axes, dragged or shifted by one; and each axis doubled or halved."""
    axes = {zone["axis"]: int(zone["size"]) for zone in board["zones"] if zone["axis"]}
    names = list(axes)
    if len(names) <= FEW_AXES:
        yield from ({"verb": "order_axes", "names": list(order)} for order in permutations(names) if list(order) != names)
    for place, name in enumerate(names):
        for by in (-1, 1):
            if 0 <= place + by < len(names):
                yield {"verb": "shift_axis", "axis": name, "by": by}
    for name, size in axes.items():
        for other in (size // 2, size * 2):
            if 1 <= other <= LARGEST_AXIS and other != size:
                yield {"verb": "resize", "axis": name, "size": str(other)}


def _stage_moves(stages: Mapping[str, Any]) -> Iterator[Gesture]:
    """Yield the options of menus and sliders, the ways to balance the stages, and boundary moves of a few stages."""
    for control in stages["controls"]:
        if control["key"] in _STAGE_CONTROLS:
            for choice in control["options"]:
                if choice["value"] != control["value"]:
                    yield _stage_move(control["key"], choice["value"])
    if stages["kind"] != "pipeline":
        return
    yield from (_stage_move(choice["key"], "") for choice in stages["balances"] if not choice["on"])
    if stages["board"]["stages"] <= FEW_STAGES:
        yield from _boundary_moves(stages["board"])


def _stage_move(change: str, value: str) -> Gesture:
    return {"verb": "pipeline", "change": change, "value": value, "zone": "#pipeline"}


def _boundary_moves(board: Mapping[str, Any]) -> Iterator[Gesture]:
    """Yield moves of each boundary to nearby blocks that leave no stage empty."""
    starts, blocks = [0, *board["starts"], len(board["blocks"])], board["blocks"]
    for piece in range(1, len(starts) - 1):
        for place in range(starts[piece - 1] + 1, starts[piece + 1]):
            if 0 < abs(place - starts[piece]) <= NEAR_BLOCKS:
                yield _stage_move("boundary", f"{piece} {blocks[place]['path']}")
