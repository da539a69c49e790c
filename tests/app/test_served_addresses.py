"""`workbench serve --address` and `--origins`: what is asked for is judged before anything is traced, and who is served is said."""

import pytest

from workbench.cli import commands
from workbench.cli.main import main


@pytest.fixture
def served(monkeypatch):
    """What the page would be served with; nothing is traced."""
    calls = []
    monkeypatch.setattr(commands, "plan_on_the_cpu", lambda _: None)
    monkeypatch.setattr("workbench.app.page.serve.serve", lambda _make, **options: calls.append(options))
    return calls


def test_a_page_is_served_to_this_machine_alone_unless_others_are_named(served, capsys):
    assert main(["serve", "--no-open"]) == 0
    assert (served[0]["address"], served[0]["origins"]) == ("127.0.0.1", ())
    assert capsys.readouterr().err == ""


def test_others_are_named_with_commas_or_one_by_one_and_it_is_said_who_can_come(served, capsys):
    origins = ["--origins", "plans.example.org:5006, https://b.example", "--origins", "[fe80::1]:80"]
    assert main(["serve", "--no-open", "--address", "0.0.0.0", *origins]) == 0
    assert (served[0]["address"], served[0]["origins"]) == ("0.0.0.0", ("plans.example.org:5006", "https://b.example", "[fe80::1]:80"))
    assert capsys.readouterr().err == (
        "workbench: anyone who can reach 0.0.0.0 port 5006 as plans.example.org:5006, https://b.example, [fe80::1]:80 can use this page "
        "and run plans here without signing in.\n"
    )


def test_a_fleet_is_served_to_the_same(monkeypatch, tmp_path, capsys):
    calls = []
    monkeypatch.setattr("workbench.app.page.fleet_page.serve_fleet", lambda _fleet, _port, **options: calls.append(options))
    monkeypatch.setattr("workbench.cli.fleet_command.load_fleet", lambda *_: None)
    assert main(["serve", "--fleet", "grid.toml", "--no-open", "--address", "0.0.0.0", "--origins", "a.example:1"]) == 0
    assert (calls[0]["address"], calls[0]["origins"]) == ("0.0.0.0", ("a.example:1",))
    assert "without signing in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--address", "203.0.113.7"], "workbench: This machine cannot listen on '203.0.113.7': "),
        (["--address", ""], "workbench: This machine cannot listen on '': it is empty.\n"),
        (["--origins", "*"], "workbench: '*' is not an origin: "),
        (["--port", "70000"], "workbench: 70000 is not a port"),
        (
            ["--unix-socket", "s", "--origins", "a:1"],
            "workbench: `--address` and `--origins` need a port; `--unix-socket`",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_traced(options, said, served, capsys):
    assert main(["serve", "--no-open", *options]) == 1
    assert capsys.readouterr().err.startswith(said)
    assert served == []
