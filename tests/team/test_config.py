"""`team.toml`: what stands in it, and what is refused in words before anything listens."""

from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.team.programs.program_registry import ProgramRegistry
from workbench.team.sandbox.resource_limits import SandboxAbility, SandboxLevel
from workbench.team.sandbox.sandbox import Sandbox
from workbench.team.store.store import Store
from workbench.team.team_config import FILE, SCHEMA, TeamConfig, read_secret
from workbench.team.team_setup import make_dispatcher, make_fetch_policy, make_sign_in_methods

WRONG = {
    "listen = 5007": "at `listen`, 5007 is not of type 'string'",
    'listen = "x"': "`x` is not an address to listen on.",
    'listen = "127.0.0.1:70000"': "`127.0.0.1:70000` is not an address to listen on.",
    "address = 5": "at `address`, 5 is not of type 'string'",
    'address = "plans.example.org"': "`address` is `plans.example.org`; write it as shown in a browser",
    'address = "ftp://plans.example.org"': "write it as shown in a browser",
    'address = "https://x/ y"': "write it as shown in a browser",
    'address = "https://x?y"': "write it as shown in a browser",
    'address = "https://x:99999"': "write it as shown in a browser",
    'address = "https://ada@x"': "write it as shown in a browser",
    'origins = "https://x"': "at `origins`",
    "origins = [5]": "at `origins[0]`",
    'origins = ["plans.example.org:80"]': "`origins` is `plans.example.org:80`",
    'origins = ["https://x/path"]': "`origins` is `https://x/path`",
    "database = 5": "at `database`",
    "database_password_file = 5": "at `database_password_file`",
    'database = "postgresql://u@/x"\ndatabase_password_file = "none"': "cannot be read",
    'open_metrics = "yes"': "at `open_metrics`",
    "idle_seconds = -5": "at `idle_seconds`",
    "sign_in = 5": "at `sign_in`",
    "[sign_in]\noidc = 5": "at `sign_in.oidc`",
    "[[sign_in.oidc]]\nname = 5": "at `sign_in.oidc[0].name`",
    '[[sign_in.oidc]]\nname = "A B"': "at `sign_in.oidc[0].name`",
    '[[sign_in.oidc]]\nname = "a"': "`[[sign_in.oidc]]` has no `client_id`",
    '[[sign_in.oidc]]\nname = "a"\nissuer = "https://x"\nclient_id = "x"\nclient_secret_file = "none"': "cannot be read",
    "[sign_in]\nlocal = false": "No one can sign in",
    "[sign_in]\nhub = true": "No JupyterHub started this server",
    "[sign_in.hub_rules]\nadmins = 5": "at `sign_in.hub_rules.admins`",
    "jobs = 5": "at `jobs`",
    '[jobs]\nengines = "here"': "at `jobs.engines`",
    '[jobs]\nengines = ["abacus"]': "no engine `abacus`",
    "[jobs.limits]\nhere = 5": "at `jobs.limits.here`",
    '[jobs.limits.here]\njobs = "x"': "at `jobs.limits.here.jobs`",
    "[jobs.limits.here]\ncats = 5": "`cats`",
    '[jobs]\nengines = ["kubernetes"]\n[jobs.kubernetes]\nx = 1': "engine `kubernetes`",
    "[programs]\nhosts = 5": "at `programs.hosts`",
    '[programs]\ncredentials_file = "none"': "cannot be read",
    '[programs]\ncats = "x"': "`cats`",
    "colour = 1": "`colour`",
    "= 5": "cannot be read",
}


@pytest.mark.parametrize("name", ["database's password", "client secret"])
def test_a_secret_that_is_no_text_is_said(tmp_path, name):
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    with pytest.raises(WorkbenchError, match=f"The {name} in .* cannot be read"):
        read_secret(tmp_path / "secret", name)


def set_up(folder: Path) -> None:
    """Everything that a server makes of its set-up before it listens."""
    config = TeamConfig.read(folder)
    assert config.store_address
    assert isinstance(config.behind_proxy, bool)
    store, sandbox = Store.open("sqlite://"), Sandbox(SandboxAbility(SandboxLevel.SEPARATE_PROCESS))
    try:
        make_sign_in_methods(config, store, b"k" * 32)
        make_fetch_policy(config)
        make_dispatcher(config, store, ProgramRegistry(store, folder / "programs", sandbox)).stop()
    finally:
        sandbox.close()
        store.close()


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=[each.replace("\n", " ") for each in WRONG])
def test_what_cannot_be_served_is_refused_in_words(text, message, tmp_path, monkeypatch):
    monkeypatch.delenv("JUPYTERHUB_API_TOKEN", raising=False)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(WorkbenchError) as caught:
        set_up(tmp_path)
    assert message in caught.value.message
    assert caught.value.ways_out


@pytest.mark.parametrize(
    "text", ["", 'address = "https://plans.example.org/a/b/"', 'listen = "unix:/run/workbench.sock"', 'listen = "[::1]:80"']
)
def test_what_can_be_served_is_taken(text, tmp_path):
    (tmp_path / FILE).write_text(text)
    set_up(tmp_path)


def test_every_setting_has_a_type():
    assert set(SCHEMA["properties"]) == set(TeamConfig.__dataclass_fields__) - {"data"}


@pytest.mark.parametrize(
    ("listen", "address", "public", "behind_proxy"),
    [
        ("127.0.0.1:5007", "", "http://localhost:5007", False),
        ("0.0.0.0:5007", "", "http://localhost:5007", False),
        ("[::]:5007", "", "http://localhost:5007", False),
        ("192.0.2.5:80", "", "http://192.0.2.5:80", False),
        ("[2001:db8::1]:80", "", "http://[2001:db8::1]:80", False),
        ("unix:/run/workbench.sock", "", "http://localhost", True),
        ("127.0.0.1:5007", "https://plans.example.org/x/", "https://plans.example.org/x", True),
        ("0.0.0.0:5007", "https://plans.example.org", "https://plans.example.org", False),
    ],
)
def test_where_people_reach_it_and_who_can_connect(listen, address, public, behind_proxy, tmp_path):
    config = TeamConfig(data=tmp_path, listen=listen, address=address)
    assert (config.public_address, config.behind_proxy) == (public, behind_proxy)
    assert TeamConfig(data=tmp_path, listen=listen, address=address, proxied=True).behind_proxy


def test_the_password_of_the_database_is_put_into_its_address(tmp_path):
    (tmp_path / "secret").write_text("a b@:/%é\n")
    config = TeamConfig(data=tmp_path, database="postgresql://workbench@db:5433/workbench?sslmode=disable", database_password_file="secret")
    assert config.store_address == "postgresql://workbench:a%20b%40%3A%2F%25%C3%A9@db:5433/workbench?sslmode=disable"


def test_a_link_leads_to_the_server_that_was_started_last_wherever_it_listens(tmp_path):
    assert TeamConfig.read(tmp_path).last_address == "http://localhost:5007"
    TeamConfig.read(tmp_path, listen="127.0.0.1:8123").remember_address()
    assert TeamConfig.read(tmp_path).last_address == "http://localhost:8123"
    (tmp_path / "team.toml").write_text('address = "https://plans.example.org/"\n')
    assert TeamConfig.read(tmp_path).last_address == "https://plans.example.org"


def test_a_data_folder_that_cannot_be_written_has_no_last_address(tmp_path):
    config = TeamConfig.read(tmp_path / "none", listen="127.0.0.1:8123")
    config.remember_address()
    assert config.last_address == "http://localhost:8123"
