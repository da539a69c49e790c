"""A worker's messages, line by line, with their time: the log of a run or of a compilation."""

from typing import Any, NamedTuple

MOST_MESSAGES = 200


class Message(NamedTuple):
    """A message; `seconds` since the work was requested; `tone` is `""`, `good`, `warn` or `bad`."""

    seconds: float
    text: str
    tone: str = ""


Log = tuple[Message, ...]


def append_message(log: Log, seconds: float, text: str, tone: str = "") -> Log:
    """The log with one more line; a stage that is reported every second is listed once."""
    if log and log[-1].text == text:
        return log
    return (*log, Message(max(seconds, 0.0), text, tone))[-MOST_MESSAGES:]


def waiting_text(ahead: int) -> str:
    """The text in place of the stage, while others come first."""
    return f"waiting: {ahead} {'job' if ahead == 1 else 'jobs'} ahead"


def stage_text(stage: str, seconds: float, *, waits: bool) -> str:
    """A stage and its time so far; waiting is not updated every second."""
    return stage if waits else f"{stage} · {max(seconds, 0.0):.0f} s"


def log_state(log: Log) -> list[dict[str, Any]]:
    """JSON."""
    return [
        {"key": f"{place} {each.text[:40]}", "at": f"{each.seconds:.1f} s", "text": each.text, "tone": each.tone}
        for place, each in enumerate(log)
    ]
