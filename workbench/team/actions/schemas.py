"""Request and response types, their JSON schemas, and pagination. The same schemas validate requests and form the
OpenAPI document.

**Invariants**

- Every object is closed (`additionalProperties: false`), every submitted string and list has a maximum length, every
  number is finite.
- A field with a default is optional. A default of `None` does not accept null; a nullable field has the default
  `UNSET`.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, UnsetType
from msgspec.structs import fields
from sqlalchemy import Select, and_, or_, select
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import InputError, MissingError, ProjectRole
from workbench.team.store.tables import Project, User

Schema = Mapping[str, Any]
Item = TypeVar("Item")

NAME, NOTE, SECRET = 80, 4_000, 100
DOCUMENT = 1 << 20
"""Maximum length of a plan document in characters, the same as in `core.parse_untrusted`."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A closed object of a request or response."""

    @classmethod
    def of(cls, row: Any, **known: Any) -> Self:
        """Create a record from a database row; fields missing in `known` are the row's attributes."""
        return cls(**{name: known[name] if name in known else getattr(row, name) for name in cls.__struct_fields__})


def one_of(*words: str) -> Meta:
    return Meta(extra_json_schema={"enum": list(words)})


def described(text: str) -> Meta:
    return Meta(description=text)


Time = Annotated[float, described("seconds since 1970, UTC")]
Count = Annotated[int, Meta(ge=0)]
After = Annotated[int, Meta(ge=0, le=10**12)]
Word = Annotated[str, Meta(min_length=1, max_length=NAME)]
Named = Annotated[Word, Meta(pattern=r"^.*\S.*$")]
Note = Annotated[str, Meta(max_length=NOTE)]
Id = Annotated[str, Meta(min_length=4, max_length=40, pattern="^[a-z0-9]+$")]
Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern="^[0-9a-f]{64}$")]
Digest = Annotated[Sha256, described("SHA-256 of the canonical document")]
Slug = Annotated[
    Annotated[str, Meta(min_length=2, max_length=40, pattern="^[a-z0-9][a-z0-9-]*$")],
    described("a short name for addresses: letters, digits, hyphens"),
]
PlanName = Annotated[
    Annotated[str, Meta(min_length=4, max_length=64, pattern="^[a-z0-9]+$")],
    described("a plan: its digest, or the id of an entry of a gallery"),
]
RoleName = Annotated[str, one_of(*map(str, ProjectRole))]
JobKind = Annotated[str, one_of("run", "compile", "search")]
Days = Annotated[int, Meta(ge=1, le=366, description="days until it ends")]
Figures = dict[str, Any]
"""Figures of a plan at one tier, by name."""


class PersonRecord(Record, frozen=True):
    name: str
    display: str


class ListPage(Record, Generic[Item], frozen=True):
    items: list[Item]
    next: Annotated[str, Meta(max_length=200)] | None


class PageQuery(Record, frozen=True):
    """Query parameters of all paginated lists."""

    limit: Annotated[int, Meta(ge=1, le=100, description="items of one answer")] = 50
    cursor: Annotated[str, Meta(min_length=1, max_length=200, description="`next` of the previous answer")] | None = None


class ErrorText(Record, frozen=True):
    """An error with suggested fixes; `request` is the request ID in the server's log."""

    message: str
    ways_out: list[str]
    kind: str
    request: str = ""


class ErrorRecord(Record, frozen=True):
    error: ErrorText


