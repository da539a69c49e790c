"""Without a sandbox no code of others starts by any way, unless an administrator names a user for it or turns the sandbox off."""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.team_sandbox import ability_alone, ability_refused, opened
from tests.support.team_server import new_store
from tests.team.programs.test_registry import fetched_wheel, wheel
from workbench.errors import WorkbenchError
from workbench.team.data_folder import make_private
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.rooms.planners import Planners
from workbench.team.sandbox.resource_limits import ResourceLimits, SandboxAbility, SandboxError, SandboxLevel, SandboxPolicy
from workbench.team.sandbox.sandbox import Sandbox, named_user
from workbench.team.sandbox.sandboxed_command import SandboxedCommand
from workbench.team.store.store import now
from workbench.team.store.tables import Project, RegisteredProgram, User
from workbench.team.team_config import TeamConfig
from workbench.team.team_setup import make_sandbox_policy, owners_approve

LIMITS = ResourceLimits(deadline=60)
MINE = "import pathlib\npathlib.Path({marker!r}).write_text('ran')\n\ndef build() -> 'workbench.Program': ...\n"


@pytest.fixture
def refused() -> Iterator[Sandbox]:
    yield from opened(ability_refused())


@pytest.fixture
def registry(tmp_path: Path, refused: Sandbox) -> ProgramRegistry:
    store = new_store(tmp_path)
    with store.write() as session:
        session.add(User(id="ada", name="ada", display="Ada", created=now()))
        session.add(Project(id="p", slug="p", name="P", created=now()))
    return ProgramRegistry(store, tmp_path / "programs", refused)


@pytest.fixture
def program(registry: ProgramRegistry, tmp_path: Path) -> RegisteredProgram:
    """A program that says when it is imported; its files are fetched and read as on any other server."""
    added = fetched_wheel(registry, wheel({"mine.py": MINE.format(marker=str(tmp_path / "marker"))}))
    assert (added.state, added.problem) == ("fetched", "")
    return registry.approve(added.id, added.digest or "", by="ada")


WAYS: dict[str, Callable[[Planners, RegisteredProgram], object]] = {
    "a room": lambda planners, program: planners.connect(program),
    "a document": lambda planners, program: asyncio.run(planners.describe_document("{}", program)),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_starts_it(way: str, registry: ProgramRegistry, program: RegisteredProgram, tmp_path: Path):
    planners = Planners(registry)
    try:
        with pytest.raises(WorkbenchError, match="do not run on this machine: it has no sandbox"):
            WAYS[way](planners, program)
    finally:
        planners.close()
    assert not (tmp_path / "marker").exists()


def test_a_command_is_code_of_others_unless_it_says_that_it_is_not(refused: Sandbox):
    command = SandboxedCommand(("/bin/true",), LIMITS)
    with pytest.raises(SandboxError):
        refused.start(command)
    assert refused.run(replace(command, our_code=True)).ending.is_good
    assert "Refused. Registered programs do not run here" in str(refused.ability)


def test_an_administrator_may_turn_the_sandbox_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    policy = make_sandbox_policy(TeamConfig(data=tmp_path, programs={"without_sandbox": True}))
    assert policy == SandboxPolicy("", tmp_path, without_sandbox=True)
    assert ability_alone().level is SandboxLevel.SEPARATE_PROCESS
    assert "they can read and write everything that the server can" in str(ability_alone())


def test_who_approves_is_one_of_three_words(tmp_path: Path):
    assert owners_approve(TeamConfig(data=tmp_path)) == "shared"
    with pytest.raises(WorkbenchError, match=r"`owners_approve` in team\.toml is `some`"):
        owners_approve(TeamConfig(data=tmp_path, programs={"owners_approve": "some"}))


@pytest.mark.parametrize(("name", "words"), [("no-such-user", "not a user of this machine"), ("root", "has the server's rights")])
def test_the_user_of_programs_exists_and_has_no_rights_of_the_server(name: str, words: str):
    with pytest.raises(SandboxError, match=words):
        named_user(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="to become another user takes root")
def test_a_program_of_another_user_reads_its_files_and_nothing_else_of_the_server(tmp_path: Path):
    """Its files lie in the server's folder, which is private: it may pass through, and can neither list nor read what lies beside them."""
    data = _private_folder()
    tree, secret, events = data / "programs" / "trees" / "mine", data / "team.db", data / "jobs" / "j" / "events.jsonl"
    ability = SandboxAbility(SandboxLevel.SEPARATE_USER, policy=SandboxPolicy("nobody", data))
    lines = (
        f"/bin/cat {tree}/mine.py",
        f"/bin/cat {secret} || echo no secret",
        f"echo x >> {secret} || echo not written",
        f"ls {data} || echo not listed",
        f"echo done > {events}",
        "id -u",
    )
    sandbox = Sandbox(ability)
    try:
        run = sandbox.run(SandboxedCommand(("/bin/sh", "-c", "\n".join(lines)), LIMITS, readable=(tree,), writable=(events,)))
        user = named_user("nobody")
        assert run.printed.decode().split("\n") == ["mine", "no secret", "not written", "not listed", str(user.uid), ""], run.errors
        assert (secret.read_text(), events.read_text()) == ("a secret", "done\n")
        assert events.stat().st_uid == os.geteuid()
        make_private(data)  # as any command of the server does meanwhile
        run = sandbox.run(SandboxedCommand(("/bin/sh", "-c", lines[0]), LIMITS, readable=(tree,)))
        assert run.printed == b"mine\n", run.errors
        assert {oct(each.stat().st_mode & 0o777) for each in (data, data / "jobs", data / "programs")} == {"0o710"}
    finally:
        sandbox.close()
        shutil.rmtree(data)


def _private_folder() -> Path:
    """As a server that is root makes it, where other users can come near it."""
    import tempfile

    data = Path(tempfile.mkdtemp(dir="/var/tmp"))
    for folder in (data / "programs", data / "programs" / "trees", data / "jobs", data / "jobs" / "j"):
        folder.mkdir(mode=0o700)
    (data / "programs" / "trees" / "mine").mkdir(mode=0o755)
    (data / "programs" / "trees" / "mine" / "mine.py").write_text("mine\n")
    for file, text in ((data / "team.db", "a secret"), (data / "jobs" / "j" / "events.jsonl", "")):
        file.write_text(text)
        file.chmod(0o600)
    return data
