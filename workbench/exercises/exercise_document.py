"""Documents of exercises and of answers: JSON of a version and a schema, read as untrusted text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.core.parse_untrusted import UnreadableError, parse_json, read_text, verify_length
from workbench.documents.schema import schema_problem
from workbench.errors import DocumentError

VERSION = 1
EXERCISE, ANSWERS = "exercise", "answers"
KINDS = (EXERCISE, ANSWERS)
"""Kinds of documents; each says `"format": "sharding-workbench.KIND"`."""


def read_document(path: Path) -> str:
    """The text of a file. Raises `DocumentError` where it cannot be read."""
    try:
        return read_text(path)
    except OSError as error:
        raise DocumentError(f"`{path}` cannot be read: {error.strerror or error}.", ["check the path"]) from None
    except UnicodeDecodeError:
        raise DocumentError(f"`{path}` is not text in UTF-8.", ["choose a JSON file"]) from None


def parse_document(kind: str, text: str, name: str) -> Mapping[str, Any]:
    """The document as plain values, checked from the outside in: JSON, the kind, a version we know, the schema. Raises `DocumentError`."""
    verify_length(text, name, f"{kind} document")
    try:
        document = parse_json(text)
    except UnreadableError as error:
        raise DocumentError(f"{name} is not JSON: {error}.", ["mend it there"]) from None
    form = f"sharding-workbench.{kind}"
    if not isinstance(document, dict) or document.get("format") != form:
        raise DocumentError(
            f'{name} is JSON, but no document of {_WORDS[kind]}: it does not say "format": "{form}".', [f'add "format": "{form}"']
        )
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise DocumentError(
            f"{name} is of version {version}; this workbench reads up to version {VERSION}.",
            ["install a newer workbench: pip install --upgrade sharding-workbench"],
        )
    if problem := schema_problem(kind, document):
        raise DocumentError(f"{name} is not valid: at `{problem[0]}`, {problem[1]}.", ["mend that entry"])
    return document


_WORDS = {EXERCISE: "an exercise", ANSWERS: "answers"}
