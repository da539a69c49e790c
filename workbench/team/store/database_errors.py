"""What a database says when it does not do what it should, in words."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from workbench.errors import WorkbenchError


class DatabaseProblemError(WorkbenchError):
    """A database that does not answer, or not as it should."""


@contextmanager
def explain_database_errors() -> Iterator[None]:
    """Say errors of the database in its own words, which have no password in them. Raises `DatabaseProblemError`."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        ways_out = ["is it running?", "is its address right?"]
        raise DatabaseProblemError(f"The database does not answer: {reason[:300]}.", ways_out) from None
