"""JSON schemas of what people send and get, put together from small parts; they are printed in the OpenAPI document as they are.

Every object is closed (`additionalProperties: false`), every text and list has a greatest length, every number is finite.
"""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

NAME = 80
NOTE = 4_000
SECRET = 100
DOCUMENT = 1 << 20
"""Characters of a plan document, as `core.parse_untrusted` reads at most."""


def text(most: int = NAME, least: int = 0, *, pattern: str | None = None, description: str = "", encoding: str = "") -> Schema:
    """A text of a limited length; `encoding` is "base64" for bytes."""
    found = {"pattern": pattern, "description": description, "contentEncoding": encoding}
    return {"type": "string", "minLength": least, "maxLength": most, **{key: value for key, value in found.items() if value}}


def whole(least: int, most: int, description: str = "") -> Schema:
    """A whole number within limits."""
    return {"type": "integer", "minimum": least, "maximum": most, **({"description": description} if description else {})}


def number(least: float = 0.0, most: float = 1e18) -> Schema:
    """A finite number within limits."""
    return {"type": "number", "minimum": least, "maximum": most}


def one_of(*words: str, description: str = "") -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words), **({"description": description} if description else {})}


def or_none(schema: Schema) -> Schema:
    """What the schema says, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(schema: Schema, most: int = 1000, least: int = 0) -> Schema:
    """A list of a limited length."""
    return {"type": "array", "items": schema, "minItems": least, "maxItems": most}


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """A closed object."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def table(values: Schema, most: int = 100) -> Schema:
    """An object of any keys, whose values are alike."""
    names = text(NAME, 1, pattern=r"^[A-Za-z_][A-Za-z0-9_. -]*$")
    return {"type": "object", "additionalProperties": values, "maxProperties": most, "propertyNames": names}


def listing(item: Schema) -> Schema:
    """A part of a long list, and the cursor of the next part."""
    return record({"items": list_of(item), "next": or_none(text(200))})


def largest_json(schema: Schema) -> int:
    """The bytes of the largest JSON text that fits a schema: two for each character, which may be escaped, but one in base64."""
    names = schema.get("properties", {})
    inner = [largest_json(each) + len(name) + _MARKS for name, each in names.items()]
    if isinstance(more := schema.get("additionalProperties"), Mapping):
        inner.append(schema.get("maxProperties", 0) * (largest_json(more) + 2 * NAME))
    if "items" in schema:
        inner.append(schema["maxItems"] * (largest_json(schema["items"]) + _MARKS))
    inner.append(max(map(largest_json, schema.get("anyOf", ())), default=0))
    return sum(inner) + schema.get("maxLength", _SCALAR) * (1 if "contentEncoding" in schema else 2)


_MARKS, _SCALAR = 8, 40  # bytes of quotes, colons, commas and spaces; characters of a number or a word
TEXT = {"type": "string"}
NUMBER = {"type": "number"}
TIME = {"type": "number", "description": "seconds since 1970, UTC"}
FLAG = {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0}
ANYTHING: Schema = {}
NOTHING = record({})
ID = text(40, 4, pattern="^[a-z0-9]+$")
DIGEST = text(64, 64, pattern="^[0-9a-f]{64}$", description="SHA-256 of the canonical document")
SLUG = text(40, 2, pattern="^[a-z0-9][a-z0-9-]*$", description="a short name for addresses: letters, digits, hyphens")
PLAN = text(64, 4, pattern="^[a-z0-9]+$", description="a plan: its digest, or the id of an entry of a gallery")
ROLE = one_of("student", "viewer", "editor", "runner", "owner")
DAYS = whole(1, 366, "days until it ends")
PERSON = record({"name": TEXT, "display": TEXT})
PAGE = {"limit": whole(1, 100, "items of one answer"), "cursor": text(200, 1, description="`next` of the answer before")}
"""What every long list may be asked for with."""

ERROR = record({"error": record({"message": TEXT, "ways_out": list_of(TEXT), "kind": TEXT}, {"request": TEXT})})
