"""A register of programs over a real database, and repositories that git made."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.team_sandbox import ability_here, opened
from tests.support.team_server import new_store
from workbench.team.programs import fetch_files
from workbench.team.programs import program_registry as registry_module
from workbench.team.programs.fetch_policy import FetchPolicy, TreeLimits
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.sandbox.resource_limits import MIB
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.store.store import now
from workbench.team.store.tables import Project, User

MINE = '''
"""A program."""
import workbench as wb
from mine_parts.sizes import SIZES


def build(batch: int = 16) -> wb.Program:
    from workbench.models import build

    return build("two_layer", batch=batch, **SIZES)
'''
PROGRAM = {"mine.py": MINE, "mine_parts/__init__.py": "", "mine_parts/sizes.py": "SIZES = {'io': 8, 'hidden': 16}\n"}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """The best that this machine has: fetching works at every level."""
    yield from opened(ability_here())


@pytest.fixture
def registry(tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> ProgramRegistry:
    """It fetches in this process; tests of the process in which a server does that say so (`in_a_process`)."""
    monkeypatch.setattr(
        registry_module, "fetch_in_process", lambda request, _: fetch_files.fetch(fetch_files.parse_request(request.to_json()))
    )
    if os.geteuid() == 0:
        for each in (tmp_path, *tmp_path.parents[:2]):
            each.chmod(each.stat().st_mode | 0o011)  # the server's folder can be entered by the users of its sandboxes
    store = new_store(tmp_path)
    with store.write() as session:
        session.add(User(id="ada", name="ada", display="Ada", created=now()))
        session.add(Project(id="p", slug="p", name="P", created=now()))
    policy = FetchPolicy(folders=(tmp_path,), tree=TreeLimits(files=50, total=2 * MIB, each=1 * MIB), download=64 * MIB, seconds=120)
    return ProgramRegistry(store, tmp_path / "programs", sandbox, policy)


@pytest.fixture
def in_a_process(registry: ProgramRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch as a server does."""
    monkeypatch.setattr(registry_module, "fetch_in_process", fetch_files.fetch_in_process)


@pytest.fixture
def commit(tmp_path: Path) -> Callable[[dict[str, str]], tuple[str, str]]:
    """`commit(files)` makes a repository of these, and gives its address and commit; a value that begins with `->` is a link."""

    def make(files: dict[str, str]) -> tuple[str, str]:
        folder = tmp_path / "repository"
        folder.mkdir(exist_ok=True)
        git(folder, "init", "-q", "-b", "main")
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(text[2:]) if text.startswith("->") else path.write_text(text, encoding="utf-8")
        git(folder, "add", "-A", "-f")
        git(folder, "commit", "-q", "-m", "made")
        return f"file://{folder}", git(folder, "rev-parse", "HEAD")

    return make


def git(folder: Path, *arguments: str) -> str:
    names = {f"GIT_{who}_{what}": "ada@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **names}
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
