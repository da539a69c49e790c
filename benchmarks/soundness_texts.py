"""Random and hostile texts for `soundness_documents.py`: plan documents, links, fleet files, gestures. A good share of them is legal."""

import base64
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

NOBODY = "of_nobody"
"""A module that lies on the path, that nobody has allowed."""
_TARGETS = ("antigravity:build", f"{NOBODY}:build", "os:system", "this:s", "unittest.__main__:main", "workbench:load", f"{NOBODY}.sub:x")
_NUMBERS = (0, -1, 1, 2, 3, 7, 64, 1000, 65_536, 2**20, 2**20 + 1, 2**31, 2**40, 10**18, 2**63, 10**30, 10**50, 1.0, 0.5, 1e308, True)
_WORDS = (
    "",
    "x",
    "a" * 100_000,
    "\ud800",
    "<script>alert(1)</script>",
    "\u202e",
    "\0",
    "../../etc/passwd",
    "*" * 400,
    "**/" * 160,
    "p" * 600,
)
_MODELS = ("two_layer",) * 14 + ("mnist",) * 3 + ("gpt", "gpt", "decoder", "mixture", "t5", "conformer", "unet", "deep_unet")
_DIMS = {"two_layer": ("batch", "io", "hidden"), "mnist": ("batch", "hidden")}
_MESHES = ((("data", 4), ("model", 2)), (("data", 2),), (("data", 2), ("model", 2), ("pipe", 2)), (("data", 16), ("model", 64)), ())


@dataclass(frozen=True)
class Case:
    """One text, and what it is: a plan, a link, a fleet or a gesture."""

    number: int
    kind: str
    text: str

    @property
    def shown(self) -> str:
        return ascii(self.text if len(self.text) < 600 else f"{self.text[:400]} … {self.text[-100:]}")


def draw_case(number: int, random: Random) -> Case:
    """The case of a number, the same for the same state of `random`."""
    kind = random.choice(("plan", "plan", "plan", "link", "link", "fleet", "gesture", "gesture"))
    text = {"plan": _plan_text, "link": _link_text, "fleet": _fleet_text, "gesture": _gesture_text}[kind](random)
    return Case(number, kind, text)


def _plan(random: Random) -> dict[str, Any]:
    """A plan that is legal more often than not."""
    model = random.choice(_MODELS)
    mesh = random.choice(_MESHES)
    names = [name for name, _ in mesh]
    dims = list(_DIMS.get(model, ("batch", "d_ff", "heads", "hidden")))
    random.shuffle(dims)
    random.shuffle(names)
    rules = {dim: axis for dim, axis in zip(dims, names, strict=False) if random.random() < 0.8}
    layout: dict[str, Any] = {"rules": rules}
    if model == "two_layer" and random.random() < 0.4:
        layout["overrides"] = {random.choice(("w", "v", "*")): random.choice(("[-, -]", "[?, -]", "[data, -]"))}
    if model == "two_layer" and random.random() < 0.3:
        layout["constraints"] = {random.choice(("first/dot_general", "second/**", "first/*")): random.choice(("[data, ?]", "[-, ?]"))}
    if random.random() < 0.1:
        layout["barriers"] = {"@first/dot_general": random.choice(("none", "forward"))}
    arguments = {"batch": 64 * random.choice((1, 2, 16))} if model in _DIMS else {}
    plan = {"name": f"plan {random.random()}", "program": {"target": model, "arguments": arguments}, "mesh": list(map(list, mesh))}
    if random.random() < 0.3:
        plan["hardware"] = random.choice(("TPU v5e 2x4", "TPU v5p 4x4x4", "8 H100", "32 nodes of 8 H100", "4 slices of TPU v5e 16x16"))
    if model == "mnist" and random.random() < 0.3:
        plan["precision"] = "bfloat16"
    return {"format": "sharding-workbench.plan", "version": 1, **plan, "layout": layout}


def _plan_text(random: Random) -> str:
    if random.random() < 0.05:
        return random.choice(
            ("[" * 100_000, '{"a":' * 50_000, "", "null", '{"format": NaN}', "9" * 5000, '{"x": ' + "1" * 5000 + "}", "\ud800")
        )
    plan = _plan(random)
    if random.random() < 0.5:
        random.choice(_PLAN_ATTACKS)(plan, random)
    text = json.dumps(plan)
    if random.random() < 0.05:
        cut = random.randrange(len(text))
        text = text[:cut] + random.choice(("", "}", '"', "\0", "é")) + text[cut + random.randrange(3) :]
    return text


def _link_text(random: Random) -> str:
    raw = zlib.compress(_plan_text(random).encode(errors="replace"), 9)
    if random.random() < 0.05:
        raw = zlib.compress(b" " * (1 << 26), 9)
    text = "p1." + base64.urlsafe_b64encode(raw).decode().rstrip("=")
    if random.random() < 0.1:
        cut = random.randrange(len(text))
        text = text[:cut] + random.choice("A-_!é ") * random.randrange(3) + text[cut + 1 :]
    return text


