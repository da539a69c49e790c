"""What people send and get, as types, and the JSON schemas that follow from them: they are checked, and printed in the OpenAPI document.
How people and projects are named in answers, and long lists in parts.

**Invariants**

- Every object is closed (`additionalProperties: false`), every text and list that is sent has a greatest length, every number is finite.
- What has a default may be left out. Where that is `None`, null is not sent: what may also be null has the default `UNSET`.
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
"""Characters of a plan document, as `core.parse_untrusted` reads at most."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A closed object of a body or an answer."""

    @classmethod
    def of(cls, row: Any, **known: Any) -> Self:
        """The record of a row of the store: a field that is not among the `known` ones is the row's attribute of that name."""
        return cls(**{name: known[name] if name in known else getattr(row, name) for name in cls.__struct_fields__})


def one_of(*words: str) -> Meta:
    """Of a text that is one of these words."""
    return Meta(extra_json_schema={"enum": list(words)})


def described(text: str) -> Meta:
    """What the OpenAPI document says of a value besides its type."""
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
"""What a tier says of a plan, by the name of the figure."""


class PersonRecord(Record, frozen=True):
    """A person as colleagues see them."""

    name: str
    display: str


class ListPage(Record, Generic[Item], frozen=True):
    """A part of a long list, and the cursor of the next part."""

    items: list[Item]
    next: Annotated[str, Meta(max_length=200)] | None


class PageQuery(Record, frozen=True):
    """What every long list may be asked for with."""

    limit: Annotated[int, Meta(ge=1, le=100, description="items of one answer")] = 50
    cursor: Annotated[str, Meta(min_length=1, max_length=200, description="`next` of the previous answer")] | None = None


class ErrorText(Record, frozen=True):
    """What was wrong, and the ways out; `request` is the number under which the server's log has it."""

    message: str
    ways_out: list[str]
    kind: str
    request: str = ""


class ErrorRecord(Record, frozen=True):
    """The answer to what is refused."""

    error: ErrorText


@cache
def arguments_of(function: Callable[..., Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Name, type and default of each argument after the first, which is the call; `Parameter.empty` for none."""
    kinds = get_type_hints(function, include_extras=True)
    return tuple((name, kinds[name], each.default) for name, each in list(signature(function).parameters.items())[1:])


def inputs_schema(functions: Iterable[Callable[..., Any]], without: Collection[str] = ()) -> Schema:
    """The closed object of what functions take, but for the arguments `without`. An argument that is a record stands for its fields."""
    parts: dict[str, tuple[Any, Any]] = {}
    for function in functions:
        for name, kind, default in arguments_of(function):
            if is_record(kind):
                parts |= _fields_of(kind)
            elif name not in without:
                parts[name] = kind, default
    return _object(parts)


def answer_schema(function: Callable[..., Any]) -> Schema:
    """The schema of what a function answers: a list is the `items` of an object, nothing is an empty one."""
    kind = get_type_hints(function, include_extras=True)["return"]
    if kind is NoneType:
        return _object({})
    found = schema_of(kind)
    return found if found.get("type") != "array" else {**_object({}), "properties": {"items": found}, "required": ["items"]}


def as_json(answer: Any) -> Any:
    """An answer as JSON values, in the form that `answer_schema` describes."""
    if answer is None:
        return {}
    return msgspec.to_builtins({"items": answer} if isinstance(answer, list) else answer)


def is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Record)


def schema_of(kind: Any) -> Schema:
    """The JSON schema of a type."""
    metas: tuple[Meta, ...] = ()
    if get_origin(kind) is Annotated:
        kind, *found = get_args(kind)
        metas = tuple(found)
    schema = {**_plain(kind)}
    for meta in metas:
        schema |= _keywords(schema.get("type", ""), meta)
    if schema.get("type") == "string" and "maxLength" in schema:
        schema.setdefault("minLength", 0)
    if "maxProperties" in schema:
        schema["propertyNames"] = _KEYS
    return schema


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


def _plain(kind: Any) -> Schema:
    """The schema of a type without limits of its own; a list has a thousand items at most, unless its limits say something else."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in (Union, UnionType):
        choices = [schema_of(each) for each in inner if each is not UnsetType]
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
    """Type and default of each field of a record."""
    return {each.name: (each.type, Parameter.empty if each.required else each.default) for each in fields(kind)}


def _object(parts: Mapping[str, tuple[Any, Any]]) -> Schema:
    properties = {name: _without_null(schema_of(kind)) if default is None else schema_of(kind) for name, (kind, default) in parts.items()}
    required = [name for name, (_, default) in parts.items() if default is Parameter.empty]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _without_null(schema: Schema) -> Schema:
    left = [each for each in schema.get("anyOf", ()) if each != _SCALARS[NoneType]]
    return left[0] if len(left) == 1 else schema


def _keywords(kind: str, meta: Meta) -> dict[str, Any]:
    """What a limit is called in a schema of this type."""
    things = {"string": "Length", "array": "Items", "object": "Properties"}.get(kind, "")
    given = {
        f"min{things}": meta.min_length,
        f"max{things}": meta.max_length,
        "minimum": meta.ge,
        "maximum": meta.le,
        "pattern": meta.pattern,
        "description": meta.description,
    }
    return {key: value for key, value in given.items() if value is not None} | (meta.extra_json_schema or {})


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


# How people and projects are named in answers.


def people_by_id(session: DatabaseSession, ids: Iterable[str | None]) -> dict[str, PersonRecord]:
    """Name and display name of each, by id."""
    wanted = {each for each in ids if each}
    found = session.execute(select(User.id, User.name, User.display).where(User.id.in_(wanted))) if wanted else ()
    return {user_id: PersonRecord(name=name, display=display) for user_id, name, display in found}


def project_slugs(session: DatabaseSession, ids: Iterable[str | None]) -> dict[str, str]:
    """The name in addresses of each project, by id."""
    wanted = {each for each in ids if each}
    found = session.execute(select(Project.id, Project.slug).where(Project.id.in_(wanted))) if wanted else ()
    return {project_id: slug for project_id, slug in found}  # noqa: C416 - rows are no pairs for the type checker


def user_of_name(session: DatabaseSession, name: str) -> User:
    """The person whom colleagues type as this. Raises `MissingError`."""
    found = session.scalars(select(User).where(User.name == name)).first()
    if found is None:
        raise MissingError("person", name)
    return found


# Long lists in parts, the newest first. A cursor is the time and the id of the last item: what is added meanwhile moves nothing.

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
    """One part of what a statement selects, ordered by the column `time` and then `key`. Raises `InputError` for a cursor that is none."""
    if query.cursor is not None:
        before, last = parse_cursor(query.cursor)
        if not isinstance(last, key.type.python_type):
            raise _no_cursor()
        statement = statement.where(or_(time < before, and_(time == before, key < last)))
    columns = statement.add_columns(time.label("page_time"), key.label("page_key"))
    rows = session.execute(columns.order_by(time.desc(), key.desc()).limit(query.limit + 1)).all()
    shown = rows[: query.limit]
    return ListPage(items=to_records([row[0] for row in shown]), next=make_cursor(*shown[-1][-2:]) if len(rows) > query.limit else None)


def make_cursor(time: float, key: object) -> str:
    """A cursor, in letters that an address takes."""
    return base64.urlsafe_b64encode(json.dumps([time, key]).encode()).decode().rstrip("=")


def parse_cursor(text: str) -> tuple[float, Any]:
    """The inverse of `make_cursor`.

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
