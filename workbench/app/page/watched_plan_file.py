"""A plan file as one visitor of the page knows it: read, written, and watched for changes by others."""

from pathlib import Path

from workbench.core.parse_untrusted import MOST_TEXT, open_plain, verify_regular
from workbench.documents import dump_plan, load_plan, save_plan
from workbench.errors import DocumentError
from workbench.plan.plan import Plan
from workbench.widgets.board.board_host import ENDING

MOST_BYTES = 4 * MOST_TEXT + 1
"""Bytes of a file that are compared: more than a plan document may have."""
Stamp = tuple[int, int, int]
"""When a file was written, its size, and its inode: two saves may have the same time."""


class PlanFile:
    """One file, and the text in it that this visitor has seen.

    Two visitors, or a visitor and an editor, may have the same file open: what the other wrote since is never overwritten without a
    question. `allow` as of `documents.load_plan`.
    """

    def __init__(self, path: Path, allow: tuple[str, ...] = ()) -> None:
        self.path = path
        self._allow = allow
        self._seen: bytes | None = None  # `None` also where there was no file
        self._looked = False
        self._plan: Plan | None = None  # that of `_seen`, where this visitor read or wrote it
        self._stamp: Stamp | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def read(self) -> Plan:
        """The plan that is in the file now; errors are those of `documents.load_plan`."""
        self._remember()
        self._plan = load_plan(self.path, self._allow)
        return self._plan

    def save(self, plan: Plan) -> str:
        """Write the plan; the result says where.

        Raises `DocumentError` if somebody else wrote the file since it was read or saved here; a second `save` then overwrites it.
        """
        save_plan(plan, self.path, self._verify_unchanged)
        self._remember()
        mine = dump_plan(plan).encode()
        if self._seen != mine:  # somebody wrote since, which is noticed the next time
            self._seen, self._stamp = mine, None
        self._plan = plan
        return self.name

    def _verify_unchanged(self) -> None:
        """Raises `DocumentError` for a text that this visitor has not seen, and `OSError` for a pipe or a device."""
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
        """Whether the file has content that this visitor has not seen; each change is reported once."""
        if _stamp(self.path) == self._stamp:
            return False
        before = self._seen
        self._remember()
        return self._seen is not None and self._seen != before

    def holds(self, plan: Plan) -> bool:
        """Whether the file holds this plan, as far as this visitor knows, whatever its whitespace."""
        return self._plan == plan

    def _remember(self) -> None:
        self._looked = True
        self._stamp = _stamp(self.path)  # before the content: what changes in between is noticed the next time
        self._seen, self._plan = _content(self.path), None


def file_under(root: Path, name: str) -> Path:
    """The plan file `name` under `root`. Raises `DocumentError` for a path that is no plan file or is outside, links followed."""
    path = (root / name.replace("\0", "")).resolve()
    if not path.is_relative_to(root.resolve()):
        raise DocumentError(f"`{name[:200]}` is outside the served folder.", ["choose a path below that folder"])
    if not path.name.endswith(ENDING):
        raise DocumentError(f"`{name[:200]}` is not a plan file: its name does not end in `{ENDING}`.", [f"choose a *{ENDING}"])
    return path


def _stamp(path: Path) -> Stamp | None:
    """A stamp of the file that differs for another text, and for the same one that was saved again."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _content(path: Path) -> bytes | None:
    try:
        with open_plain(path) as file:
            return file.read(MOST_BYTES)
    except OSError:
        return None
