"""What a worker has told, line by line, with the second it came: the log of a run or of a compilation."""

from typing import Any, NamedTuple

MOST_MESSAGES = 200


class Message(NamedTuple):
    """`seconds` since the work was asked for; `tone` is `""`, `good`, `warn` or `bad`."""

    seconds: float
    text: str
    tone: str = ""


Log = tuple[Message, ...]


def noted(log: Log, seconds: float, text: str, tone: str = "") -> Log:
    """The log with one line more; a stage that is told again every second is noted once."""
    if log and log[-1].text == text:
        return log
    return (*log, Message(max(seconds, 0.0), text, tone))[-MOST_MESSAGES:]


def log_state(log: Log) -> list[dict[str, Any]]:
    """JSON."""
    return [
        {"key": f"{place} {each.text[:40]}", "at": f"{each.seconds:.1f} s", "text": each.text, "tone": each.tone}
        for place, each in enumerate(log)
    ]
