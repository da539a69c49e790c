"""Check a document against the schema of its kind."""

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_GRAMMARS = "rfc3987_syntax"


@cache
def load_schema(kind: str) -> Mapping[str, Any]:
    """The schema of a `kind` of document: `plan` or `fleet`."""
    schema: Mapping[str, Any] = json.loads(Path(__file__).with_name(f"{kind}.schema.json").read_text(encoding="utf-8"))
    return schema


def schema_problem(kind: str, document: Mapping[str, Any]) -> tuple[str, str] | None:
    """The place in a document that departs most from its schema (`$.mesh[0]`), and how; `None` if none does."""
    import_validator()
    from jsonschema.exceptions import best_match

    error = best_match(_validator(kind).iter_errors(document))
    if error is None:
        return None
    text: str = error.message  # begins with the value, and ends with what is wrong with it
    return error.json_path, text if len(text) <= 200 else f"{text[:120]} … {text[-60:]}"


@cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(load_schema(kind))


def import_validator() -> None:
    """Import jsonschema, which is only done where a document is read or written.

    Where JupyterLab is installed, jsonschema would then compile 38 grammars, to check URLs with non-ASCII letters, which takes 2.6 s. No
    document of ours has such a URL, so the grammars are hidden from it.
    """
    if "jsonschema" in sys.modules or _GRAMMARS in sys.modules:
        return
    sys.modules[_GRAMMARS] = None  # type: ignore[assignment]
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules[_GRAMMARS]