def _number(random: Random) -> Any:
    return random.choice(_NUMBERS) if random.random() < 0.7 else random.randrange(1, 1 << random.randrange(1, 64))


def _program(plan: dict[str, Any], random: Random) -> None:
    plan["program"]["target"] = random.choice(_TARGETS)


def _argument(plan: dict[str, Any], random: Random) -> None:
    names = (
        "batch",
        "io",
        "hidden",
        "layers",
        "seq",
        "size",
        "cells",
        "convolutions",
        "learning_rate",
        "scan",
        "preset",
        "recompute",
        "name",
    )
    value = random.choice((_number(random), _number(random), random.choice(_WORDS), None, [1], {"a": {}}, False))
    plan["program"]["arguments"] = {random.choice(names): value, **({"scan": False} if random.random() < 0.2 else {})}
    if random.random() < 0.5:
        plan["program"]["target"] = random.choice(("two_layer", "mnist", "gpt", "decoder", "unet", "deep_unet", "amoebanet", "mixture"))


def _mesh(plan: dict[str, Any], random: Random) -> None:
    many = random.choice((1, 3, 10, 16, 17, 20, 2000))
    plan["mesh"] = random.choice(
        (
            [["data", _number(random)]],
            [["data", 4], ["model", random.choice((65_536, 262_144, 1 << 18, 1 << 20))]],
            [[f"a{place}", random.choice((1, 2))] for place in range(many)],
            [[random.choice(_WORDS), 2]],
            [["data", 2], ["data", 2]],
        )
    )
    if random.random() < 0.5:
        plan["layout"] = {"rules": {"batch": "+".join(name for name, _ in plan["mesh"]) or "data"}}


def _statements(plan: dict[str, Any], random: Random) -> None:
    count = random.choice((1, 50, 400, 999, 1001, 5000))
    kind = random.choice(("rules", "overrides", "constraints", "barriers", "groups"))
    pattern = random.choice(("first/*", "**/dot_general", "*" * 30, "w", "/w", "gpt.py:1", "two_layer.py:45", *_WORDS))
    names = [f"{pattern}{'*' * (place % 40)}{place if random.random() < 0.1 else ''}" for place in range(count)]
    value = random.choice(
        ("[data, ?]", "[-, -]", "[data]", "?" * 50, f"[{'x,' * 4000}x]", "[data p99999999999]", "[data? p1, -] replicated:model")
    )
    if kind == "groups":
        plan["layout"]["groups"] = [[f"@{name}", "@second/dot_general"] for name in names]
    elif kind == "barriers":
        plan["layout"]["barriers"] = {f"@{name}": random.choice(("none", "forward", "sideways")) for name in names}
    elif kind == "rules":
        plan["layout"]["rules"] = {name: random.choice(("data", "data p1000000", "+".join(["data"] * 9000), "a+b+c")) for name in names}
    else:
        plan["layout"][kind] = dict.fromkeys(names, value)


def _texts(plan: dict[str, Any], random: Random) -> None:
    field = random.choice(("hardware", "axis_assignment", "pipeline", "remat", "precision", "name", "dims", "version", "format", "extra"))
    plan[field] = random.choice(
        (
            random.choice(_WORDS),
            _number(random),
            "9999999 nodes of 8 H100",
            "9999999 slices of TPU v5p 16x16x16",
            f"TPU v5p {'9999999x' * 20}9",
            "data:x+y; model:z",
            "; ".join(f"a{place}:x({10**8})" for place in range(90)),
            "stages:4096 micro_batches:4096",
            "stages:2 micro_batches:8 schedule:interleaved chunks:4096",
            f"stages:2 micro_batches:2 boundaries:{'+'.join(f'b{place}' for place in range(2000))}",
            "save:" + "+".join(f"n{place}" for place in range(300)),
            {"batch": random.choice(_WORDS)},
            {"batch": "io", "io": "batch"},
        )
    )


def _nest(plan: dict[str, Any], random: Random) -> None:
    value: Any = 1
    for _ in range(random.choice((5, 17, 400, 900))):
        value = [value] if random.random() < 0.5 else {"a": value}
    plan[random.choice(("mesh", "layout", "name"))] = value
    plan["program"]["arguments"] = {"batch": value}


def _flood(plan: dict[str, Any], random: Random) -> None:
    plan["mesh"] = [[str(place), "x"] for place in range(random.choice((1000, 40_000)))]


_PLAN_ATTACKS: tuple[Callable[[dict[str, Any], Random], None], ...] = (_program, _argument, _mesh, _statements, _texts, _nest, _flood)


def _fleet_text(random: Random) -> str:
    program = random.choice(("mnist", "mnist", "two_layer", *_TARGETS)) if random.random() < 0.6 else "mnist"
    model: dict[str, Any] = {"name": "a", "program": program, "mini_batches": random.choice((1, 10))}
    fleet: dict[str, Any] = {"models": [model]}
    if random.random() < 0.3:
        model["grid"] = {"learning_rate": [0.1, 0.01]}
    if random.random() < 0.6:
        _attack_fleet(fleet, model, random)
    if random.random() < 0.3:
        return random.choice(_TOML)(random)
    return json.dumps(fleet)


