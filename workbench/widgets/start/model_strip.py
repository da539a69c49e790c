"""The strip that resizes a board's zoo model and confirms proposed dimension names."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from workbench.core.layout import Layout
from workbench.core.program import Program, Reference
from workbench.documents import program_from_reference
from workbench.documents.plan_documents import renames_from_current
from workbench.documents.program_references import verify_allowed
from workbench.errors import DocumentError, WorkbenchError, unknown_name
from workbench.models.config_fields import argument_words
from workbench.models.registry import ALL_MODELS, Model
from workbench.models.size_limits import MOST
from workbench.plan.edits import EditGroup, OpenPlan, RenameDim
from workbench.plan.layout_legality import pattern_errors
from workbench.plan.plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.board_host import Host
from workbench.widgets.gestures.gesture import Handlers, handlers_of, on
from workbench.widgets.gestures.panel_gestures import ConfirmNamesGesture, SizeModelGesture, StopSizingGesture
from workbench.widgets.shared_states import Defer
from workbench.widgets.start.timed_work import TimedWork, WorkTicket


class ModelStrip:
    """The model sizes of one board. `defer` moves work to the board's event loop, `show()` publishes the strip."""

    def __init__(
        self, session: Session, host: Host, defer: Defer, show: Callable[[], None], refuse: Callable[[WorkbenchError], None]
    ) -> None:
        self._session, self._host, self._refuse = session, host, refuse
        self._work: TimedWork[OpenPlan] = TimedWork(defer, show)

    def handlers(self) -> Handlers:
        return handlers_of(
            on(SizeModelGesture, self._resize),
            on(StopSizingGesture, lambda _: self._work.stop()),
            on(ConfirmNamesGesture, lambda _: self._confirm_names()),
        )

    def close(self) -> None:
        self._work.stop()

    def state(self) -> dict[str, Any] | None:
        """Return the model's sizes and the names to confirm; `None` without either."""
        if not self._offered:
            return None
        plan, model = self._session.plan, self._model
        names = proposed_names(plan)
        if model is None and not names:
            return None
        return {
            "title": model.name if model else "",
            "sizes": list(size_fields(model, size_values(model, plan))) if model else [],
            "work": self._work.state(),
            "names": names,
        }

    @property
    def _offered(self) -> bool:
        return self._host.starts and self._host.exercise is None

    @property
    def _model(self) -> Model | None:
        reference = self._session.plan.program.reference
        return None if reference is None else next((model for model in ALL_MODELS if model.name == reference.target), None)

    def _resize(self, gesture: SizeModelGesture) -> None:
        """Trace the resized model in a thread; a later change replaces one in progress."""
        model = self._model
        if model is None or not self._offered:
            raise DocumentError("The program on the board is not a zoo model, so its sizes are set in its code.", ["change the code"])
        plan, value = self._session.plan, read_value(model, gesture.name, gesture.value)
        changes = size_changes(model, gesture.name, value)

        def trace(ticket: WorkTicket) -> OpenPlan:
            resized = resized_plan(plan, changes, self._host.allow)
            ticket.report(f"Analysing {resized.program.name}")
            edit = OpenPlan(resized, f"{resized.program.name} with {gesture.name} {gesture.value}")
            self._session.foresee(edit)
            return edit

        self._work.start(
            f"Tracing {plan.program.name} with {gesture.name} {gesture.value}", trace, partial(self._apply, gesture, plan), self._refuse
        )

    def _apply(self, gesture: SizeModelGesture, plan: Plan, edit: OpenPlan) -> None:
        """Open the resized plan; a plan edited meanwhile is resized instead, and another model is left alone."""
        now = self._session.plan
        try:
            if now is plan:
                self._session.apply(edit)
            elif now.program.reference == plan.program.reference:
                self._resize(gesture)
        except WorkbenchError as error:
            self._refuse(error)

    def _confirm_names(self) -> None:
        plan = self._session.plan
        names = [proposal["name"] for proposal in proposed_names(plan)]
        if self._offered and names:
            self._session.apply(EditGroup("confirm names", tuple(RenameDim(name, name) for name in names)))


def proposed_names(plan: Plan) -> list[dict[str, str]]:
    """List the unconfirmed names that the trace proposes, each with its size and reason."""
    proposed, dims = plan.program.proposed, plan.program.dims
    return [
        {"name": name, "size": " or ".join(f"{size:,}" for size in dims.get(name, ())), "reason": proposed.reason(name)}
        for name in proposed.unconfirmed
    ]


# The sizes of a zoo model as controls of a board, and the plan of a resized model.


SLIDERS = ("batch", "seq", "layers", "size", "cells")
"""Sizes with a slider."""
CUSTOM = "custom"  # shown instead of a preset whose sizes were changed
DOUBLINGS = 4  # of a slider's range, above and below the size of the preset


