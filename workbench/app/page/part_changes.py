"""What one visitor's window is sent, as plain values: the parameters of the page around the board, and of each part of a board what changed
since the last time, so that a drop does not send again what the page has.

It knows no Panel and no Bokeh: a board and its visit run in a process of their own.

A change of a value is `[new]`; of a dictionary with the same keys, or a list as long, it is a dictionary of the changes of its entries, by
key or place. `model_parts.js` makes them. Every state that is sent has a number (`edition`), and a change names that which it is of: a page
that missed one asks for the whole.
"""

import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from workbench.widgets.shared_states import SharedList, json_text, json_value

Target = Literal["bridge", "board"]
Show = Callable[[Target, Mapping[str, Any]], None]
"""Shows parameters of the bridge, or of the board, whose parts are texts (`json_text`): a first board comes whole, with `"new": True`, and
`{"closed": True}` removes it."""


class VisitorWindow:
    """One visitor's window. It remembers the bridge's parameters, and sends them again to a page that connects later."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self.bridge: dict[str, Any] = {"shown": 0, "saves": 0, "unsaved": False, "notice": {}, "text": "", "answers": "", "failure": {}}

    def tell(self, **parameters: Any) -> None:
        """Send parameters of `visitor_screen.Bridge`; JSON only."""
        self.bridge.update(parameters)
        self._show("bridge", parameters)

    def count(self, name: Literal["shown", "saves"]) -> None:
        """Increment a counter: the page acts on each change of it."""
        self.tell(**{name: self.bridge[name] + 1})

    def tell_again(self) -> None:
        """Send all present parameters to a newly connected page."""
        self._show("bridge", dict(self.bridge))

    def show_board(self, **parameters: Any) -> None:
        """Send parameters of `visitor_screen.BoardComponent`; JSON only."""
        self._show("board", parameters)


WHOLE = "told"
"""The entry of a state that counts how often a page asked for it again (`Answers.revision`): it then gets all of it."""


def find_changes(before: Any, after: Any) -> Any:
    """The change from one JSON value to another; `None` where they are equal. A list of plain values most of which are others is whole.

    >>> find_changes({"a": 1, "b": [1, 2, 3], "c": "x"}, {"a": 1, "b": [1, 3, 3], "c": "y"})
    {'b': {'1': [3]}, 'c': ['y']}
    """
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        found = {key: each for key in after if (each := find_changes(before[key], after[key])) is not None}
        return found or None
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        if not any(isinstance(each, dict | list) for each in after):
            return _find_others(before, after)
        entries = enumerate(zip(before, after, strict=True))
        return {str(place): each for place, pair in entries if (each := find_changes(*pair)) is not None} or None
    return None if type(before) is type(after) and before == after else [after]


def with_change(before: Any, change: Any) -> Any:
    """A value with a change made, as the page makes it (`withChange` of `model_parts.js`).

    >>> with_change({"a": 1, "b": [1, 2, 3], "c": "x"}, {"b": {"1": [3]}, "c": ["y"]})
    {'a': 1, 'b': [1, 3, 3], 'c': 'y'}
    """
    if isinstance(change, list):
        return change[0]
    after = list(before) if isinstance(before, list) else dict(before)
    for key, each in change.items():
        place = int(key) if isinstance(before, list) else key
        after[place] = with_change(before[place], each)
    return after


def changed_text(text: str, change: Mapping[str, Any]) -> str:
    """The text of a part with a change (`SentParts.next`) made; as it was, if the change is of another edition."""
    before = json_value(text)
    return json_text(with_change(before, change["by"])) if before.get("edition") == change["of"] else text


def _find_others(before: list[Any], after: list[Any]) -> Any:
    """The change of a list of plain values: the columns of charts are long."""
    others = {str(i): [b] for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b or type(a) is not type(b)}
    return [after] if 2 * len(others) > len(after) else others or None


class _SentEntry(NamedTuple):
    """An entry of a state that was sent: its text, and the list if other windows are sent the same one."""

    text: str
    shared: SharedList | None


_Entries = dict[str, _SentEntry]
_NOTHING: tuple[int, _Entries] = (0, {})


class SentParts:
    """The parts as they were last sent to one window: the number of each, and its entries as they were, each with its text."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[int, _Entries]] = {}

    def begin(self, part: str, state: Mapping[str, Any]) -> str:
        """The whole part as text, with its number."""
        edition, _ = self._sent.get(part, _NOTHING)
        return self._keep(part, edition + 1, _entries(state))

    def next(self, part: str, state: Mapping[str, Any]) -> dict[str, str]:
        """The parameters that tell a window of a new state: what changed as `changes`, or the whole part where it is wanted, or no longer
        than that; none where nothing has changed."""
        edition, before = self._sent.get(part, _NOTHING)
        after = _entries(state)
        if before.keys() != after.keys() or before.get(WHOLE) != after.get(WHOLE):
            return {part: self._keep(part, edition + 1, after)}
        changes = [f"{json_text(key)}:{change}" for key, each in after.items() if (change := _change_text(before[key], each)) is not None]
        if not changes:
            return {}
        whole = self._keep(part, edition + 1, after)
        changed = f'{{"part":{json_text(part)},"of":{edition},"by":{{{",".join(changes)},"edition":[{edition + 1}]}}}}'
        return {"changes": changed} if len(changed) < len(whole) else {part: whole}

    def _keep(self, part: str, edition: int, entries: _Entries) -> str:
        self._sent[part] = edition, entries
        return f'{{{"".join(f"{json_text(key)}:{each.text}," for key, each in entries.items())}"edition":{edition}}}'


def _entries(state: Mapping[str, Any]) -> _Entries:
    return {key: _SentEntry(json_text(value), value if isinstance(value, SharedList) else None) for key, value in state.items()}


def _change_text(before: _SentEntry, after: _SentEntry) -> str | None:
    """The change from one entry to another as text; between two shared ones it is found once for all windows."""
    if before.text is after.text or before.text == after.text:
        return None
    if before.shared is None or after.shared is None:
        return _find_text(before, after)
    known = after.shared.change
    if known is None or known[0]() is not before.shared:
        known = after.shared.change = weakref.ref(before.shared), _find_text(before, after)
    return known[1]


def _find_text(before: _SentEntry, after: _SentEntry) -> str | None:
    change = find_changes(json_value(before.text), json_value(after.text))
    return None if change is None else json_text(change)
