"""Changes sent to one visitor's window, as plain values, so that a drop does not send again what the page already has.

Independent of Panel and Bokeh, because a board and its visit run in a separate process.

A change of a value is `[new]`; of a dictionary with the same keys, or a list of the same length, a dictionary of
changes by key or index; `model_parts.js` applies them. Every state has a number (`edition`), and a change names its
base edition: a page that missed one requests the whole state.
"""

import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from workbench.widgets.shared_states import SharedList, json_text, json_value

Target = Literal["bridge", "board"]
Show = Callable[[Target, Mapping[str, Any]], None]
"""Sets parameters of the bridge or board; a first board is whole with `"new": True`, `{"closed": True}` removes it."""


class VisitorWindow:
    """One visitor's window; it stores the bridge's parameters and resends them to a page that connects later."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self.bridge: dict[str, Any] = {"shown": 0, "saves": 0, "unsaved": False, "notice": {}, "text": "", "answers": "", "failure": {}}

    def tell(self, **parameters: Any) -> None:
        self.bridge.update(parameters)
        self._show("bridge", parameters)

    def count(self, name: Literal["shown", "saves"]) -> None:
        """Increment a counter; the page acts on each change."""
        self.tell(**{name: self.bridge[name] + 1})

    def tell_again(self) -> None:
        self._show("bridge", dict(self.bridge))

    def show_board(self, **parameters: Any) -> None:
        self._show("board", parameters)


WHOLE = "told"
"""State entry that counts requests for the whole state (`Answers.revision`); a new count sends the whole state."""


def find_changes(before: Any, after: Any) -> Any:
    """Return the change between two JSON values, `None` if equal; a list of mostly changed plain values is sent whole.

    >>> find_changes({"a": 1, "b": [1, 2, 3], "c": "x"}, {"a": 1, "b": [1, 3, 3], "c": "y"})
    {'b': {'1': [3]}, 'c': ['y']}
    """
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        changes = {key: change for key in after if (change := find_changes(before[key], after[key])) is not None}
        return changes or None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        if not any(isinstance(change, dict | list) for change in after):
            return _find_others(before, after)
        entries = enumerate(zip(before, after, strict=True))
        return {str(place): change for place, pair in entries if (change := find_changes(*pair)) is not None} or None
    return None if type(before) is type(after) and before == after else [after]


def with_change(before: Any, change: Any) -> Any:
    """Apply a change to a value, as the page does (`withChange` of `model_parts.js`).

    >>> with_change({"a": 1, "b": [1, 2, 3], "c": "x"}, {"b": {"1": [3]}, "c": ["y"]})
    {'a': 1, 'b': [1, 3, 3], 'c': 'y'}
    """
    if isinstance(change, list):
        return change[0]
    after = list(before) if isinstance(before, list) else dict(before)
    for key, inner in change.items():
        place = int(key) if isinstance(before, list) else key
        after[place] = with_change(before[place], inner)
    return after


def changed_text(text: str, change: Mapping[str, Any]) -> str:
    """Apply a change of `SentParts.next` to a part's text; a change of another edition is ignored."""
    before = json_value(text)
    return json_text(with_change(before, change["by"])) if before.get("edition") == change["of"] else text


def _find_others(before: list[Any], after: list[Any]) -> Any:
    others = {str(i): [b] for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b or type(a) is not type(b)}
    return [after] if 2 * len(others) > len(after) else others or None


class _SentEntry(NamedTuple):
    text: str
    shared: SharedList | None


_Entries = dict[str, _SentEntry]
_NOTHING: tuple[int, _Entries] = (0, {})


class SentParts:
    """The parts last sent to one window: the edition and the entries of each."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[int, _Entries]] = {}

    def begin(self, part: str, state: Mapping[str, Any]) -> str:
        edition, _ = self._sent.get(part, _NOTHING)
        return self._keep(part, edition + 1, _entries(state))

    def next(self, part: str, state: Mapping[str, Any]) -> dict[str, str]:
        """Return the parameters that update a window: `changes`, or the whole part if requested or shorter."""
        edition, before = self._sent.get(part, _NOTHING)
        after = _entries(state)
        if before.keys() != after.keys() or before.get(WHOLE) != after.get(WHOLE):
            return {part: self._keep(part, edition + 1, after)}
        changes = [f"{json_text(key)}:{change}" for key, entry in after.items() if (change := _change_text(before[key], entry)) is not None]
        if not changes:
            return {}
        whole = self._keep(part, edition + 1, after)
        changed = f'{{"part":{json_text(part)},"of":{edition},"by":{{{",".join(changes)},"edition":[{edition + 1}]}}}}'
        return {"changes": changed} if len(changed) < len(whole) else {part: whole}

    def _keep(self, part: str, edition: int, entries: _Entries) -> str:
        self._sent[part] = edition, entries
        return f'{{{"".join(f"{json_text(key)}:{entry.text}," for key, entry in entries.items())}"edition":{edition}}}'


def _entries(state: Mapping[str, Any]) -> _Entries:
    return {key: _SentEntry(json_text(value), value if isinstance(value, SharedList) else None) for key, value in state.items()}


def _change_text(before: _SentEntry, after: _SentEntry) -> str | None:
    """Return the change between two entries as text; for shared lists it is computed once for all windows."""
    if before.text is after.text or before.text == after.text:
        return None
    if before.shared is None or after.shared is None:
        return _find_text(before, after)
    cached = after.shared.change
    if cached is None or cached[0]() is not before.shared:
        cached = after.shared.change = weakref.ref(before.shared), _find_text(before, after)
    return cached[1]


def _find_text(before: _SentEntry, after: _SentEntry) -> str | None:
    change = find_changes(json_value(before.text), json_value(after.text))
    return None if change is None else json_text(change)