def size_changes(model: Model, name: str, value: Any) -> Mapping[str, Any]:
    """Return the arguments that a choice sets; another preset resets the other sizes."""
    return {**dict.fromkeys(model.arguments), "preset": value} if name == "preset" else {name: value}


def size_values(model: Model, plan: Plan) -> Mapping[str, Any]:
    """Return every argument of the board's model: as given, else from the preset, else the default."""
    assert plan.program.reference is not None  # the model was found by its reference
    arguments = {**model.arguments, **plan.program.reference.arguments}
    preset = model.presets.get(arguments.get("preset", ""))
    return {name: getattr(preset, name, None) if value in (None, "") else value for name, value in arguments.items()}


def read_value(model: Model, name: str, text: str) -> Any:
    """Parse a typed value: a number, `true`, or a word; the model itself validates it. Raises `DocumentError`."""
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
    """Yield the arguments of a model as controls: the preset, sliders, then numbers and choices."""
    order = {name: place for place, name in enumerate(("preset", *SLIDERS))}
    for name in sorted(model.arguments, key=lambda argument: order.get(argument, len(order))):
        value, kind, words = values[name], model.kind_of(name), argument_words(model.config, name)
        if name == "preset":
            value, words = _shown_preset(model, values), tuple(model.presets)
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


def _shown_preset(model: Model, values: Mapping[str, Any]) -> Any:
    """Return the preset, or `custom` if another size than those with a slider differs from it."""
    preset = model.presets.get(values["preset"])
    differs = any(
        type(value) is int and getattr(preset, name, value) not in (value, None) for name, value in values.items() if name not in SLIDERS
    )
    return CUSTOM if differs else values["preset"]


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _base(model: Model, values: Mapping[str, Any], name: str) -> Any:
    return getattr(model.presets.get(values.get("preset", "")), name, None) or values[name]


def _stops(name: str, value: Any, base: Any) -> list[int]:
    """Return the stops of a slider: doublings of the preset's size, or quarters for layers.

    >>> _stops("batch", 24, 16)
    [1, 2, 4, 8, 16, 24, 32, 64, 128, 256]
    >>> _stops("layers", 32, 32)[:4]
    [8, 16, 24, 32]
    """
    if not isinstance(value, int) or not isinstance(base, int):
        return []
    if name in ("layers", "cells"):
        stops = {max(1, base * quarter // 4) for quarter in range(1, 13)}
    else:
        below, above = min(base, value) >> DOUBLINGS, max(base, value) << DOUBLINGS
        stops = {size for size in doublings_through(base, above) if size >= below}
    return sorted(stop for stop in stops | {value} if stop <= MOST.get(name, value))


def doublings_through(size: int, most: int) -> Iterator[int]:
    """Yield the sizes up to `most` reached from a size by doubling and halving.

    >>> list(doublings_through(12, 100))
    [3, 6, 12, 24, 48, 96]
    """
    least = size & -size  # the largest power of two that divides it, which halving removes
    size //= least
    while size <= most:
        yield size
        size *= 2


def resized_plan(plan: Plan, changes: Mapping[str, Any], allow: tuple[str, ...] = ()) -> Plan:
    """Retrace a plan's model with changed arguments, dropping stale statements.

    Raises `DocumentError` for invalid arguments, and the plan's own error if the layout no longer divides it.
    """
    old = plan.program
    assert old.reference is not None  # a zoo model
    arguments = {**old.reference.arguments, **changes}
    reference = Reference(old.reference.target, {name: value for name, value in arguments.items() if value is not None})
    verify_allowed(reference, "The model", allow)
    program = program_from_reference(reference).variant(remat=old.remat, precision=old.precision, offload=old.offload)
    program = _with_names_of(program, old)
    name = program.name if plan.name == old.name or "preset" in changes else plan.name
    return plan.updated(program=program, layout=applicable_layout(plan.layout, program), name=name)


def _with_names_of(program: Program, old: Program) -> Program:
    traced = program.renamed or program.dims
    renamed = {name: now for name, now in old.renamed.items() if name != now and name in traced}
    return program.rename(renames_from_current(program, renamed)) if renamed else program


def applicable_layout(layout: Layout, program: Program) -> Layout:
    """Return the statements of a layout whose dimensions and values exist in a program."""
    return Layout(
        {dim: axes for dim, axes in layout.rules if dim in program.dims},
        tuple(statement for statement in layout.overrides if _names_something(program, overrides=(statement,))),
        tuple(statement for statement in layout.constraints if _names_something(program, constraints=(statement,))),
        priorities=tuple((dim, priority) for dim, priority in layout.priorities if dim in program.dims),
        groups=tuple(statement for statement in layout.groups if _names_something(program, groups=(statement,))),
        barriers=tuple(statement for statement in layout.barriers if _names_something(program, barriers=(statement,))),
    )


def _names_something(program: Program, **statement: Any) -> bool:
    return next(pattern_errors(program, Layout({}, **statement)), None) is None