def _attack_fleet(fleet: dict[str, Any], model: dict[str, Any], random: Random) -> None:
    whose = random.choice((fleet, model))
    fields = (
        "memory",
        "devices",
        "buffer",
        "policy",
        "spill",
        "folder",
        "seed",
        "stop_below",
        "mini_batches",
        "epochs",
        "cuts",
        "name",
        "grid",
    )
    value = random.choice(
        (_number(random), _number(random), random.choice(_WORDS), "9" * 400 + " GiB", 1.0, [1], {"batch": [*range(1, 400)]})
    )
    whose[random.choice(fields)] = value
    if random.random() < 0.2:
        model["grid"] = {name: [*range(1, 101)] for name in ("batch", "hidden", "learning_rate")}
    if random.random() < 0.1:
        fleet["models"] = [{**model, "name": f"a{place}"} for place in range(random.choice((1001, 9000)))]


def _one(random: Random, more: str = "") -> str:
    return f'{random.choice(("", "memory = 1.0", "devices = 2"))}\n[[models]]\nname = "a"\nprogram = "mnist"\n{more}\n'


_TOML: tuple[Callable[[Random], str], ...] = (
    _one,
    lambda random: _one(random, f"{'a.' * random.choice((3, 20, 200_000))}b = 1"),
    lambda random: _one(random, f"arguments = {'{a = ' * 5000}1{'}' * 5000}"),
    lambda random: _one(random, f"x = {'[' * 3000}{']' * 3000}"),
    lambda random: _one(random, f"seed = {'9' * random.choice((18, 40, 5000))}"),
    lambda random: _one(random, "grid = { batch = [1979-05-27, 07:32:00] }"),
    lambda random: _one(random, "stop_below = nan"),
    lambda random: _one(random, f"[{'a.' * 5000}b]\n" * 50),
    lambda random: "x" * 900_000 + random.choice((".y = 1", " = 1")),
    lambda random: "\n".join(f"[a{place}]" for place in range(random.choice((10, 50_000)))),
)


def _gesture_text(random: Random) -> str:
    verb, fields = random.choice(_GESTURES)
    gesture: dict[str, Any] = {"verb": verb, "seq": random.randrange(1 << 30), "view": "v", **fields}
    if random.random() < 0.5:
        name = random.choice((*fields, "zone", "view", "seq", "verb")) if fields else "zone"
        gesture[name] = random.choice(
            (_number(random), random.choice(_WORDS), None, [], {}, [1] * 5000, "1" * 5000, "9" * 9, "٣", {"a": [1]})
        )
    return json.dumps(gesture)


_GESTURES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("drop", {"dim": "io", "source": "", "target": "model"}),
    ("whole", {"dim": "hidden"}),
    ("resize", {"axis": "data", "size": "2"}),
    ("resize", {"axis": "data", "size": "4"}),
    ("add_axis", {"axis": "pipe", "size": "2"}),
    ("remove_axis", {"axis": "pipe"}),
    ("rename_axis", {"axis": "pipe", "name": "stage"}),
    ("rename_axis", {"axis": "stage", "name": "pipe"}),
    ("shift_axis", {"axis": "model", "by": -1}),
    ("order_axes", {"names": ["model", "data"]}),
    ("rename_dim", {"dim": "io", "name": "io"}),
    ("hardware", {"chip": "TPU v5e", "shape": "2x4"}),
    ("hardware", {"chip": "", "shape": ""}),
    ("wiring", {"name": "data:x; model:y"}),
    ("mend", {"edit": "batch:data"}),
    ("pipeline", {"change": "stages", "value": "2"}),
    ("recipe", {"name": "data_parallel", "axes": ["data"]}),
    ("annotate", {"of": "argument", "path": "w", "what": "barrier", "allows": "none"}),
    ("prioritize", {"dim": "batch", "priority": "1"}),
    ("own", {"of": "argument", "path": "w", "place": 0, "source": "", "target": "data"}),
    ("take", {"of": "argument", "path": "w", "place": 0, "source": ""}),
    ("open", {"tab": "memory", "search": ""}),
    ("open", {"tab": "tensors", "search": "w"}),
    ("select", {"path": "w"}),
    ("fold", {"key": "w"}),
    ("why", {"of": "peak"}),
    ("moment", {"place": "3"}),
    ("name_plan", {"number": 0, "name": "mine"}),
    ("pin", {"number": 0, "pinned": True}),
    ("go", {"number": 0}),
    ("undo", {}),
    ("redo", {}),
    ("export", {"form": "script"}),
    ("link", {}),
    ("close_sheet", {}),
    ("save", {}),
    ("open_file", {"name": "x.plan.json", "text": "{}"}),
    ("history", {"open": True}),
    ("try_edits", {"key": "x"}),
    ("run", {"steps": "3"}),
    ("no such verb", {}),
)
