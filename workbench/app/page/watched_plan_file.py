"""A plan file of one visitor: read, written, and watched for changes by others."""

from pathlib import Path

from workbench.core.parse_untrusted import MOST_TEXT, open_plain, verify_regular
from workbench.documents import dump_plan, load_plan, save_plan
from workbench.errors import DocumentError
from workbench.plan.plan import Plan
from workbench.widgets.board.board_host import ENDING

MOST_BYTES = 4 * MOST_TEXT + 1
"""Compared bytes of a file, more than a plan document may have."""
Stamp = tuple[int, int, int]
"""Modification time, size and inode of a file; two saves may have the same time."""


class PlanFile:
    """One file, and its content as this visitor last saw it; unseen changes are never overwritten silently."""

    def __init__(self, path: Path, allow: tuple[str, ...] = ()) -> None:
        self.path = path
        self._allow = allow
        self._seen: bytes | None = None  # `None` also where there was no file
        self._looked = False
        self._plan: Plan | None = None  # the plan of `_seen`, if this visitor read or wrote it
        self._stamp: Stamp | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def read(self) -> Plan:
        self._remember()
        self._plan = load_plan(self.path, self._allow)
        return self._plan

    def save(self, plan: Plan) -> str:
        """Write the plan and return the file name; raises `DocumentError` once if another person changed the file."""
        save_plan(plan, self.path, self._verify_unchanged)
        self._remember()
        mine = dump_plan(plan).encode()
        if self._seen != mine:  # changed since by another writer: detected by the next check
            self._seen, self._stamp = mine, None
        self._plan = plan
        return self.name

    def _verify_unchanged(self) -> None:
        """Raise `DocumentError` for content that this visitor has not seen, and `OSError` for a pipe or device."""
        if self.path.exists():
            verify_regular(self.path.stat())
        content = _content(self.path)
        if self._looked and content not in (None, self._seen):
            self._remember()
            raise DocumentError(
                f"`{self.name}` was changed by another person since you opened or saved it, so your plan was not saved.",
                ["save again to overwrite it", "reload the page to see theirs", "export your plan first"],
            )

    def changed_by_others(self) -> bool:
        """Whether the file has new content; each change is reported once."""
        if _stamp(self.path) == self._stamp:
            return False
        before = self._seen
        self._remember()
        return self._seen is not None and self._seen != before

    def holds(self, plan: Plan) -> bool:
        """Whether the file holds this plan as far as known, whatever its whitespace."""
        return self._plan == plan

    def _remember(self) -> None:
        self._looked = True
        self._stamp = _stamp(self.path)  # before the content, so that a change in between is detected by the next check
        self._seen, self._plan = _content(self.path), None


def file_under(root: Path, name: str) -> Path:
    """Return the plan file `name` under `root`, links followed; raises `DocumentError` for any other path."""
    path = (root / name.replace("\0", "")).resolve()
    if not path.is_relative_to(root.resolve()):
        raise DocumentError(f"`{name[:200]}` is outside the served folder.", ["choose a path below that folder"])
    if not path.name.endswith(ENDING):
        raise DocumentError(f"`{name[:200]}` is not a plan file: its name does not end in `{ENDING}`.", [f"choose a *{ENDING}"])
    return path


def _stamp(path: Path) -> Stamp | None:
    """Return a stamp that differs after each save, even of the same text."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _content(path: Path) -> bytes | None:
    try:
        with open_plain(path) as file:
            return file.read(MOST_BYTES)
    except OSError:
        return None
