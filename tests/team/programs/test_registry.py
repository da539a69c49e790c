"""A program is added, fetched, approved by its digest, run in a sandbox, withdrawn; each refusal is a sentence."""

import errno
import io
import os
import socket
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.team_jobs import wait_until
from tests.team.programs.conftest import MINE, PROGRAM, git
from workbench.team.programs import fetch_files
from workbench.team.programs import program_registry as registry_module
from workbench.team.programs.fetch_files import FetchedFiles, FetchRequest, parse_request
from workbench.team.programs.fetch_policy import FetchPolicy, ProgramRegistryError, TreeLimits, read_source, verify_source
from workbench.team.programs.program_registry import PLANNER, ProgramRegistry, sandboxed_planner_command
from workbench.team.sandbox.resource_limits import ResourceLimits
from workbench.team.sandbox.sandboxed_command import SandboxedCommand

Commit = Callable[[dict[str, str]], tuple[str, str]]
LIMITS = ResourceLimits(deadline=300)


def wheel(files: dict[str, str | bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"mine-1.dist-info/WHEEL": "Wheel-Version: 1.0\n", **files}.items():
            archive.writestr(name, text)
    return content.getvalue()


def fetched_git(registry: ProgramRegistry, source: tuple[str, str], target: str = "mine:build"):
    return registry.fetch(registry.add_git("p", "mine", target, *source, by="ada").id)


def fetched_wheel(registry: ProgramRegistry, content: bytes, target: str = "mine:build"):
    return registry.fetch(registry.add_wheel("p", "mine", target, "mine-1-py3-none-any.whl", content, by="ada").id)


@pytest.mark.compile
def test_a_commit_is_fetched_approved_and_built_in_a_sandbox(registry: ProgramRegistry, commit: Commit):
    program = fetched_git(registry, commit(PROGRAM))
    assert (program.state, program.problem) == ("fetched", "")
    program = registry.approve(program.id, program.digest or "", by="ada")
    assert (program.state, program.approved_by) == ("approved", "ada")
    _, root = registry.code_of(program)
    code = (
        "import workbench as wb; from workbench.documents import *; print(program_from_reference(wb.Reference('mine:build', {'batch': 4})))"
    )
    run = registry.sandbox.run(SandboxedCommand.python("-c", code, code=(root,), limits=LIMITS))
    assert run.ending.is_good, run.errors
    assert run.printed.startswith(b"Program('two-layer'")


@pytest.mark.usefixtures("in_a_process")
def test_a_wheel_of_the_same_files_has_the_digest_of_its_files(registry: ProgramRegistry):
    program = fetched_wheel(registry, wheel(PROGRAM))
    assert (program.state, program.problem) == ("fetched", "")
    again = registry.add_wheel("p", "again", "mine:build", "mine-1-py3-none-any.whl", wheel(PROGRAM), by="ada")
    assert registry.fetch(again.id).digest == program.digest
    other = registry.add_wheel("p", "other", "mine:build", "mine-1-py3-none-any.whl", wheel({**PROGRAM, "more.py": ""}), by="ada")
    assert registry.fetch(other.id).digest != program.digest


def test_the_planner_of_a_program(registry: ProgramRegistry, commit: Commit):
    program = fetched_git(registry, commit({f"src/{name}": text for name, text in PROGRAM.items()}))
    with pytest.raises(ProgramRegistryError, match="The program `mine` is fetched, so it does not run"):
        sandboxed_planner_command(registry, program, 7)
    program = registry.approve(program.id, program.digest or "", by="ada")
    command = sandboxed_planner_command(registry, program, 7)
    assert command.arguments[1:] == ("-P", "-m", PLANNER, "7", "mine")
    tree, root = registry.code_of(program)
    assert (command.descriptors, command.network, command.readable) == ((7,), False, (tree,))
    assert root == tree / "src"
    assert command.environment["PYTHONPATH"].split(":")[1] == str(root)


def test_the_command_line_of_a_planner_runs_with_its_socket(registry: ProgramRegistry, commit: Commit):
    """With a module of the program in the place of the planner: it has the descriptor, and its own code first on the path."""
    stand_in = "import socket, sys\nsocket.socket(fileno=int(sys.argv[1])).sendall(repr(sys.argv[2:]).encode())\n"
    program = fetched_git(registry, commit({**PROGRAM, "stand_in.py": stand_in}))
    program = registry.approve(program.id, program.digest or "", by="ada")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = sandboxed_planner_command(registry, program, theirs.fileno(), LIMITS)
        arguments = tuple("stand_in" if each == PLANNER else each for each in command.arguments)
        process = registry.sandbox.start(replace(command, arguments=arguments))
        theirs.close()
        ours.settimeout(120)
        assert ours.recv(100) == b"['mine']"
        process.wait()


def test_what_was_changed_does_not_run(registry: ProgramRegistry, commit: Commit):
    program = fetched_git(registry, commit(PROGRAM))
    program = registry.approve(program.id, program.digest or "", by="ada")
    tree, _ = registry.code_of(program)
    assert oct((tree / "mine.py").stat().st_mode & 0o777) == "0o444"
    (tree / "mine.py").chmod(0o644)
    (tree / "mine.py").write_text("print('changed')", encoding="utf-8")
    with pytest.raises(ProgramRegistryError, match="were changed after the fetch: the program does not run"):
        sandboxed_planner_command(registry, program, 7)
    with pytest.raises(ProgramRegistryError, match="were changed"):
        registry.approve(program.id, program.digest or "", by="ada")


def kept_of(registry: ProgramRegistry, folder: str) -> list[str]:
    """What is in the server's folder of programs."""
    return sorted(each.name for each in (registry._uploads.parent / folder).iterdir())


def test_what_is_withdrawn_does_not_run_and_its_files_go_when_no_other_program_has_them(registry: ProgramRegistry):
    first, second = (
        registry.fetch(registry.add_wheel("p", name, "mine:build", "mine-1-py3-none-any.whl", wheel(PROGRAM), by="ada").id)
        for name in ("mine", "again")
    )
    registry.approve(first.id, first.digest or "", by="ada")
    with pytest.raises(ProgramRegistryError, match="is withdrawn, so it does not run"):
        registry.code_of(registry.withdraw(first.id))
    with pytest.raises(ProgramRegistryError, match="is withdrawn; only fetched programs can be approved"):
        registry.approve(first.id, first.digest or "", by="ada")
    assert kept_of(registry, "trees") == [second.digest]
    assert second.size == sum(map(len, PROGRAM.values())) + len("Wheel-Version: 1.0\n")
    registry.withdraw(second.id)
    assert kept_of(registry, "trees") == []


@pytest.mark.usefixtures("in_a_process")
@pytest.mark.parametrize("content", [wheel(PROGRAM), wheel({"other.py": ""}), b"not a wheel"], ids=["fetched", "failed", "refused"])
def test_an_upload_is_not_kept(registry: ProgramRegistry, content: bytes):
    program = fetched_wheel(registry, content)
    assert kept_of(registry, "uploads") == []
    assert kept_of(registry, "trees") == ([program.digest] if program.digest else [])


def test_a_program_that_is_withdrawn_while_it_is_fetched_stays_so(registry: ProgramRegistry, monkeypatch):
    added = registry.add_wheel("p", "mine", "mine:build", "mine-1-py3-none-any.whl", wheel(PROGRAM), by="ada")
    monkeypatch.setattr(registry_module, "fetch_in_process", lambda *_: registry.withdraw(added.id) and FetchedFiles("0" * 64, 0))
    assert registry.fetch(added.id).state == "withdrawn"
    assert kept_of(registry, "trees") == kept_of(registry, "uploads") == []


def test_a_server_removes_what_the_one_before_left(registry: ProgramRegistry):
    kept = fetched_wheel(registry, wheel(PROGRAM))
    stopped = registry.add_wheel("p", "stopped", "mine:build", "mine-1-py3-none-any.whl", wheel(PROGRAM), by="ada")
    for each in ("new-abc", "0" * 64):
        (registry._uploads.parent / "trees" / each).mkdir()
    registry.clean()
    assert (kept_of(registry, "trees"), kept_of(registry, "uploads")) == ([kept.digest], [])
    assert registry.get(stopped.id).problem == "The server stopped while it was fetched. Register it again."


@pytest.mark.usefixtures("in_a_process")
def test_what_is_fetched_ends_with_the_server(registry: ProgramRegistry, monkeypatch):
    """The process that fetches waits for what is never said, until it is ended."""
    monkeypatch.setattr(fetch_files, "COMMAND", ("/bin/cat", "/proc/self/fd/1"))
    added = registry.add_wheel("p", "mine", "mine:build", "mine-1-py3-none-any.whl", wheel(PROGRAM), by="ada")
    thread = threading.Thread(target=registry.fetch, args=(added.id,))
    thread.start()
    wait_until(lambda: registry._fetching)
    registry.close()
    thread.join(60)
    assert registry.get(added.id).problem.startswith("The fetch process ended early")


def test_a_request_to_fetch_is_read_as_it_was_written(registry: ProgramRegistry):
    policy = FetchPolicy(("a", "b"), {"a": "b:c"}, "proxy", (Path("/x"),), TreeLimits(files=3))
    request = FetchRequest("/f", "git", "x 1", "m:f", "/u", policy, registry.sandbox.ability)
    assert parse_request(request.to_json()) == request


def test_a_wheel_that_finds_no_space_leaves_no_program(registry: ProgramRegistry, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        with pytest.raises(OSError, match="No space left"):
            registry.add_wheel("p", "mine", "mine:build", "mine-1-py3-none-any.whl", b"wheel", by="ada")
    added = registry.add_wheel("p", "mine", "mine:build", "mine-1-py3-none-any.whl", b"wheel", by="ada")
    assert added.state == "added", "the name is free"


def test_another_digest_is_not_approved(registry: ProgramRegistry, commit: Commit):
    program = fetched_git(registry, commit(PROGRAM))
    with pytest.raises(ProgramRegistryError, match="the approval was for 000000000000"):
        registry.approve(program.id, "0" * 64, by="ada")
    with pytest.raises(ProgramRegistryError, match="already has a program `mine`"):
        registry.add_git("p", "mine", "mine:build", "https://example.com/a.git", "0" * 40, by="ada")
    with pytest.raises(ProgramRegistryError, match="There is no program `none`"):
        registry.get("none")


SOURCES = [
    ({**PROGRAM, "mine.py": "def other() -> 'Program': ..."}, "mine:build", "There is no function `build` in `mine`; there are `other`"),
    (PROGRAM, "yours:build", "There is no module `yours` in it; there are `mine`, `mine_parts`"),
    ({"mine.py": "def build(): ..."}, "mine:build", "`mine:build` is not declared to return a program"),
    ({"mine.py": "import torchvision\n" + MINE}, "mine:build", "`mine` imports `torchvision`, which is neither in the program nor"),
    ({**PROGRAM, "mine_parts/sizes.py": "import nowhere.parts"}, "mine:build", "`mine_parts.sizes` imports `nowhere`"),
    ({"mine.py": "def build(:"}, "mine:build", "`mine` is not Python"),
    ({**PROGRAM, "random.py": ""}, "mine:build", "Its module `random` would shadow the Python module"),
    ({"mine.py": "(" * 150 + ")" * 150}, "mine:build", ""),
    ({"mine.py": "-" * 900_000 + "1"}, "mine:build", ""),
    ({**PROGRAM, "json.py": "print('ran')", "ast.py": "print('ran')"}, "mine:build", "Its module `ast` would shadow"),
]


@pytest.mark.share(3)
@pytest.mark.parametrize(("files", "target", "problem"), SOURCES)
def test_what_cannot_be_built_is_said_when_it_is_fetched(registry: ProgramRegistry, files: dict, target: str, problem: str):
    program = fetched_wheel(registry, wheel(files), target)
    assert program.state == "failed"
    assert problem in program.problem
    assert "Try: " in program.problem
    assert "Traceback" not in program.problem


def test_an_import_that_the_program_can_do_without_is_no_problem(registry: ProgramRegistry):
    optional = "try:\n    import torchvision\nexcept ImportError:\n    torchvision = None\n"
    assert fetched_wheel(registry, wheel({**PROGRAM, "mine.py": optional + MINE})).problem == ""


def test_a_repository_is_not_obeyed(registry: ProgramRegistry, commit: Commit, tmp_path: Path):
    """No hook, filter, attribute or submodule; what it would run leaves a file."""
    ran = tmp_path / "ran"
    ran.mkdir()
    ran.chmod(0o777)
    run = f"touch {ran}/it; cat"
    files = {
        **PROGRAM,
        ".gitattributes": "*.py filter=evil ident export-ignore\n*.md filter=lfs diff=lfs merge=lfs -text\nmine.py export-subst\n",
        ".gitmodules": '[submodule "inner"]\n  path = inner\n  url = https://example.com/inner.git\n',
        "notes.md": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 10\n",
        "setup.py": f"open({str(ran / 'setup')!r}, 'w')\n",
    }
    address, found = commit(files)
    folder = Path(address.removeprefix("file://"))
    for key in ("filter.evil.smudge", "filter.evil.clean", "uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand"):
        git(folder, "config", key, run)
    for name in ("post-checkout", "post-merge", "reference-transaction", "pre-auto-gc"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}/{name}\n", encoding="utf-8")
        hook.chmod(0o755)
    program = fetched_git(registry, (address, found))
    assert program.problem == ""
    tree, _ = registry.code_of(registry.approve(program.id, program.digest or "", by="ada"))
    assert (tree / "notes.md").read_text(encoding="utf-8") == files["notes.md"]
    assert list(ran.iterdir()) == []


def test_a_repository_that_git_knows_as_hostile_is_refused(registry: ProgramRegistry, commit: Commit):
    modules = '[submodule "inner"]\n  path = inner\n  url = https://example.com/inner.git\n  update = !touch /tmp/ran\n'
    program = fetched_git(registry, commit({**PROGRAM, ".gitmodules": modules}))
    assert "gitmodulesUpdate" in program.problem


LINKS = [("->/etc/passwd", False), ("->../../../etc/passwd", False), ("->mine.py", True), ("->nowhere", True), ("->link.py", False)]


@pytest.mark.share(3)
@pytest.mark.parametrize(("link", "is_good"), LINKS)
def test_links_stay_within_the_program(registry: ProgramRegistry, commit: Commit, link: str, is_good: bool):
    program = fetched_git(registry, commit({**PROGRAM, "link.py": link}))
    assert (program.state == "fetched") is is_good, program.problem
    assert is_good or "is a link to" in program.problem


def test_links_through_links_stay_within_the_program(registry: ProgramRegistry, commit: Commit):
    """By its text the second stays within; where it leads, it does not."""
    program = fetched_git(registry, commit({**PROGRAM, "a/b/up": "->../..", "a/b/out": "->up/../x"}))
    assert "`a/b/out` is a link to `up/../x`, which is outside of the program." in program.problem


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "size", [{"big.bin": "x" * ((1 << 20) + 1)}, {f"f{n}": "x" for n in range(51)}, {f"f{n}": "x" * (1 << 20) for n in range(3)}]
)
def test_a_commit_that_is_too_large_is_refused(registry: ProgramRegistry, commit: Commit, size: dict):
    program = fetched_git(registry, commit({**PROGRAM, **size}))
    assert program.state == "failed"
    assert "a program may have" in program.problem or "of a program" in program.problem


def test_a_commit_that_is_not_there_is_said(registry: ProgramRegistry, commit: Commit):
    address, _ = commit(PROGRAM)
    program = fetched_git(registry, (address, "1" * 40))
    assert program.problem.startswith(f"`{address}` could not be fetched at 111111111111: ")
    assert "Traceback" not in program.problem


ADDRESSES = [
    *(
        "ext::sh -c touch% /tmp/ran",
        "--upload-pack=touch /tmp/ran",
        "ssh://host/a",
        "git://host/a",
        "http://host/a",
        "https://user:pass@host/a",
    ),
    *(
        "https:///a",
        "file://host/a",
        "https://host/../a",
        "https://host/a b",
        "https://host/a\n",
        "https://host/a?x=1",
        "a",
        "https://[::1]/a",
    ),
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_that_git_would_run_or_that_hold_a_password_are_refused(address: str):
    if address.strip() != address:
        assert read_source(address, "0" * 40).address == address.strip()
        return
    with pytest.raises(ProgramRegistryError, match="is not an address of a repository"):
        read_source(address, "0" * 40)


@pytest.mark.parametrize("commit_text", ["main", "0" * 39, "0" * 41, "--help", "v1.0", "A" * 40])
def test_what_is_no_commit_is_refused(commit_text: str):
    with pytest.raises(ProgramRegistryError, match="is not a commit; branches and tags can change"):
        read_source("https://host/a.git", commit_text)


def test_the_inside_of_the_network_is_not_asked():
    for host in ("127.0.0.1", "169.254.169.254", "10.0.0.1", "localhost", "0.0.0.0"):
        with pytest.raises(ProgramRegistryError, match="is inside the server's network"):
            verify_source(read_source(f"https://{host}/a.git", "0" * 40), FetchPolicy())
    verify_source(read_source("https://git.corp/a.git", "0" * 40), FetchPolicy(hosts=("git.corp",)))
    with pytest.raises(ProgramRegistryError, match=r"Programs cannot be fetched from `example\.com`; allowed hosts: `git\.corp`"):
        verify_source(read_source("https://example.com/a.git", "0" * 40), FetchPolicy(hosts=("git.corp",)))
    with pytest.raises(ProgramRegistryError, match="is on the server's disk"):
        verify_source(read_source("file:///etc/a", "0" * 40), FetchPolicy())


def zip_with(**changes: object) -> bytes:
    info = zipfile.ZipInfo("mine.py")
    for name, value in changes.items():
        setattr(info, name, value)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mine-1.dist-info/WHEEL", "")
        archive.writestr(info, MINE)
    return content.getvalue()


WHEELS = {
    "slips up": (lambda: wheel({"../evil.py": ""}), "is not a path of a file within a program"),
    "slips to the root": (lambda: wheel({"/etc/evil.py": ""}), "is not a path of a file within a program"),
    "slips by backslash": (lambda: wheel({"..\\evil.py": ""}), "is not a path of a file within a program"),
    "has a drive": (lambda: wheel({"C:/evil.py": ""}), "is not a path of a file within a program"),
    "has a link": (lambda: zip_with(external_attr=0o120777 << 16), "wheels have no links"),
    "has a device": (lambda: zip_with(external_attr=0o020666 << 16), "wheels have no links"),
    "is packed by bzip2": (lambda: zip_with(compress_type=zipfile.ZIP_BZIP2), "a compression that wheels do not allow"),
    "is a bomb": (lambda: wheel({"bomb.txt": b"0" * (4 << 20)}), "larger than 1.00 MiB"),
    "is many bombs": (lambda: wheel({f"{n}.txt": b"0" * (1 << 20) for n in range(5)}), "more than 2.00 MiB in total"),
    "has many files": (lambda: wheel({f"{n}.txt": b"" for n in range(60)}), "more than 50 files"),
    "has a file twice": (lambda: wheel({"a": "", "a/b": ""}), "is below a file"),
    "has a git folder": (lambda: wheel({".GIT/config": ""}), "is not a path of a file within a program"),
    "is deep": (lambda: wheel({"a/" * 100 + "b": ""}), "is not a path of a file within a program"),
    "is no archive": (lambda: b"not a wheel", "The wheel cannot be unpacked"),
    "is cut off": (lambda: wheel(PROGRAM)[:-40], "The wheel cannot be unpacked"),
    "is no wheel": (lambda: wheel(PROGRAM).replace(b"mine-1.dist-info", b"mine-1.fish-info"), "it has no `.dist-info/WHEEL`"),
    "is damaged": (lambda: wheel({"mine.py": b"\0" + os.urandom(3000)}).replace(b"PK\3\4", b"PK\3\5"), "The wheel cannot be unpacked"),
}


@pytest.mark.parametrize("name", WHEELS)
def test_hostile_wheels_are_refused_in_words(registry: ProgramRegistry, tmp_path: Path, name: str):
    make, problem = WHEELS[name]
    program = fetched_wheel(registry, make())
    assert program.state == "failed"
    assert problem in program.problem
    assert not list(tmp_path.rglob("evil.py"))
    assert [each.name for each in (tmp_path / "programs" / "trees").iterdir()] == []


@pytest.mark.parametrize(
    "name", ["mine.zip", "mine-1.tar.gz", "mine-1-cp311-cp311-linux_x86_64.whl", "../mine-1-py3-none-any.whl", "a" * 300]
)
def test_names_of_what_is_no_wheel_of_python_alone_are_refused(registry: ProgramRegistry, name: str):
    with pytest.raises(ProgramRegistryError, match=r"is not a name of a wheel|contains compiled code"):
        registry.add_wheel("p", "mine", "mine:build", name, b"", by="ada")


@pytest.mark.parametrize(
    ("name", "target"), [("mine", "os"), ("mine", "os:"), ("mine", "a b:c"), ("<b>", "a:b"), ("", "a:b"), ("mine", "a:b:c")]
)
def test_names_and_targets_are_verified(registry: ProgramRegistry, name: str, target: str):
    with pytest.raises(ProgramRegistryError, match=r"is not a name of a program|does not name a function of a module"):
        registry.add_git("p", name, target, "https://host/a.git", "0" * 40, by="ada")
