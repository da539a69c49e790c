"""The metadata that depends on where the repository is: the links of the project, and the long description with absolute links.

The repository's address is `WORKBENCH_REPOSITORY`, or on GitHub that of the running workflow; a source archive has it in its
`PKG-INFO`.
Without one there are no links: an address that nobody has registered yet must not be published.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

IMAGE = re.compile(r"!\[([^\]]*)\]\((?!https?://)([^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


class RepositoryLinks(MetadataHookInterface):
    """Fills in `urls` and `readme`."""

    def update(self, metadata: dict) -> None:
        """Add them to the metadata of `pyproject.toml`."""
        root = Path(self.root)
        repository = find_repository(root)
        text = absolute_links((root / "README.md").read_text(encoding="utf-8"), repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if repository:
            pages = {"Repository": "", "Documentation": "/tree/main/docs", "Changelog": "/blob/main/CHANGELOG.md", "Issues": "/issues"}
            metadata["urls"] = {name: f"{repository}{page}" for name, page in pages.items()}


def find_repository(root: Path) -> str:
    """The address of the repository, without a slash at its end; empty where none is known."""
    archive = root / "PKG-INFO"
    found = re.search(r"^Project-URL: Repository, (\S+)$", archive.read_text(encoding="utf-8"), re.MULTILINE) if archive.is_file() else None
    hosted = "/".join(os.environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"))
    address = os.environ.get("WORKBENCH_REPOSITORY") or (found[1] if found else hosted)
    return address.rstrip("/") if address.startswith("https://") else ""


def absolute_links(text: str, repository: str) -> str:
    """A Markdown text with the files it links to at the repository's address; without one, links are plain text and images their titles."""
    if not repository:
        return LINK.sub(r"\1", IMAGE.sub(r"*\1*", text))
    return LINK.sub(rf"[\1]({repository}/blob/main/\2)", IMAGE.sub(rf"![\1]({repository}/raw/main/\2)", text))
