"""What a form sent, as the body that an action takes: the action's own schema says what each field is.

An object is read from fields `key.name`, or from one field with lines `name=value`. A field that is left empty is left out, unless it has
to be there; a box that is not ticked is false where the form says that it has the box (a hidden field `has` with its name).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.team.actions.schemas import Schema

Fields = Mapping[str, Sequence[str]]
BOXES = "has"


def body_of_form(schema: Schema, fields: Fields) -> dict[str, Any]:
    """The body; what cannot be read as its type stays a text, which the action refuses in its own words."""
    properties: Mapping[str, Schema] = schema.get("properties", {})
    found = {key: _value(properties[key], fields[key]) for key in properties if key in fields}
    found |= {key: _table(kind, key, fields) for key, kind in properties.items() if _type_of(kind) == "object"}
    for box in fields.get(BOXES, ()):
        if box in properties and box not in fields:
            found[box] = [] if _type_of(properties[box]) == "array" else False
    required = schema.get("required", ())
    return {key: value for key, value in found.items() if value is not None or key in required or _takes_none(properties[key])}


def _value(schema: Schema, texts: Sequence[str]) -> Any:
    kind, text = _type_of(schema), texts[-1].replace("\r\n", "\n")
    if kind == "array":
        return [part.strip() for each in texts for part in (each.split(",") if len(texts) == 1 else [each]) if part.strip()]
    if kind == "boolean":
        return text in ("true", "on", "1", "yes")
    if kind == "string":
        return text if text or not schema.get("minLength") else None
    if not text.strip():
        return None
    if kind == "integer" and re.fullmatch(r"\s*-?\d{1,15}\s*", text):
        return int(text)
    if kind == "number" and re.fullmatch(r"\s*-?\d{1,15}(\.\d{1,15})?\s*", text):
        return float(text)
    return text


def _table(schema: Schema, key: str, fields: Fields) -> dict[str, Any] | None:
    """An object of values that are alike; `None` if there is no field of it."""
    of_values: Schema = schema.get("additionalProperties", {})
    found = {name.removeprefix(f"{key}."): texts[-1] for name, texts in fields.items() if name.startswith(f"{key}.")}
    lines = [line.partition("=") for line in fields.get(key, ("",))[-1].splitlines() if line.strip()]
    found |= {name.strip(): value.strip() for name, _, value in lines}
    return {name: _value(of_values, [text]) for name, text in found.items()} if found or key in fields else None


def _type_of(schema: Schema) -> str:
    """The type of a schema, of the first choice where it has several."""
    choices = schema.get("anyOf")
    return str(choices[0].get("type", "string") if choices else schema.get("type", "string"))


def _takes_none(schema: Schema) -> bool:
    return any(each.get("type") == "null" for each in schema.get("anyOf", ()))
