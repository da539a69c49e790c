"""The codec of the messages between a worker process and its parent: a frozen dataclass to a line of JSON, and back.

A message is an object with its kind and its fields, which are encoded by their types: a record is the list of its own fields; where one of
several records may occur, its class's name comes first; a job's result, and what a search is asked and answers, is a pickle, as both ends
are our own code.
"""

import base64
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from workbench.errors import EngineError, unknown_name, wrong_type
from workbench.hardware.hardware import Hardware
from workbench.multimodel.fleet_measurement import FleetMeasurement
from workbench.multimodel.training_events import FLEET_COMMANDS, TRAINING_EVENTS, FleetCommand, TrainingEvent
from workbench.reports.compiled import Compiled
from workbench.reports.measurement import Measurement
from workbench.reports.run_events import RUN_EVENTS, RunEvent
from workbench.search.search_messages import (
    SEARCH_COMMANDS,
    SEARCH_EVENTS,
    ExplainRequest,
    PlanExplanation,
    SearchCommand,
    SearchEvent,
    SearchRequest,
    SearchUpdate,
)

Message = TypeVar("Message")

_PICKLED = (Measurement, Compiled, Hardware, FleetMeasurement, SearchRequest, ExplainRequest, SearchUpdate, PlanExplanation)
_SCALARS: Mapping[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (float, int)}


@dataclass(frozen=True)
class LineCodec(Generic[Message]):
    """Encodes messages of these kinds as lines of JSON; `noun` is the key of the kind, and the name of a message in errors."""

    noun: str
    kinds: Mapping[str, Any]  # their classes, by the name of the kind

    def encode(self, message: Message) -> str:
        """One line, with its newline."""
        kind = next(name for name, each in self.kinds.items() if each is type(message))
        values = {name: _coder(hint).encode(getattr(message, name)) for name, hint in _hints(self.kinds[kind]).items()}
        return json.dumps({self.noun: kind, **values}) + "\n"

    def decode(self, line: str | bytes) -> Message:
        """The message of a line. Raises `EngineError` for a line that is no JSON object, an unknown kind, or wrong fields."""
        record = _object(line, self.noun)
        kind = record.pop(self.noun, None)
        if kind not in self.kinds:
            raise EngineError(*unknown_name(self.noun, str(kind), self.kinds))
        hints = _hints(self.kinds[kind])
        if record.keys() != hints.keys():
            raise EngineError(f"The {self.noun} `{kind}` has the fields {_list_names(hints)}; there came {_list_names(record)}.")
        message: Message = self.kinds[kind](**{name: _coder(hint).decode(record[name]) for name, hint in hints.items()})
        return message


WorkerEvent = RunEvent | TrainingEvent | SearchEvent
WorkerCommand = FleetCommand | SearchCommand

EVENTS: LineCodec[WorkerEvent] = LineCodec("event", {**RUN_EVENTS, **TRAINING_EVENTS, **SEARCH_EVENTS})
"""The messages of a worker."""

COMMANDS: LineCodec[WorkerCommand] = LineCodec("command", {**FLEET_COMMANDS, **SEARCH_COMMANDS})
"""The messages to a worker."""


class _Coder(NamedTuple):
    """A pair of functions, to plain JSON values and back."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _object(line: str | bytes, noun: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise EngineError(f"A line that should be one {noun} is not JSON: {error}.") from error
    if not isinstance(record, dict):
        raise EngineError(wrong_type(noun, record, "a JSON object"))
    return record


def _list_names(names: Mapping[str, Any]) -> str:
    return ", ".join(f"`{each}`" for each in names) or "none"


@cache
def _hints(record: Any) -> Mapping[str, Any]:
    """The type of each field, in their order."""
    hints = get_type_hints(record)
    return {each.name: hints[each.name] for each in fields(record)}


@cache
def _coder(hint: Any) -> _Coder:
    """The coder of values of this type."""
    if get_origin(hint) in (Union, UnionType):
        return _one_of(get_args(hint))
    if get_origin(hint) is tuple:
        return _tuple_of(get_args(hint)[0])
    if hint in _PICKLED:
        return _Coder(_to_pickle_text, _from_pickle_text)
    if is_dataclass(hint):
        return _record(hint)
    if issubclass(hint, Enum):
        return _Coder(lambda value: value.value, hint)
    return _Coder(lambda value: value, lambda value: _verify_scalar(value, hint))


def _verify_scalar(value: Any, expected: type) -> Any:
    if type(value) not in _SCALARS[expected]:
        raise EngineError(wrong_type("value", value, f"of type `{expected.__name__}`"))
    return value


def _one_of(hints: tuple[Any, ...]) -> _Coder:
    """`X | None`, or one of several records, distinguished by the name of its class."""
    rest = [each for each in hints if each is not NoneType]
    if len(rest) == 1:
        inner = _coder(rest[0])
    else:
        known = {each.__name__: each for each in rest}
        inner = _Coder(
            lambda value: [name := type(value).__name__, *_coder(known[name]).encode(value)],
            lambda value: _coder(_find_record(value[0], known)).decode(value[1:]),
        )
    return _Coder(
        lambda value: None if value is None else inner.encode(value),
        lambda value: None if value is None else inner.decode(value),
    )


def _find_record(name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise EngineError(*unknown_name("record", str(name), known))
    return known[name]


def _tuple_of(hint: Any) -> _Coder:
    """A tuple of any length, all of one type."""
    inner = _coder(hint)
    return _Coder(lambda values: [inner.encode(each) for each in values], lambda values: tuple(map(inner.decode, values)))


def _record(record: Any) -> _Coder:
    """A dataclass as the list of its fields."""
    inner = {name: _coder(hint) for name, hint in _hints(record).items()}
    return _Coder(
        lambda value: [each.encode(getattr(value, name)) for name, each in inner.items()],
        lambda values: record(*(each.decode(value) for each, value in zip(inner.values(), values, strict=True))),
    )


def _to_pickle_text(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def _from_pickle_text(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - our own worker wrote it
