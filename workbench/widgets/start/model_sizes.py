"""The sizes of a model of the zoo, as controls of a board; and the plan of the model with other sizes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.core.layout import Layout
from workbench.core.program import Program, Reference
from workbench.documents import program_from_reference
from workbench.documents.plan_documents import names_from_trace
from workbench.documents.program_references import verify_allowed
from workbench.errors import DocumentError, unknown_name
from workbench.models.config_fields import argument_words
from workbench.models.registry import Model
from workbench.models.size_limits import MOST
from workbench.plan.layout_legality import pattern_errors
from workbench.plan.plan import Plan

SLIDERS = ("batch", "seq", "layers", "size", "cells")
"""The sizes that a slider changes."""
DOUBLINGS = 4  # of a slider's range, above and below the size of the preset


def size_changes(model: Model, name: str, value: Any) -> Mapping[str, Any]:
    """The arguments that a choice sets: another preset brings its own sizes."""
    return {**dict.fromkeys(model.arguments), "preset": value} if name == "preset" else {name: value}


def size_values(model: Model, plan: Plan) -> Mapping[str, Any]:
    """Every argument of the model as it is on the board: as given, else as in the preset, else the default."""
    assert plan.program.reference is not None  # its model was found by it
    given = {**model.arguments, **plan.program.reference.arguments}
    preset = model.presets.get(given.get("preset", ""))
    return {name: getattr(preset, name, None) if value in (None, "") else value for name, value in given.items()}


def read_value(model: Model, name: str, text: str) -> Any:
    """A value as it is typed: a number, `true`, or a word. What the model makes of it, it says itself. Raises `DocumentError`."""
    if name not in model.arguments:
        raise DocumentError(*unknown_name("size", name, model.arguments))
    kind = model.kind_of(name).kind
    if kind is str:
        return text
    try:
        return json.loads(text.replace(",", "") if kind in (int, float) else text)
    except ValueError:
        raise DocumentError(f"`{name}` is {text[:40]!r}; it should be {model.kind_of(name)}.", ["type another value"]) from None


def size_fields(model: Model, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The arguments of a model as controls: the preset, sliders, then numbers and choices."""
    order = {name: place for place, name in enumerate(("preset", *SLIDERS))}
    for name in sorted(model.arguments, key=lambda each: order.get(each, len(order))):
        value, kind, words = values[name], model.kind_of(name), argument_words(model.config, name)
        words = tuple(model.presets) if name == "preset" else words
        if isinstance(value, list | tuple) or (name == "fused"):
            continue  # lists are typed in code
        yield {
            "name": name,
            "kind": "choice" if words else "flag" if kind.kind is bool else "number" if kind.kind in (int, float) else "text",
            "value": _text(value),
            "options": [word for word in (*(() if value in words else (_text(value),)), *words) if word or word == _text(value)],
            "stops": [str(stop) for stop in _stops(name, value, _base(model, values, name))] if name in SLIDERS else [],
            "hint": str(kind),
        }


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _base(model: Model, values: Mapping[str, Any], name: str) -> Any:
    """The size of the preset, around which the slider ranges."""
    return getattr(model.presets.get(values.get("preset", "")), name, None) or values[name]


def _stops(name: str, value: Any, base: Any) -> list[int]:
    """The sizes that a slider stops at: doublings of the preset's size, of layers its quarters.

    >>> _stops("batch", 24, 16)
    [1, 2, 4, 8, 16, 24, 32, 64, 128, 256]
    >>> _stops("layers", 32, 32)[:4]
    [8, 16, 24, 32]
    """
    if not isinstance(value, int) or not isinstance(base, int):
        return []
    if name in ("layers", "cells"):
        found = {max(1, base * quarter // 4) for quarter in range(1, 13)}
    else:
        below, above = min(base, value) >> DOUBLINGS, max(base, value) << DOUBLINGS
        found = {size for size in doublings_through(base, above) if size >= below}
    return sorted(stop for stop in found | {value} if stop <= MOST.get(name, value))


def doublings_through(size: int, most: int) -> Iterator[int]:
    """The sizes up to `most` that a size gives by doubling and halving.

    >>> list(doublings_through(12, 100))
    [3, 6, 12, 24, 48, 96]
    """
    least = size & -size  # the largest power of two that divides it, which halving removes
    size //= least
    while size <= most:
        yield size
        size *= 2


def resized_plan(plan: Plan, changes: Mapping[str, Any], allow: tuple[str, ...] = ()) -> Plan:
    """The plan with some arguments of its model changed; the model is traced again. Statements about what is gone are left out.

    Raises `DocumentError` for arguments that the model does not take, and what a plan raises whose layout no longer divides it.
    """
    old = plan.program
    assert old.reference is not None  # it is of the zoo
    arguments = {**old.reference.arguments, **changes}
    reference = Reference(old.reference.target, {name: value for name, value in arguments.items() if value is not None})
    verify_allowed(reference, "The model", allow)
    program = program_from_reference(reference).variant(remat=old.remat, precision=old.precision, offload=old.offload)
    program = _with_names_of(program, old)
    name = program.name if plan.name == old.name or "preset" in changes else plan.name
    return plan.updated(program=program, layout=kept_layout(plan.layout, program), name=name)


def _with_names_of(program: Program, old: Program) -> Program:
    """The program with the names that a person gave to dimensions of the old one."""
    traced = program.renamed or program.dims
    renamed = {name: now for name, now in old.renamed.items() if name != now and name in traced}
    return program.rename(names_from_trace(program, renamed)) if renamed else program


def kept_layout(layout: Layout, program: Program) -> Layout:
    """The statements of a layout whose dimensions and values a program has."""
    return Layout(
        {dim: axes for dim, axes in layout.rules if dim in program.dims},
        tuple(each for each in layout.overrides if _names_something(program, overrides=(each,))),
        tuple(each for each in layout.constraints if _names_something(program, constraints=(each,))),
        priorities=tuple((dim, priority) for dim, priority in layout.priorities if dim in program.dims),
        groups=tuple(each for each in layout.groups if _names_something(program, groups=(each,))),
        barriers=tuple(each for each in layout.barriers if _names_something(program, barriers=(each,))),
    )


def _names_something(program: Program, **statement: Any) -> bool:
    return next(pattern_errors(program, Layout({}, **statement)), None) is None
