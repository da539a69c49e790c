"""What changed of a part of a board since it was last sent, so that a drop does not send again what the page has.

A change of a value is `[new]`; of a dictionary with the same keys, or a list as long, it is a dictionary of the changes of its entries, by
key or place. `model_parts.js` makes them. Every state that is sent has a number (`edition`), and a change names that which it is of: a page
that missed one asks for the whole.
"""

import json
from collections.abc import Mapping
from typing import Any

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


def _find_others(before: list[Any], after: list[Any]) -> Any:
    """The change of a list of plain values: the columns of charts are long."""
    others = {str(i): [b] for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b or type(a) is not type(b)}
    return [after] if 2 * len(others) > len(after) else others or None


class SentParts:
    """The parts as they were last sent to one window: the number of each, its text without that, and what the text says."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[int, str, dict[str, Any]]] = {}

    def begin(self, part: str, state: Mapping[str, Any]) -> str:
        """The whole part as text, with its number."""
        edition, _, _ = self._sent.get(part, (0, "", {}))
        return self._keep(part, edition + 1, _text(state))

    def next(self, part: str, state: Mapping[str, Any]) -> dict[str, str]:
        """The parameters that tell a window of a new state: what changed as `changes`, or the whole part where it is wanted, or no longer
        than that; none where nothing has changed."""
        edition, sent, before = self._sent.get(part, (0, "", {}))
        if (text := _text(state)) == sent:
            return {}
        whole = self._keep(part, edition + 1, text)
        if before.get(WHOLE) != state.get(WHOLE):
            return {part: whole}
        changed = _text({"part": part, "of": edition, "by": find_changes(before, self._sent[part][2])})
        return {"changes": changed} if len(changed) < len(whole) else {part: whole}

    def _keep(self, part: str, edition: int, text: str) -> str:
        whole = f'{text.removesuffix("}")},"edition":{edition}}}'
        self._sent[part] = edition, text, json.loads(whole)
        return whole


def _text(state: Mapping[str, Any]) -> str:
    return json.dumps(state, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
