"""Earlier boards, offered on a newly opened page."""

from collections.abc import Iterable, Mapping
from time import time
from typing import Any

from workbench.session.journal import JournalEntry, is_board_id

MOST_OFFERED = 3
MOST_REMEMBERED = 10
_LONGEST = 60  # characters of a name or an edit
_SPANS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def parse_board_ids(message: Mapping[str, Any]) -> list[str]:
    """The valid ids in a `boards` message of the bridge."""
    ids = message.get("ids")
    return [each for each in ids[:MOST_REMEMBERED] if isinstance(each, str) and is_board_id(each)] if isinstance(ids, list) else []


def offer_boards(entries: Iterable[JournalEntry], now: float | None = None) -> dict[str, Any] | None:
    """A notice of the bridge that offers boards, the last changed first; `None` without any. A choice leads to the board's URL."""
    newest = sorted(entries, key=lambda entry: entry.last_changed, reverse=True)[:MOST_OFFERED]
    if not newest:
        return None
    now = time() if now is None else now
    return {
        "title": "Take up a board where you left it?" if len(newest) == 1 else "Take up one of your boards where you left it?",
        "text": "Its plans are kept, undo included." if len(newest) == 1 else "Their plans are kept, undo included.",
        "choices": [
            *([f"board-{number}", _label(each, now), f"?board={each.board_id}"] for number, each in enumerate(newest)),
            ["later", "Not now"],
        ],
    }


def _label(entry: JournalEntry, now: float) -> str:
    """
    >>> _label(JournalEntry("a-board", "gpt", 3, "d_ff → model", 1000.0), 1130.0)
    'gpt · 3 plans · last d_ff → model · 2 minutes ago'
    """
    last = f" · last {_shorten(entry.edit)}" if entry.edit else ""
    plans = f"{entry.plans} plan{'s' * (entry.plans != 1)}"
    return f"{_shorten(entry.name)} · {plans}{last} · {_ago_text(now - entry.last_changed)}"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _ago_text(seconds: float) -> str:
    """
    >>> _ago_text(5), _ago_text(60), _ago_text(2 * 86_400)
    ('just now', '1 minute ago', '2 days ago')
    """
    name, count = next(((name, int(seconds // span)) for name, span in _SPANS if seconds >= span), ("", 0))
    return f"{count} {name}{'s' * (count != 1)} ago" if count else "just now"
