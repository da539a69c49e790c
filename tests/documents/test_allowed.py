"""A document imports nothing that nobody has allowed, and the folder it lies in gets nothing imported in place of the real thing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from tests.support.programs import mlp
from workbench.app.processes.healing_child import ForkServer
from workbench.cli.main import main
from workbench.core.parse_untrusted import read_allowed, read_allowed_here
from workbench.core.program import Reference
from workbench.documents import dump_plan, load_plan, parse_fleet, parse_link, parse_plan
from workbench.documents.program_references import verify_allowed
from workbench.errors import DocumentError, WorkbenchError
from workbench.public_plan import Plan

pytestmark = [pytest.mark.compile, pytest.mark.worker]

ROOT = Path(__file__).parents[2]
BUILD = """import sys
import jax.numpy as jnp
import workbench as wb

def build() -> wb.Program:
    return wb.trace(lambda x: x * 2, jnp.ones((8, 4)), dims={'x': 'batch d'})
"""


def document(target: str, **entries) -> str:
    plan = {"name": "theirs", "program": {"target": target}, "mesh": [["data", 2]], "layout": {"rules": {"batch": "data"}}}
    return json.dumps({"format": "sharding-workbench.plan", "version": 1, **plan, **entries})


@pytest.fixture
def module(tmp_path, monkeypatch) -> str:
    """A module that nothing has imported yet, and that leaves a mark when something does."""
    name = f"of_nobody_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{BUILD}")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_document_does_not_import_what_nobody_allowed(module, tmp_path):
    with pytest.raises(DocumentError) as caught:
        parse_plan(document(f"{module}:build"), "`theirs.plan.json`")
    assert str(caught.value) == (
        f"`theirs.plan.json` names the program `{module}:build`, which is not in the zoo and not allowed here: it was not opened, and "
        "nothing was imported.\n"
        f"  Try: if you trust the code of `{module}`, add `--allow {module}` to the command · or load it with "
        f'`allow="{module}"` · or set WORKBENCH_ALLOW={module} where JupyterLab is started.'
    )
    with pytest.raises(DocumentError, match="not allowed here"):
        parse_fleet(f'[[models]]\nname = "a"\nprogram = "{module}:build"\n')
    assert module not in sys.modules
    assert not (tmp_path / "ran").exists()


def test_what_is_allowed_is_imported_and_then_known(module, tmp_path):
    path = tmp_path / "theirs.plan.json"
    path.write_text(document(f"{module}:build"))
    plan = wb.load(path, allow=module)
    assert (tmp_path / "ran").exists()
    assert load_plan(path) == plan  # built in this process, so that nothing new is imported
    with pytest.raises(DocumentError, match="not allowed here"):
        parse_plan(document(f"{module}:other"))


@pytest.mark.parametrize(
    "wrong",
    [{"mesh": [["data", 3], ["data", 2]]}, {"layout": {"rules": {"batch": "data+data"}}}, {"hardware": "TPU v99 8"}, {"remat": "some"}],
)
def test_all_else_is_judged_before_a_program_is_imported(wrong, module, tmp_path):
    with pytest.raises(WorkbenchError):
        parse_plan(document(f"{module}:build", **wrong), allow=module)
    assert not (tmp_path / "ran").exists()


def test_saving_imports_nothing(module, tmp_path):
    plan = Plan(wb.trace(lambda x: x, 1.0 * wb.models.two_layer.jnp.ones(4), reference=Reference(f"{module}:build")), "data:2")
    dump_plan(plan)
    assert not (tmp_path / "ran").exists()


def test_modules_are_allowed_with_what_lies_in_them_and_functions_by_themselves(monkeypatch):
    monkeypatch.setenv("WORKBENCH_ALLOW", "mine, theirs.models:build")
    assert read_allowed_here() == ("mine", "theirs.models:build")
    for target in ("mine:build", "mine.sub:build", "theirs.models:build"):
        verify_allowed(Reference(target), "it", read_allowed_here())
    for target in ("mines:build", "theirs.models:other", "theirs:build", "min:build"):
        with pytest.raises(DocumentError, match="not allowed here"):
            verify_allowed(Reference(target), "it", read_allowed_here())


@pytest.mark.parametrize("given", ["a b", "mine:", "./mine.py", 3, ["mine", 3], "mine..x"])
def test_what_names_no_module_cannot_be_allowed(given):
    with pytest.raises(DocumentError) as caught:
        read_allowed(given)
    assert 'name modules, "mine"' in str(caught.value)


def test_a_model_of_the_zoo_that_takes_long_has_to_be_allowed():
    text = document("gpt", program={"target": "gpt", "arguments": {"preset": "gpt3-175b", "scan": False}})
    with pytest.raises(DocumentError) as caught:
        parse_plan(text)
    assert str(caught.value) == (
        "The text asks for 96 layers of `gpt` that are each traced by themselves, which takes long; a document may ask for 24 unless it is "
        "allowed more.\n  Try: let it be scanned, `scan` true · if you want to wait, add `--allow gpt` to the command · "
        'or load it with `allow="gpt"`.'
    )
    verify_allowed(Reference("gpt", {"preset": "gpt3-175b", "scan": False}), "it", "gpt")


def test_a_link_imports_nothing_though_modules_are_allowed(module, monkeypatch, tmp_path):
    monkeypatch.setenv("WORKBENCH_ALLOW", module)
    from tests.documents.test_link import packed

    with pytest.raises(DocumentError, match="may only name models of the zoo"):
        parse_link(packed(document(f"{module}:build")), Plan(mlp(), "data:2"))
    assert not (tmp_path / "ran").exists()


def test_the_command_line_says_what_it_does_not_import(module, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("theirs.plan.json").write_text(document(f"{module}:build"))
    Path("fleet.toml").write_text(f'[[models]]\nname = "a"\nprogram = "{module}:build"\n')
    for command in (["report", "theirs.plan.json"], ["diff", *["theirs.plan.json"] * 2], ["fleet", "simulate", "fleet.toml"]):
        assert main(command) == 1
        assert f"add `--allow {module}` to the command" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()
    assert main(["report", "theirs.plan.json", "--planned", "--allow", module]) == 0


SHADOWS = ("panel", "bokeh", "jax", "numpy", "json", "jsonschema", "optax", "cloudpickle", "ml_dtypes", "random", "argparse")


@pytest.mark.share(3)
@pytest.mark.parametrize("start", [["-m", "workbench.cli"], ["-m", "workbench"], ["script"]], ids=["room", "package", "script"])
def test_what_lies_beside_a_downloaded_plan_does_not_run(start, tmp_path):
    """Nor in the worker process; and `mine.py` there is found all the same. What an environment's own `.pth` files import is imported
    before any line of the workbench, so those names are left out."""
    loaded = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True).stdout
    for name in set(SHADOWS) - set(loaded.split()):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\nraise SystemExit(3)\n")
    (tmp_path / "mine.py").write_text(BUILD)
    (tmp_path / "mine.plan.json").write_text(document("mine:build"))
    script = tmp_path / "bin" / "workbench"
    script.parent.mkdir()
    script.write_text("import sys\nfrom workbench.cli.main import main\nsys.exit(main())\n")
    command = [sys.executable, *([str(script)] if start == ["script"] else start)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", str(ROOT)]) if start == ["script"] else str(ROOT)}
    options = ["run", "mine.plan.json", "--allow", "mine", "--steps", "1", "--no-profile", "--json"]
    done = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["shards_agree"]


def test_serving_imports_nothing_of_the_folder_it_is_started_in(tmp_path):
    """As far as a port that is none: the page's libraries are imported by then."""
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nraise SystemExit(3)\n")
    command = [sys.executable, "-m", "workbench.cli", "serve", "--no-open", "--port", "70000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert not (tmp_path / "ran").exists()
    assert (done.returncode, "65535" in done.stderr) == (1, True), done.stderr


def test_the_processes_of_boards_import_nothing_of_the_folder_either(tmp_path, monkeypatch):
    for name in SHADOWS:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(ROOT), *(each for each in sys.path if each)])
    server = ForkServer()
    try:
        server.connect().close()
    finally:
        server.close()
    assert not (tmp_path / "ran").exists()
