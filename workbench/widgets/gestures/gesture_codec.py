"""Parses a page's message into a gesture. Messages are not trusted: every field is checked here."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from types import ModuleType
from typing import Any, get_type_hints

from workbench.errors import LayoutError, unknown_name
from workbench.widgets.gestures import panel_gestures, setup_gestures, tensor_gestures, view_gestures
from workbench.widgets.gestures.gesture import TABLES, EditGesture, Gesture, Message, Reader, required_text
from workbench.widgets.gestures.setup_gestures import HARDWARE_ZONE, HardwareGesture

# All gestures: the tests run over these tuples, so that a new one is tested like the others.


def _defined_in(*modules: ModuleType) -> tuple[type[Gesture], ...]:
    """Return the gestures that a page sends, without their common bases, in the order of their definitions."""
    defined = ((module.__name__, value) for module in modules for value in vars(module).values() if isinstance(value, type))
    kinds = (kind for module, kind in defined if issubclass(kind, Gesture) and kind.__module__ == module)
    return tuple(kind for kind in kinds if kind.verb and bool(kind.apart_by) == bool(kind.apart))


ALL_GESTURES = _defined_in(tensor_gestures, setup_gestures, view_gestures, panel_gestures)
EDIT_GESTURES = tuple(kind for kind in ALL_GESTURES if issubclass(kind, EditGesture))
"""Gestures that request another plan."""
BOARD_GESTURES = tuple(kind for kind in ALL_GESTURES if not issubclass(kind, panel_gestures.FleetGesture))
"""Gestures of the board over one plan."""
_OF_BOTH_BOARDS = (view_gestures.RunGesture, view_gestures.CancelGesture, view_gestures.RefreshGesture, view_gestures.PictureGesture)
FLEET_GESTURES = (*(kind for kind in ALL_GESTURES if issubclass(kind, panel_gestures.FleetGesture)), *_OF_BOTH_BOARDS)
"""Gestures of the board over a fleet."""


Members = tuple[type[Gesture], ...]
FILE_TEXTS = (("open_file", "text"), ("start_file", "text"))
"""Verbs and fields that carry a file's text, which has a separate limit."""
MOST_FIELDS, MOST_ENTRIES, MOST_LETTERS = 32, 64, 2_000
"""Limits of a gesture: fields, list entries (mesh axes), letters of a text (paths)."""


def read_gesture(message: Message, members: Members = BOARD_GESTURES) -> Gesture:
    """Parse a message; raises `WorkbenchError` for one that no page sends."""
    verify_gesture(message)
    verb = required_text()(message.get("verb"), "verb", message)
    kind = kind_of(message, members)
    if kind is None:
        edits = dict.fromkeys(member.verb for member in members if issubclass(member, EditGesture))
        raise LayoutError(*unknown_name("gesture", verb, edits))
    return _read_fields(kind, message)


def find_gesture(message: Message, members: Members) -> Gesture | None:
    """Parse a message, `None` if its verb is not among `members`; raises `WorkbenchError` for invalid fields."""
    verify_gesture(message)
    kind = kind_of(message, members)
    return None if kind is None else _read_fields(kind, message)


def kind_of(message: Message, members: Members = BOARD_GESTURES) -> type[Gesture] | None:
    """Return the gesture class of a message, `None` if unknown; raises `WorkbenchError` if only its verb is known."""
    verb = message.get("verb")
    alike = [member for member in members if isinstance(verb, str) and member.verb == verb.strip()]
    if not alike or not alike[0].apart_by:
        return alike[0] if alike else None
    apart = message.get(alike[0].apart_by)
    match = next((member for member in alike if member.apart == apart), None)
    if match is None:
        raise alike[0].unknown(apart)
    return match


def verify_gesture(message: Message) -> None:
    """Raise `LayoutError` for a message with too many or too long fields; file texts have their own limit."""
    if len(message) > MOST_FIELDS:
        raise LayoutError(f"The gesture has {len(message):,} fields; the limit is {MOST_FIELDS}.", ["reload the page"])
    for name, value in message.items():
        kind, size = _measure_field(value)
        most = MOST_ENTRIES if kind == "entries" else MOST_LETTERS
        if size > most and (message.get("verb"), name) not in FILE_TEXTS:
            raise LayoutError(f"`{str(name)[:40]}` of the gesture has {size:,} {kind}; the limit is {most:,}.", ["reload the page"])


def zone_of(message: Message) -> str:
    """Return the zone that shows the refusal of a gesture, even of one that cannot be parsed."""
    verb, zone = message.get("verb"), message.get("zone")
    kind = next((member for member in BOARD_GESTURES if member.verb == verb), Gesture)
    if zone == TABLES and kind.refused_at != HARDWARE_ZONE:
        return TABLES
    return kind.refused_at or next((message[field] for field in kind.refused_by if isinstance(message.get(field), str)), "")


def requested_hardware(message: Message) -> tuple[str, str] | None:
    """Return the chip and shape that a gesture requests; `None` for any other gesture."""
    if message.get("verb") != HardwareGesture.verb:
        return None
    return str(message.get("chip", ""))[:80], str(message.get("shape", ""))[:200]


def _read_fields(kind: type[Gesture], message: Message) -> Gesture:
    read = _READERS[kind]
    return kind(**{field.name: reader(message.get(field.name), field.name, message) for field, reader in read if _is_read(field, message)})


def _is_read(field: Field[Any], message: Message) -> bool:
    return field.name in message or field.default is MISSING


def _readers(kind: type[Gesture]) -> tuple[tuple[Field[Any], Reader], ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple((attribute, hints[attribute.name].__metadata__[0]) for attribute in fields(kind))


def _measure_field(value: object) -> tuple[str, int]:
    if isinstance(value, list | Mapping):
        inner = max((len(str(entry)[: MOST_LETTERS + 1]) for entry in value), default=0)
        return ("entries", len(value)) if inner <= MOST_LETTERS else ("letters", inner)
    if isinstance(value, str):
        return "letters", len(value)
    return "digits", len(f"{value:e}") if isinstance(value, float) else 0 if value is None else _digits(value)


def _digits(value: object) -> int:
    """Estimate the digits of an integer; Python refuses to print one with thousands."""
    return value.bit_length() // 3 if isinstance(value, int) else 1


_READERS = {kind: _readers(kind) for kind in ALL_GESTURES}