@cache
def arguments_of(function: Callable[..., Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Return name, type and default of each argument after the call; `Parameter.empty` means no default."""
    kinds = get_type_hints(function, include_extras=True)
    return tuple((name, kinds[name], parameter.default) for name, parameter in list(signature(function).parameters.items())[1:])


def inputs_schema(functions: Iterable[Callable[..., Any]], without: Collection[str] = ()) -> Schema:
    """Return the schema of all arguments of the functions except `without`; a record argument contributes its fields."""
    parts: dict[str, tuple[Any, Any]] = {}
    for function in functions:
        for name, kind, default in arguments_of(function):
            if is_record(kind):
                parts |= _fields_of(kind)
            elif name not in without:
                parts[name] = kind, default
    return _object(parts)


def answer_schema(function: Callable[..., Any]) -> Schema:
    """Return the schema of a function's answer; a list becomes the `items` of an object, `None` an empty object."""
    kind = get_type_hints(function, include_extras=True)["return"]
    if kind is NoneType:
        return _object({})
    schema = schema_of(kind)
    return schema if schema.get("type") != "array" else {**_object({}), "properties": {"items": schema}, "required": ["items"]}


def as_json(answer: Any) -> Any:
    if answer is None:
        return {}
    return msgspec.to_builtins({"items": answer} if isinstance(answer, list) else answer)


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Record)


def schema_of(kind: Any) -> Schema:
    metas: tuple[Meta, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *annotations = get_args(kind)
        metas = tuple(annotations)
    schema = {**_plain(kind)}
    for meta in metas:
        schema |= _keywords(schema.get("type", ""), meta)
    if schema.get("type") == "string" and "maxLength" in schema:
        schema.setdefault("minLength", 0)
    if "maxProperties" in schema:
        schema["propertyNames"] = _KEYS
    return schema


def largest_json(schema: Schema) -> int:
    """Return the maximum bytes of matching JSON: two per character, which may be escaped, one in base64."""
    names = schema.get("properties", {})
    sizes = [largest_json(property_schema) + len(name) + _MARKS for name, property_schema in names.items()]
    if isinstance(additional := schema.get("additionalProperties"), Mapping):
        sizes.append(schema.get("maxProperties", 0) * (largest_json(additional) + 2 * NAME))
    if "items" in schema:
        sizes.append(schema["maxItems"] * (largest_json(schema["items"]) + _MARKS))
    sizes.append(max(map(largest_json, schema.get("anyOf", ())), default=0))
    return sum(sizes) + schema.get("maxLength", _SCALAR) * (1 if "contentEncoding" in schema else 2)


def _plain(kind: Any) -> Schema:
    """Return the schema of an unannotated type; a list has at most 1,000 items by default."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in (Union, UnionType):
        choices = [schema_of(option) for option in inner if option is not UnsetType]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0]), "minItems": 0, "maxItems": 1000}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    assert is_record(origin or kind), kind
    return _object(_fields_of(kind))


def _fields_of(kind: Any) -> dict[str, tuple[Any, Any]]:
    return {field.name: (field.type, Parameter.empty if field.required else field.default) for field in fields(kind)}


def _object(parts: Mapping[str, tuple[Any, Any]]) -> Schema:
    properties = {name: _without_null(schema_of(kind)) if default is None else schema_of(kind) for name, (kind, default) in parts.items()}
    required = [name for name, (_, default) in parts.items() if default is Parameter.empty]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _without_null(schema: Schema) -> Schema:
    options = [option for option in schema.get("anyOf", ()) if option != _SCALARS[NoneType]]
    return options[0] if len(options) == 1 else schema


def _keywords(kind: str, meta: Meta) -> dict[str, Any]:
    suffix = {"string": "Length", "array": "Items", "object": "Properties"}.get(kind, "")
    keywords = {
        f"min{suffix}": meta.min_length,
        f"max{suffix}": meta.max_length,
        "minimum": meta.ge,
        "maximum": meta.le,
        "pattern": meta.pattern,
        "description": meta.description,
    }
    return {key: value for key, value in keywords.items() if value is not None} | (meta.extra_json_schema or {})


_MARKS, _SCALAR = 8, 40  # bytes of quotes, colons, commas and spaces; characters of a number or a word
_SCALARS: Mapping[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}
_KEYS = schema_of(Annotated[Word, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_. -]*$")])
ERROR = schema_of(ErrorRecord)
NOTHING = _object({})


# Users and projects in answers.


def people_by_id(session: DatabaseSession, ids: Iterable[str | None]) -> dict[str, PersonRecord]:
    user_ids = {identifier for identifier in ids if identifier}
    rows = session.execute(select(User.id, User.name, User.display).where(User.id.in_(user_ids))) if user_ids else ()
    return {user_id: PersonRecord(name=name, display=display) for user_id, name, display in rows}


def project_slugs(session: DatabaseSession, ids: Iterable[str | None]) -> dict[str, str]:
    project_ids = {identifier for identifier in ids if identifier}
    rows = session.execute(select(Project.id, Project.slug).where(Project.id.in_(project_ids))) if project_ids else ()
    return {project_id: slug for project_id, slug in rows}  # noqa: C416 - rows are no pairs for the type checker


def user_of_name(session: DatabaseSession, name: str) -> User:
    """Return a user by name. Raises `MissingError`."""
    user = session.scalars(select(User).where(User.name == name)).first()
    if user is None:
        raise MissingError("person", name)
    return user


# Pagination, newest first. A cursor is the time and ID of the last item, so that new items do not shift pages.

_LATEST = 1e12
_KEY = re.compile(r"[A-Za-z0-9._-]{1,80}")


def list_page(
    session: DatabaseSession,
    statement: Select[Any],
    time: Any,
    key: Any,
    query: PageQuery,
    to_records: Callable[[Sequence[Any]], list[Item]],
) -> ListPage[Item]:
    """Return a page of a statement's rows, ordered by `time` and `key`. Raises `InputError` for an invalid cursor."""
    if query.cursor is not None:
        last_time, last = parse_cursor(query.cursor)
        if not isinstance(last, key.type.python_type):
            raise _no_cursor()
        statement = statement.where(or_(time < last_time, and_(time == last_time, key < last)))
    columns = statement.add_columns(time.label("page_time"), key.label("page_key"))
    rows = session.execute(columns.order_by(time.desc(), key.desc()).limit(query.limit + 1)).all()
    page_rows = rows[: query.limit]
    return ListPage(
        items=to_records([row[0] for row in page_rows]), next=make_cursor(*page_rows[-1][-2:]) if len(rows) > query.limit else None
    )


def make_cursor(time: float, key: object) -> str:
    return base64.urlsafe_b64encode(json.dumps([time, key]).encode()).decode().rstrip("=")


def parse_cursor(text: str) -> tuple[float, Any]:
    """Decode a cursor of `make_cursor`. Raises `InputError`.

    >>> parse_cursor(make_cursor(1.5, "abc"))
    (1.5, 'abc')
    """
    try:
        time, key = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        time, key = None, None
    is_time = isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < _LATEST
    if is_time and (_KEY.fullmatch(key) if isinstance(key, str) else type(key) is int and 0 <= key < _LATEST):
        return float(time), key
    raise _no_cursor()


def _no_cursor() -> InputError:
    return InputError("Invalid cursor.", ["use `next` of the previous answer", "omit it to start from the beginning"])
