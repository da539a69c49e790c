"""Answers to lessons, stored as one document per lesson in the user's state folder."""

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from workbench.core.installation import shipped_folder
from workbench.documents.durable_files import explain_write_errors, replace_file
from workbench.errors import DocumentError
from workbench.exercises.exercise import read_document
from workbench.session.journal_folder import journal_folder

_MERGED = ("answers", "attempts")


def _path(lesson: str) -> Path:
    return journal_folder() / "lessons" / f"{lesson}.answers.json"


def exercise_text(lesson: str) -> str:
    """The exercise document of a lesson."""
    return read_document(shipped_folder("lessons") / lesson / "exercise.json")


def lesson_of(document: str) -> str:
    """The lesson with this exercise document; empty if it belongs to none."""
    folders = sorted(shipped_folder("lessons").iterdir())
    return next((folder.name for folder in folders if (folder / "exercise.json").exists() and exercise_text(folder.name) == document), "")


def read_stored_answers(lesson: str) -> str:
    """The stored document of answers; empty if there is none. Raises `DocumentError` if it cannot be read."""
    path = _path(lesson)
    return read_document(path) if path.exists() else ""


def merge_stored_answers(lesson: str, text: str) -> None:
    """Merge a document of answers into the stored one. Raises `DocumentError` if it cannot be written."""
    path, added = _path(lesson), json.loads(text)
    stored = _parsed(lesson)
    merged = {key: {**stored.get(key, {}), **added[key]} for key in _MERGED}
    right = sorted({*stored.get("right", ()), *added["right"]})
    with explain_write_errors(path, DocumentError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(path, json.dumps({**added, **merged, "right": right}, indent=1).encode())


def delete_answers() -> None:
    """Delete the answers to all lessons."""
    with explain_write_errors(_path(""), DocumentError):
        for path in _path("").parent.glob("*.answers.json"):
            path.unlink()


def count_right(lesson: str) -> int:
    """The number of questions answered correctly; 0 if the answers cannot be read."""
    return len(_parsed(lesson).get("right", ()))


@cache
def count_questions(lesson: str) -> int:
    return len(json.loads(exercise_text(lesson))["questions"])


def _parsed(lesson: str) -> Mapping[str, Any]:
    with suppress(DocumentError, ValueError):
        document = json.loads(read_stored_answers(lesson) or "{}")
        return document if isinstance(document, dict) else {}
    return {}
