"""The addresses of a filled team's pages, and what an HTML page holds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TypeVar

from tests.support.team_world import TeamWorld

ADMIN_PAGES = ("/admin", "/admin/limits", "/admin/audit", "/admin/status")
EVENT_ATTRIBUTES = "on"
Answer = TypeVar("Answer")


def in_thread(work: Callable[..., Answer], *arguments: object) -> Answer:
    """What `work` gives in a thread of its own: an event loop cannot run in one where Playwright's does."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work, *arguments).result(60)


def project_pages(world: TeamWorld) -> dict[str, str]:
    """The pages within the project `vision`, by what they are."""
    things, here = world.things["vision"], "/p/vision"
    entries = things["entries"]
    return {
        "gallery": f"{here}/",
        "filtered gallery": f"{here}/?fits=yes&sort=step&mesh=data&tier=compiled",
        "empty gallery": f"{here}/?q=nothing+like+it",
        "plan": f"{here}/plans/{entries[2]}",
        "comparison": f"{here}/compare?plans={','.join(entries[:5])}",
        "whole comparison": f"{here}/compare?plans={','.join(entries[:2])}&all=1",
        "rooms": f"{here}/rooms",
        "assignments": f"{here}/assignments",
        "assignment": f"{here}/assignments/{things['assignment']}",
        "wall": f"{here}/assignments/{things['assignment']}/wall",
        "jobs": f"{here}/jobs",
        "job that runs": f"{here}/jobs/{things['jobs']['running']}",
        "job that is done": f"{here}/jobs/{things['jobs']['done']}",
        "job that failed": f"{here}/jobs/{things['jobs']['failed']}",
        "programs": f"{here}/programs",
        "people": f"{here}/people",
        "hardware": f"{here}/hardware",
    }


@dataclass
class ReadPage(HTMLParser):
    """Elements, texts and the attributes that are worth a look."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def forms(self) -> set[str]:
        """Where its forms are posted to."""
        return {str(each.get("action")) for each in self.of("form") if each.get("method") == "post"}

    @property
    def scripts_within(self) -> list[str]:
        """What would run besides the server's own files."""
        inline = [str(each) for each in self.of("script") if not str(each.get("src", "")).startswith("/team-static/")]
        handlers = [f"{tag} {key}" for tag, attributes in self.elements for key in attributes if key.startswith(EVENT_ATTRIBUTES)]
        links = [
            str(value) for _, attributes in self.elements for key, value in attributes.items() if key == "href" and "script:" in str(value)
        ]
        return inline + handlers + links


def read_page(html: str) -> ReadPage:
    """The page, read."""
    page = ReadPage()
    page.feed(html)
    page.close()
    return page
