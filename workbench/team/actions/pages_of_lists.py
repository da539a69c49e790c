"""Long lists in parts, the newest first. A cursor is the time and the id of the last item: what is added meanwhile moves nothing."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Select, and_, or_
from sqlalchemy.orm import Session as DatabaseSession

from workbench.team.access import InputError
from workbench.team.actions.schemas import Item, ListPage, PageQuery

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
    return InputError("The cursor is none of this server's.", ["take `next` of the answer before", "leave it out to begin anew"])
