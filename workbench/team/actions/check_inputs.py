"""Validate inputs: strings that every database stores, finite numbers, patterns of the whole string."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from workbench.core.parse_untrusted import import_jsonschema
from workbench.errors import unknown_name
from workbench.team.access import InputError
from workbench.team.actions.action import Action, Inputs
from workbench.team.actions.schemas import NOTHING, Schema

_QUERY = 2_000  # characters of one value


def check_inputs(action: Action, inputs: Inputs) -> Inputs:
    """Validate inputs and convert query texts to the types of the schema. Raises `InputError`."""
    query = {key: _query_value(action, key, value) for key, value in inputs.query.items()}
    _check("query", action.inputs if not action.changes else NOTHING, query)
    if action.body is None and inputs.body not in (None, {}):
        raise InputError("This request takes no body.", ["send none"])
    if action.body is not None:
        body = {} if inputs.body is None else inputs.body
        _check("body", action.body, body)
        return Inputs(inputs.path, query, body)
    return Inputs(inputs.path, query, None)


def schema_flaw(schema: Schema, value: Any) -> tuple[str, str] | None:
    """Return the JSON path and message of the worst schema violation, or `None`."""
    from jsonschema.exceptions import best_match

    try:
        error = best_match(_validator(schema).iter_errors(value))
    except RecursionError:
        return "$", "it is nested too deep"
    return None if error is None else (error.json_path, _short(error.message))


def load_validators() -> None:
    """Import the validator at startup, which takes a second, so that the first request does not wait."""
    _validator_class()


def _check(name: str, schema: Schema, value: Any) -> None:
    if flaw := schema_flaw(schema, value):
        place = flaw[0].removeprefix("$").removeprefix(".")
        raise InputError(f"Invalid {name}{f' at `{place}`' if place else ''}: {flaw[1]}.", ["see /api/v1/openapi.json"])


def _query_value(action: Action, key: str, value: Any) -> Any:
    if key not in action.query:
        raise InputError(*unknown_name("parameter", _printable(key), sorted(action.query)))
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != 1:
            raise InputError(f"`{key}` is given {len(value)} times.", ["give it once"])
        value = value[0]
    if not isinstance(value, str):
        return value
    if len(value) > _QUERY:
        raise InputError(f"`{key}` has {len(value):,} characters; the limit is {_QUERY:,}.", ["shorten it"])
    return typed_text(action.query[key].get("type"), value)


def typed_text(kind: Any, value: str) -> Any:
    """Convert a text to the schema's type; a text that cannot be converted is returned unchanged, and fails validation."""
    if kind == "integer" and re.fullmatch(r"-?[0-9]{1,15}", value):
        return int(value)
    if kind == "number" and re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", value):
        return float(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind == "array":
        return [part for part in value.split(",") if part]
    return value


def _validator(schema: Schema) -> Any:
    validator = _VALIDATORS.get(id(schema))
    if validator is None or validator.schema is not schema:
        validator = _VALIDATORS[id(schema)] = _validator_class()(schema)
    return validator


_VALIDATORS: dict[int, Any] = {}


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    import_jsonschema()
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"string": _is_text, "integer": _is_whole, "number": _is_number})
    return extend(Draft202012Validator, {"pattern": _whole_pattern}, type_checker=types)


def _is_text(_checker: Any, value: object) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_whole(_checker: Any, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_checker: Any, value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole_pattern(_validator: Any, pattern: str, value: Any, _schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if isinstance(value, str) and not re.search(pattern.removesuffix("$") + r"\Z", value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _short(message: str) -> str:
    """Shorten a message to 200 characters, keeping the value at its start and the problem at its end."""
    return _printable(message if len(message) <= 200 else f"{message[:120]} … {message[-60:]}")


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
