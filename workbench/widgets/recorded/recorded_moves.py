"""The moves that a recording holds: what a board offers for what a question lets an answer change, each as the page would send it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

Gesture = Mapping[str, Any]
LARGEST_AXIS = 1024
FEW_AXES, FEW_STAGES, NEAR_BLOCKS = 3, 4, 4
"""Of so many axes at most every order is recorded, and of so many stages the boundaries, each moved by so many blocks."""
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
"""What a move is known by, by its verb."""
_STAGE_CONTROLS = ("micro_batches", "schedule", "chunks", "remat")


def move_key(gesture: Gesture) -> str:
    """What a move is known by: `drop|K||x`, the dimension, the zone it comes from, the zone it is dropped on."""
    values = (gesture.get(name, "") for name in MOVE_FIELDS[gesture["verb"]])
    texts = (",".join(map(str, each)) if isinstance(each, list | tuple) else str(each) for each in values)
    return "|".join((gesture["verb"], *texts, *(["add"] if gesture.get("add") else [])))


def moves_of(
    board: Mapping[str, Any], recipes: Mapping[str, Any] | None, stages: Mapping[str, Any] | None, what: Sequence[str]
) -> list[Gesture]:
    """The moves that a board offers, `what` says of which kinds: as `may_change` of a question. `recipes` is their list, where it is open;
    `stages` the board of the stages."""
    moves: list[Gesture] = []
    if "mesh" in what:
        moves += _mesh_moves(board)
    if "pipeline" in what and stages:
        moves += _stage_moves(stages)
    moves += [
        each["gesture"] for option in board["program"]["options"] if option["key"] in what for each in option["menu"] if not each["ask"]
    ]
    if "layout" in what:
        moves += [*_recipe_moves(recipes), *_layout_moves(board, has_rounds="mesh" not in what)]
    return moves


def _layout_moves(board: Mapping[str, Any], *, has_rounds: bool) -> Iterator[Gesture]:
    """Each chip of each zone, dropped on each other zone; and what the chip's menu offers beside. Rounds only where the mesh stays as
    it is: there is enough to be recorded else."""
    zones = board["zones"]
    for zone in zones:
        for chip in zone["chips"]:
            for target in zones:
                if target["axis"] != zone["axis"]:
                    yield {"verb": "drop", "dim": chip["dim"], "source": zone["axis"], "target": target["axis"], "add": False}
            for item in chip["menu"]:
                if has_rounds and len(zone["chips"]) > 1:  # rounds decide which of them has the axis
                    yield from (each["gesture"] for each in item.get("options", ()) if each["label"] in ROUNDS and not each["checked"])
                gesture = item.get("gesture") or {}
                if not item.get("reason") and (gesture.get("verb") == "whole" or gesture.get("add")):
                    yield gesture


def _recipe_moves(recipes: Mapping[str, Any] | None) -> Iterator[Gesture]:
    for row in recipes["rows"] if recipes else ():
        if row["state"] == "applies":
            yield {"verb": "recipe", "name": row["name"], "axes": row["given"]}


def _mesh_moves(board: Mapping[str, Any]) -> Iterator[Gesture]:
    """Every order of few axes, dragged or one place at a time; each axis twice as long, or half."""
    axes = {zone["axis"]: int(zone["size"]) for zone in board["zones"] if zone["axis"]}
    names = list(axes)
    if len(names) <= FEW_AXES:
        yield from ({"verb": "order_axes", "names": list(each)} for each in permutations(names) if list(each) != names)
    for place, name in enumerate(names):
        for by in (-1, 1):
            if 0 <= place + by < len(names):
                yield {"verb": "shift_axis", "axis": name, "by": by}
    for name, size in axes.items():
        for other in (size // 2, size * 2):
            if 1 <= other <= LARGEST_AXIS and other != size:
                yield {"verb": "resize", "axis": name, "size": str(other)}


def _stage_moves(stages: Mapping[str, Any]) -> Iterator[Gesture]:
    """What its menus and its slider offer, the ways to balance the stages, and the boundaries of few."""
    for control in stages["controls"]:
        if control["key"] in _STAGE_CONTROLS:
            for each in control["options"]:
                if each["value"] != control["value"]:
                    yield _stage_move(control["key"], each["value"])
    if stages["kind"] != "pipeline":
        return
    yield from (_stage_move(each["key"], "") for each in stages["balances"] if not each["on"])
    if stages["board"]["stages"] <= FEW_STAGES:
        yield from _boundary_moves(stages["board"])


def _stage_move(change: str, value: str) -> Gesture:
    return {"verb": "pipeline", "change": change, "value": value, "zone": "#pipeline"}


def _boundary_moves(board: Mapping[str, Any]) -> Iterator[Gesture]:
    """Each boundary to each near block where it may be: every stage keeps one."""
    starts, blocks = [0, *board["starts"], len(board["blocks"])], board["blocks"]
    for piece in range(1, len(starts) - 1):
        for place in range(starts[piece - 1] + 1, starts[piece + 1]):
            if 0 < abs(place - starts[piece]) <= NEAR_BLOCKS:
                yield _stage_move("boundary", f"{piece} {blocks[place]['path']}")
