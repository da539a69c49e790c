"""The rooms of a project: who is in each now, and what was changed last."""

from typing import Any

from workbench.team.pages.page_handler import ProjectPageHandler, gather
from workbench.team.pages.plan_cards import plan_words

MOST_ROOMS = 100
_MOST_PLANS = 200
_WORDS = {
    "undo": "took a change back",
    "redo": "made a change again",
    "go": "went to another plan",
    "name": "named a plan",
    "pin": "pinned a plan",
}


class RoomsPage(ProjectPageHandler):
    """See the module."""

    async def get(self, project: str) -> None:
        rooms, plans = await gather(
            self.ask_all("rooms.list", MOST_ROOMS, {"closed": "true"}, project=project),
            self.ask_all("plans.list", _MOST_PLANS, project=project),
        )
        opened = await gather(*(self._with_last(each) for each in rooms if not each["closed"]))
        await self.show_in_project(
            "rooms.html",
            project,
            "rooms",
            title="Rooms",
            rooms=opened,
            closed=[each for each in rooms if each["closed"]],
            plans=[(each["id"], plan_words(each)) for each in plans],
        )

    async def _with_last(self, room: Any) -> Any:
        """The room with the last entry of its log, which says who did what."""
        if not room["edits"]:
            return {**room, "last": None}
        found = (await self.ask("rooms.log", {"after": str(room["edits"] - 1), "limit": "1"}, room=room["id"]))["items"]
        return {**room, "last": {**found[0], "what": change_text(found[0])} if found else None}


def change_text(entry: Any) -> str:
    """What an entry of a room's log did, in a few words.

    >>> change_text({"kind": "undo", "body": {}})
    'took a change back'
    >>> change_text({"kind": "edit", "body": {"added": [{"edit": {"edit": "shard_dim", "dim": "d_ff", "axes": ["model"]}}]}})
    'shard dim d_ff'
    """
    if entry["kind"] in _WORDS:
        return _WORDS[entry["kind"]]
    edits = [each.get("edit", {}) for each in entry["body"].get("added", ()) if isinstance(each, dict)]
    return ", ".join(_edit_text(each) for each in edits[:2] if isinstance(each, dict)) or "a change"


def _edit_text(edit: dict[str, Any]) -> str:
    subject = next((edit[key] for key in ("dim", "axis", "pattern", "place", "name") if isinstance(edit.get(key), str)), "")
    return f"{str(edit.get('edit', 'edit')).replace('_', ' ')} {subject}".strip()[:80]
