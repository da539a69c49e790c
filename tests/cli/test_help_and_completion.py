"""The command line itself: help, errors of usage, completion, what starts without JAX; lessons to copy, and a port that is taken."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.cli.command_parser import CommandParser
from workbench.cli.main import main
from workbench.cli.parser import FormerOption, make_parser
from workbench.cli.shared_arguments import DEFAULT_MESH
from workbench.core.program import Reference
from workbench.documents.document_schema import load_schema
from workbench.documents.program_references import load_function
from workbench.errors import DocumentError, WorkbenchError
from workbench.models.registry import FORMER_DIMS
from workbench.team.sandbox.resource_limits import OVERRIDES


def commands(parser: CommandParser) -> Iterator[CommandParser]:
    """A parser and those of its commands and verbs."""
    yield parser
    for action in parser._actions:
        for child in (action.choices or {}).values() if isinstance(action.choices, dict) else ():
            yield from commands(child)


ALL = list(commands(make_parser()))


def test_a_command_without_a_verb_prints_its_help(capsys):
    for words in ([], ["team"], ["fleet"], ["team", "user"]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith(" ".join(["usage: workbench", *words]))


@pytest.mark.parametrize("parser", ALL, ids=lambda parser: parser.prog)
def test_every_help_has_examples_that_parse(parser):
    examples = re.findall(r"^  (?:srun -n \d+ )?(workbench .+?)(?:  +[a-z].*| #.*| > .*|\| .*)?$", parser.format_help(), re.MULTILINE)
    assert examples or "completion" in parser.prog
    for example in examples:
        options = make_parser().parse_args(shlex.split(example)[1:])
        assert callable(options.command), example


def test_the_notes_on_the_first_examples_begin_in_one_column():
    notes = re.findall(r"^(  workbench .{40,46}?  +|  {20,})(?=[a-z])", make_parser().format_help().partition("examples:")[2], re.MULTILINE)
    assert len(notes) > 10
    assert {len(space) for space in notes} == {60}


def test_the_reference_lists_every_deprecated_name():
    listed = (
        (Path(__file__).parents[2] / "docs" / "reference" / "documents.md").read_text(encoding="utf-8").partition("## Deprecated names")[2]
    )
    former = [action for parser in ALL for action in parser._actions if isinstance(action, FormerOption)]
    options = {name for action in former for name in action.option_strings}
    fields = {name for name, schema in load_schema("plan")["properties"].items() if "former name" in schema.get("description", "")}
    assert options
    assert fields
    deprecated = {*options, *FORMER_DIMS, *OVERRIDES[1:], *(f'"{name}"' for name in fields), *(f"{name}=" for name in fields)}
    assert {name for name in deprecated if name not in listed} == set()
    assert {name for name in (*FORMER_DIMS.values(), OVERRIDES[0]) if f"`{name}`" not in listed} == set()


def test_every_command_has_its_function():
    for parser in ALL:
        command = parser.get_default("command")
        module = __import__(f"workbench.cli.{command.module}", fromlist=[command.name])
        assert callable(getattr(module, command.name)), parser.prog


@pytest.mark.parametrize(
    ("words", "usage", "error"),
    [
        (["reprot"], "usage: workbench [-h]", "invalid choice: 'reprot' (did you mean `report`?)"),
        (["report", "--jsn"], "usage: workbench report ", "unrecognized arguments: --jsn (did you mean `--json`?)"),
        (["team", "user", "list", "--jsn"], "usage: workbench team user list ", "unrecognized arguments: --jsn (did you mean `--json`?)"),
        (["fleet", "rnu", "f"], "usage: workbench fleet ", "invalid choice: 'rnu' (did you mean `run`?)"),
        (
            ["plan", "--sek", "8k"],
            "usage: workbench plan ",
            "unrecognized arguments: --sek (did you mean `--seq`?); the following arguments",
        ),
        (["models", "gpt", "tiny", "more"], "usage: workbench models ", "unrecognized arguments: more\n"),
        (["completion", "csh", "--x=1"], "usage: workbench completion ", "invalid choice: 'csh'"),
        (["search", "--until", "never"], "usage: workbench search ", "invalid choice: 'never'; choose from complete, proved"),
    ],
)
def test_wrong_usage_shows_the_usage_of_its_own_command(words, usage, error, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    printed = capsys.readouterr().err
    assert printed.startswith(usage)
    assert error in printed
    assert printed.endswith("--help\n")


def test_the_choices_that_help_states_are_those_of_the_search():
    from workbench.models.sizing.cluster_answer import GOALS
    from workbench.search.run_search import UNTIL
    from workbench.search.traced_programs import OFFLOADS, REMATS
    from workbench.search.uneven_boundaries import BOUNDARIES, BY_TIME

    arguments = {(parser.prog.rpartition(" ")[2], action.dest): action for parser in ALL for action in parser._actions}
    assert arguments["search", "until"].choices == UNTIL
    assert arguments["plan", "open"].choices == tuple(goal.replace(" ", "-") for goal in GOALS)
    assert f": {', '.join(REMATS)} (" in arguments["search", "remats"].help
    assert f'"{"|".join(OFFLOADS)}"' in arguments["search", "offloads"].help
    assert f'"{"|".join(BOUNDARIES)}" (default: {BY_TIME})' in arguments["search", "boundaries"].help
    assert f'"{DEFAULT_MESH}"' in arguments["report", "mesh"].help


@pytest.mark.parametrize("words", [["--version"], ["report", "--help"], ["learn"], ["hardware"], ["team", "user"]], ids=" ".join)
def test_what_plans_nothing_imports_no_jax(words):
    code = f"import sys\nfrom workbench.cli.main import main\ntry: main({words})\nexcept SystemExit: pass\nassert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_code(shell, capsys):
    assert main(["completion", shell]) == 0
    assert "workbench" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("workbench rep", {"report"}),
        ("workbench report --pl", {"--planned"}),
        ("workbench team user di", {"disable"}),
        ("workbench completion f", {"fish"}),
        ("workbench hardware H10", {"H100", "H100\\ NVL", "H100\\ PCIe"}),
        ("workbench learn ze", {"zero"}),
        ("workbench report --model gp", {"gpt"}),
        ("workbench recipe my.plan.json ze", {"zero_1", "zero_2", "zero_3"}),
    ],
)
def test_a_shell_completes_words(line, expected, tmp_path):
    """As the code of bash asks: the words come back through file descriptor 8, which is a file here."""
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words"),
    }
    subprocess.run(
        [sys.executable, "-m", "workbench"], env={**environment, "_ARGCOMPLETE_IFS": "\n"}, check=False, timeout=60, capture_output=True
    )
    assert {word.strip() for word in (tmp_path / "words").read_text().split("\n")} >= expected


def test_models_and_hardware_as_json(capsys):
    assert main(["models", "--json"]) == 0
    models = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert {"two_layer", "gpt", "decoder"} <= set(models)
    assert main(["models", "decoder", "llama3-8b", "--json"]) == 0
    arguments = json.loads(capsys.readouterr().out)["arguments"]
    assert (arguments["d_model"]["value"], arguments["preset"]["value"]) == (4096, "llama3-8b")
    assert main(["hardware", "--json"]) == 0
    kinds = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert kinds["TPU v5e"]["device"]["flops"]["bfloat16"] == 197e12
    assert all("sources" in each["device"] for each in kinds.values())
    assert main(["hardware", "4 nodes of 8 H100", "--json"]) == 0
    sized = json.loads(capsys.readouterr().out)
    assert (sized["size"], [each["size"] for each in sized["axes"]]) == (32, [4, 8])


def test_a_lesson_is_copied_without_its_answers_and_says_how_to_open_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["learn", "one_product"]) == 0
    printed = capsys.readouterr().out
    assert sorted(each.name for each in (tmp_path / "one_product").iterdir()) == ["exercise.json", "lesson.ipynb", "lesson.md"]
    assert json.loads((tmp_path / "one_product" / "lesson.ipynb").read_text())["nbformat"] == 4
    assert all(
        "(`workbench learn sharded_tensors`)" in (tmp_path / "one_product" / f"lesson.{kind}").read_text() for kind in ("md", "ipynb")
    )
    assert "jupyter lab one_product/lesson.ipynb" in printed
    assert "workbench serve --exercise one_product/exercise.json" in printed
    assert main(["learn", "one_product"]) == 1
    assert "`one_product` exists already." in capsys.readouterr().err
    assert main(["learn", "02_pipeline", "--to", "books", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["commands"][1] == "jupyter lab books/02_pipeline.ipynb"
    assert main(["learn", "one_produkt"]) == 1
    assert "Did you mean `one_product`?" in capsys.readouterr().err


@pytest.mark.parametrize("site", ["", "https://example.org/w"])
def test_a_copied_lesson_links_to_nothing_beside_it(site, monkeypatch):
    from workbench.cli.learn_command import _stand_alone
    from workbench.core.installation import shipped_folder

    monkeypatch.setenv("WORKBENCH_DOCS", site)
    texts = {each.parent.name: _stand_alone(each.read_text(encoding="utf-8")) for each in shipped_folder("lessons").glob("*/lesson.md")}
    links = {name: re.findall(r"\]\(([^)]+)\)", text) for name, text in texts.items()}
    assert all(link.startswith("https://") for found in links.values() for link in found)
    assert ("https://example.org/w/lessons/zero/lesson.html" in links["activations"]) == bool(site)
    assert ("(`workbench learn zero`)" in texts["activations"]) == (not site)
    assert "plan your own model" in texts["serving_experts"]


def test_learn_lists_every_lesson_and_notebook_that_is_shipped(capsys):
    from workbench.core.installation import shipped_folder

    assert main(["learn", "--json"]) == 0
    listed = {each["name"] for each in json.loads(capsys.readouterr().out)}
    shipped = {each.parent.name for each in shipped_folder("lessons").glob("*/lesson.md")} | {
        each.stem for each in shipped_folder("notebooks").glob("*.ipynb")
    }
    assert listed == shipped


@pytest.mark.parametrize(
    "command", [["serve", "--no-open", "--port", "{}"], ["team", "--data", "data", "serve", "--listen", "127.0.0.1:{}"]]
)
def test_a_port_in_use_is_a_plain_message_before_anything_is_made(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([word.format(port) for word in command]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"workbench: Port {port} cannot be used: Address already in use.")
    assert f"use another port, {command[-2]} {command[-1].format(port + 1)}" in printed
    assert list(tmp_path.iterdir()) == []


def test_whoever_has_no_server_yet_reads_how_to_start_one(tmp_path, capsys):
    assert main(["team", "--data", str(tmp_path / "none"), "user", "add", "ada"]) == 1
    assert "start the server, which creates it: workbench team serve" in capsys.readouterr().err


def test_a_loss_in_place_of_a_builder_is_answered_with_the_builder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "losses_here.py").write_text("def loss(params, batch):\n    return ((batch['x'] @ params['w']) ** 2).mean()\n")
    with pytest.raises(DocumentError, match="is not a program builder: it takes `params` and `batch`") as caught:
        load_function(Reference("losses_here:loss", {}))
    lines = caught.value.message.split("\n\n", 1)[1]
    shapes = '{"w": jax.ShapeDtypeStruct((8, 8), "float32")}, {"x": jax.ShapeDtypeStruct((16, 8), "float32")}'
    builder = "\n".join(line.removeprefix("    ") for line in lines.splitlines()).replace("...", shapes, 1)
    with (tmp_path / "losses_here.py").open("a") as file:
        file.write(builder)
    monkeypatch.delitem(sys.modules, "losses_here")
    program = load_function(Reference("losses_here:program", {}))()
    assert [each.path for each in program.arguments][:1] == ["params/w"]


def test_a_recipe_that_is_applied_already_is_skipped(capsys):
    words = ["recipe", "--model", "two_layer", "--mesh", "data:4 model:2", "data_parallel", "data_parallel", "--json"]
    assert main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert "data_parallel is already applied and was skipped." in printed["notes"]
    assert len(printed["edits"]) == len(set(printed["edits"])) > 0


def test_no_message_names_an_index_that_the_package_is_not_from():
    from workbench.core.installation import install_command
    from workbench.engine.compile import compile_targets

    assert install_command("tpu") == 'pip install -e ".[tpu]" in the checkout'
    found = subprocess.run(
        ["git", "grep", "-lE", r"pip install[^@]*sharding-workbench", "--", "workbench/*.py"], capture_output=True, text=True, check=False
    )
    assert set(found.stdout.split()) <= {"workbench/core/installation.py"}
    assert compile_targets.install_command is install_command
    assert issubclass(DocumentError, WorkbenchError)
