"""What docs/team.md, docs/team_server.md, the README and the container files tell people to type is what the program takes."""

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from tests.support.deploy_files import DEPLOY, ROOT
from workbench.cli.parser import make_parser
from workbench.team.access import ProjectRole
from workbench.team.actions.all_actions import ALL_ACTIONS
from workbench.team.jobs.job_folder import INHERITED
from workbench.team.jobs.job_spec import ENVIRONMENT
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.sandbox.resource_limits import OVERRIDES, SandboxAbility, SandboxLevel
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.store.store import Store
from workbench.team.team_config import FILE, TeamConfig
from workbench.team.team_setup import make_dispatcher, make_fetch_policy, make_sign_in_methods

PAGES = [ROOT / "README.md", ROOT / "docs" / "team.md", ROOT / "docs" / "team_server.md"]
FILES = [*PAGES, DEPLOY / "compose.yaml", DEPLOY / "kubernetes" / "kustomization.yaml"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def toml_with(words: str) -> str:
    """The block of the page for administrators in which these words stand."""
    return next(each for each in blocks(PAGES[-1], "toml") if words in each)


COMMANDS = next(action.choices for action in make_parser()._actions if isinstance(action.choices, dict))
TEAM_COMMANDS = ("team", *(name for name, parser in COMMANDS.items() if parser.get_default("command").module == "server_command"))


def commands() -> list[str]:
    """Every command of a team that is written anywhere, without what goes before it."""
    pattern = rf"\bworkbench (?:{'|'.join(TEAM_COMMANDS)})\b[^`\n&|]*"
    found = {
        " ".join(re.sub(r" #.*", "", each).split()) for file in FILES for each in re.findall(pattern, file.read_text(encoding="utf-8"))
    }
    return sorted(each for each in found if len(each.split()) > 2 and not each.endswith(","))


@pytest.fixture
def store():
    opened = Store.open("sqlite://")
    yield opened
    opened.close()


def test_there_are_commands():
    assert len(commands()) >= 15


@pytest.mark.parametrize("line", commands())
def test_a_documented_command_is_one(line):
    make_parser().parse_args(shlex.split(line.removesuffix("."))[1:])


def test_every_setting_is_documented_with_the_value_that_holds_without_it(tmp_path):
    (tmp_path / FILE).write_text(toml_with("idle_seconds"))
    assert TeamConfig.read(tmp_path).store_address == TeamConfig(data=tmp_path).store_address
    assert TeamConfig.read(tmp_path).public_address == TeamConfig(data=tmp_path).public_address
    documented, plain = tomllib.loads(toml_with("idle_seconds")), TeamConfig(data=tmp_path)
    assert set(documented) == {each.name for each in fields(TeamConfig)} - {"data"}
    same = [name for name in documented if name not in ("address", "origins", "jobs", "programs")]
    assert [name for name in same if documented[name] != getattr(plain, name)] == []
    assert make_fetch_policy(TeamConfig.read(tmp_path)) == make_fetch_policy(plain)


def test_the_documented_provider_is_one(tmp_path, store):
    (tmp_path / "oidc_secret").write_text("secret\n")
    (tmp_path / FILE).write_text(toml_with("[[sign_in.oidc]]"))
    (provider,) = make_sign_in_methods(TeamConfig.read(tmp_path), store, b"k" * 32).oidc
    assert provider.settings.client_secret == "secret"
    assert provider.settings.rules.roles == {"research": {"vision": ProjectRole.EDITOR}}
    page = PAGES[-1].read_text()
    assert f"/login/oidc/{provider.settings.name}/callback" in page


def test_the_documented_hub_is_one(tmp_path, store, monkeypatch):
    given = {
        "API_TOKEN": "t" * 40,
        "API_URL": "http://127.0.0.1:1/hub/api",
        "SERVICE_PREFIX": "/services/workbench/",
        "CLIENT_ID": "service-workbench",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"JUPYTERHUB_{name}", value)
    (tmp_path / FILE).write_text(toml_with("hub = true"))
    config = TeamConfig.read(tmp_path)
    ways = make_sign_in_methods(config, store, b"k" * 32)
    assert ways.local is None
    assert ways.hub.settings.rules.anyone
    assert f"{config.prefix}/" == given["SERVICE_PREFIX"]


def test_the_documented_limits_of_an_engine_are_some(tmp_path, store):
    (tmp_path / FILE).write_text(toml_with("[jobs.limits.here]"))
    sandbox = Sandbox(SandboxAbility(SandboxLevel.SEPARATE_PROCESS))
    lane = make_dispatcher(TeamConfig.read(tmp_path), store, ProgramRegistry(store, tmp_path / "programs", sandbox)).lanes["here"]
    assert (lane.limits.jobs, lane.limits.minutes) == (2, 60.0)
    sandbox.close()


def test_the_override_of_the_sandbox_reaches_jobs_and_is_not_for_those_who_submit_them():
    assert f"`{OVERRIDES[0]}=1`" in PAGES[-1].read_text()
    assert set(OVERRIDES) <= set(INHERITED)
    assert not set(OVERRIDES) & set(ENVIRONMENT)


def test_the_documented_addresses_are_of_actions():
    """By method and path; `curl -d` sends with POST."""
    known = [(each.method, re.compile(re.sub(r"\{\w+\}", r"[^/]+", each.path))) for each in ALL_ACTIONS]
    (block,) = [each for each in blocks(PAGES[1], "sh") if "curl" in each]
    lines = [line for line in block.replace("|\n", "").splitlines() if "curl" in line]
    assert len(lines) >= 6
    for line in lines:
        path = re.search(r"/api/v1(/[^\s\"?]*)", line)[1]
        method = "POST" if " -d " in line else "GET"
        assert any(method == each and pattern.fullmatch(path) for each, pattern in known), line


def test_the_pages_lead_to_files_that_are_there():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} leads to {target}"
