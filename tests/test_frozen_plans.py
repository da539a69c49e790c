"""Forty plans read as they did: the report's text, `report --json`, the document, and each tab of the board (`tests/golden/plans`).

A run reads one plan in four; `pytest -m "nightly or not nightly" tests/test_frozen_plans.py --update-golden` writes all of them.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.support.choosing import parametrize_drawn
from tests.support.frozen_blocks import frozen_json, frozen_text
from tests.support.frozen_plans import ALL_FROZEN, FrozenPlan
from workbench.cli.main import main
from workbench.documents import dump_plan
from workbench.public_plan import Plan
from workbench.session.plan_history import Session
from workbench.widgets.board.background_queries import BackgroundQueries
from workbench.widgets.board.board import Board

pytestmark = pytest.mark.compile


@pytest.fixture(autouse=True)
def never_calibrated(tmp_path, monkeypatch):
    """As on a machine that nobody has measured: what is kept of this one is a person's."""
    monkeypatch.setattr("workbench.engine.spmd.kept_calibration._path", lambda devices: tmp_path / "calibrated" / f"{devices}.toml")


@pytest.fixture(autouse=True)
def without_programs(monkeypatch):
    """Graphs are laid out by the package's own Graphviz, whatever program is installed."""
    monkeypatch.setattr("workbench.visualize.draw.graphviz_layout._run_program", lambda _dot: None)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A tab waits for what is computed in the background, however slow the machine is."""
    ask = BackgroundQueries.ask
    monkeypatch.setattr(BackgroundQueries, "ask", lambda queries, subject, name, work, *_, **__: ask(queries, subject, name, work, 60.0))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_drawn(metafunc, "frozen", ALL_FROZEN, _features, ids=lambda frozen: frozen.name, share=4)


def _features(frozen: FrozenPlan) -> Iterator[str]:
    """What a run tries in any case: the makers of hardware, inference, pipelines, recipes, and what changes the traced program."""
    yield "no hardware" if frozen.hardware is None else "TPU" if "TPU" in frozen.hardware else "GPU"
    yield from ("inference",) if frozen.model.endswith(("prefill", "decode")) else ()
    yield from (name for name in ("pipeline", "recipes", "remat", "precision", "offload") if getattr(frozen, name))


def test_a_plan_reads_as_it_did(frozen, golden, tmp_path, capsys, caplog):
    plan = frozen.plan()
    path = tmp_path / "frozen.plan.json"
    plan.save(path)
    again = wb.load(path)
    document = dump_plan(plan)
    assert dump_plan(again) == document
    sections = {
        "document": frozen_json(json.loads(document)),
        "report": frozen_text(str(again.report())),
        "report --json": frozen_json(_printed_json(["report", str(path), "--planned"], capsys)),
        **{name: frozen_json(state) for name, state in _board_states(plan).items()},
    }
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []  # a view that fails says so on its tab
    golden(f"plans/{frozen.name}.txt", "\n\n".join(f"== {name}\n{text}" for name, text in sections.items()))


def _printed_json(command: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command prints with `--json`."""
    assert main([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def _board_states(plan: Plan) -> dict[str, Any]:
    """What a board publishes at first, and the blocks of each of its tabs."""
    states: dict[str, Any] = {}
    board = Board(Session(plan), states.__setitem__)
    first = {name: states[name] for name in ("board", "live")}
    tabs: dict[str, Any] = {}
    for seq, tab in enumerate((each["key"] for each in states["board"]["tabs"]), 1):
        board.answer({"verb": "open", "tab": tab, "view": "frozen", "seq": seq})
        assert states["board"]["refusal"] is None
        tabs |= {f"{tab}.{number}": block for number, block in enumerate(states["table"]["blocks"])}
    board.close()
    return {**first, "tabs": tabs}


def test_each_golden_plan_is_one_of_the_forty():
    folder = Path(__file__).parent / "golden" / "plans"
    assert len(ALL_FROZEN) == 40
    assert {path.stem for path in folder.glob("*.txt")} >= {each.name for each in ALL_FROZEN}
